"""From spawn to the handshake and to the first frames: no store, a cold one, a warm one, beside a mere loop.

    python -m tests.bench startup --repo PATH [--json FILE] [--rounds N] [--deadline SECONDS]

The peer is a Python process that reads a line and writes a fixed one: what any provider in this language starts at.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence

from tests.bench._measure import Host, Table, arguments, questions

NOTHING = """
import sys
for line in sys.stdin:
    print('{"type": "frames"}' if '"query"' in line else '{"type": "handshake_ack"}', flush=True)
"""


def main() -> None:
    typed = arguments(__doc__, rounds=5, deadline=1.8)
    table = Table()
    goal = questions(typed.repo, 3)[0]
    with tempfile.TemporaryDirectory() as store:
        warm = Host(typed.repo, "--store", store)
        warm.query(goal)
        warm.settle()
        warm.close()
        late = ("--deadline", str(typed.deadline))
        rounds = range(typed.rounds)

        def spread(name: str, *options: str, command: Sequence[str] = ()) -> None:
            acks, answers, cut, cpu = [], [], 0, 0.0
            for number in rounds:
                chosen = [option.format(number) for option in options]
                host = Host(typed.repo, *chosen, command=command)
                acks.append(host.ready - host.spawned)
                result = host.query(goal).get("result", {})
                answers.append(time.perf_counter() - host.spawned)
                cut += bool(result.get("truncated")) and "dropped_estimate" not in result
                cpu += host.cpu()
                host.close()
            table.spread(f"{name}: spawn to ack", acks)
            table.spread(f"{name}: spawn to frames", answers, cpu, f"{cut} cut" if cut else "")

        spread("a provider that does nothing", command=(sys.executable, "-c", NOTHING))
        spread("no store", "--no-store", *late)
        spread("no store, complete", "--no-store", "--deadline", "0")
        with tempfile.TemporaryDirectory() as cold:
            spread("cold store", "--store", cold + "/{}", *late)
        spread("warm store", "--store", store, *late)
    table.write(typed.json)


if __name__ == "__main__":
    main()
