"""What a score means: the share of relevant frames among those of a score band, overall and by repository.

    python -m tests.bench calibration --repos DIR --queries FILE [--only NAME,...] [--store DIR]

Questions and repositories are those of `retrieval`. Hosts merge providers by score, so a band should mean the same for
every question: the share should rise from band to band, and differ little between repositories.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence

from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from tests.bench.retrieval import Question, matches, over, questions, results

EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Where each band starts."""


def judged(provider: Provider, question: Question) -> list[tuple[int, bool]]:
    """The band of each frame of an answer, and whether it is relevant."""
    query = ContextQuery(goal=question.query, max_frames=40, max_tokens=200_000)
    prefix = "" if question.root in ("", ".") else question.root.rstrip("/") + "/"
    found = []
    for frame in provider.query(query).frames:
        for result in results([frame]):
            if result.path.startswith(prefix):
                band = sum(frame.score >= edge for edge in EDGES) - 1
                found.append((band, any(matches(result, target) for target in question.relevant)))
    return found


def shares(found: Sequence[tuple[int, bool]]) -> str:
    """One cell a band: the share that is relevant, of how many."""
    cells = []
    for band in range(len(EDGES)):
        inside = [relevant for at, relevant in found if at == band]
        cells.append(f"{sum(inside) / len(inside):5.2f} of {len(inside):5}" if inside else " " * 14)
    return "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench calibration")
    parser.add_argument("--repos", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--store")
    options = parser.parse_args()
    only = frozenset(filter(None, options.only.split(",")))
    by_repo = defaultdict[str, list[Question]](list)
    for question in questions(options.queries):
        if not only or question.repo in only:
            by_repo[question.repo].append(question)
    everything: list[tuple[int, bool]] = []
    print(" " * 12, "  ".join(f"{f'{edge} and up':>14}" for edge in EDGES))

    def work(name: str, provider: Provider) -> None:
        found = [frame for question in by_repo[name] for frame in judged(provider, question)]
        everything.extend(found)
        print(f"{name:12}", shares(found), flush=True)

    over(options.repos, options.store, sorted(by_repo), work)
    print(f"{'all':12}", shares(everything))


if __name__ == "__main__":
    main()
