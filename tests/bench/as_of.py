"""Questions about past instants over the whole history, unseen and seen, beside `git grep <rev>`.

    python -m tests.bench as_of --repo PATH [--json FILE] [--count N]

Asked over a pipe of a server that has read what is served now and its history. Each instant is asked twice, with two
questions; the third row restarts the server, so that contents and messages come from the store.
"""

from __future__ import annotations

import tempfile
import time

from repo_provider.protocol import format_instant
from tests.bench._measure import Host, Table, arguments, git, questions, run_peer


def main() -> None:
    typed = arguments(__doc__, count=12)
    table = Table()
    stamps = sorted(int(line) for line in git(typed.repo, "log", "--first-parent", "--format=%ct").split())
    instants = [format_instant(stamps[len(stamps) * (2 * n + 1) // (2 * typed.count)]) for n in range(typed.count)]
    goals = questions(typed.repo, 2 * typed.count)
    with tempfile.TemporaryDirectory() as store:
        host = Host(typed.repo, "--store", store, "--deadline", "0")
        host.query(goals[0])
        host.settle()
        _rows(table, host, instants, goals, ("never seen", "seen"))
        table.add("memory after that", note=f"PSS {host.pss() / 1e6:.0f} MB")
        host.close()
        host = Host(typed.repo, "--store", store, "--deadline", "0")
        host.query(goals[0])
        host.settle()
        _rows(table, host, instants, goals, ("known to the store",))
        host.close()
    times, cpu = [], 0.0
    for when in instants:
        rev = git(typed.repo, "rev-list", "-1", "--first-parent", f"--before={when}", "HEAD").decode().strip()
        started = time.perf_counter()
        ran = run_peer("git", "-C", typed.repo, "grep", "-c", "-e", goals[0].split()[0], rev)
        times.append(time.perf_counter() - started)
        cpu += ran[1] if ran else 0.0
    table.spread("git grep <rev>, one word", times, cpu)
    table.write(typed.json)


def _rows(table: Table, host: Host, instants: list[str | None], goals: list[str], names: tuple[str, ...]) -> None:
    times: dict[str, list[float]] = {name: [] for name in names}
    cpu = dict.fromkeys(names, 0.0)
    for number, when in enumerate(instants):
        for place, name in enumerate(names):
            before, started = host.cpu(), time.perf_counter()
            host.query(goals[2 * number + place], as_of=when)
            times[name].append(time.perf_counter() - started)
            cpu[name] += host.cpu() - before
    for name in names:
        table.spread(f"an instant {name}", times[name], cpu[name])


if __name__ == "__main__":
    main()
