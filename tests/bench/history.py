"""History as an index: time to build, an unseen instant, size on disk, beside `git log --raw` and `git grep`.

    python -m tests.bench history --repo PATH [--json FILE] [--instants N]

The store starts empty. "Whole line" is what every commit on the first-parent line changed, which C git lists with
`git log --first-parent --raw`. An unseen instant is one whose files nobody has counted yet; `git grep <rev>` reads
the same tree for one word.
"""

from __future__ import annotations

import tempfile
from functools import partial

from repo_provider.protocol import ContextQuery, format_instant
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.bench._measure import Table, arguments, folder_bytes, questions, run_peer


def main() -> None:
    typed = arguments(__doc__, instants=5)
    table = Table()
    log = run_peer("git", "-C", typed.repo, "log", "--first-parent", "-m", "--raw", "--no-renames", "--format=%H")
    if log:
        table.add("git log --first-parent --raw", *log)
    with tempfile.TemporaryDirectory() as store:
        provider = Provider(Settings(typed.repo, store=store, deadline=None))
        tip = provider.repository.head()
        assert tip is not None
        table.timed(
            "the line itself", lambda: provider.history.line(tip), lambda line: f"{len(line)} first-parent commits"
        )
        table.timed("whole line, what each commit changed", provider.history.build)
        provider.store.flush()
        table.add("size on disk", note=f"{folder_bytes(store) / 1e6:.1f} MB")
        table.timed("again, from the store", provider.history.build)
        line = provider.history.line(tip)
        goals = questions(typed.repo, typed.instants)
        for number, goal in enumerate(goals, 1):
            position = len(line) * number // (len(goals) + 1)
            when = format_instant(line.times[position])
            grep = run_peer("git", "-C", typed.repo, "grep", "-c", goal.split()[0], line.commits[position].hex())
            if grep:
                table.add(f"git grep <rev> as of {when}", *grep)
            query = ContextQuery(goal, 8, 2000, as_of=when)
            for name in ("unseen", "seen"):
                table.timed(
                    f"{name} as of {when}",
                    partial(provider.query, query),
                    lambda found: f"{len(found.frames)} frames",
                )
        provider.close()
    table.write(typed.json)


if __name__ == "__main__":
    main()
