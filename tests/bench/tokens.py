"""How many model tokens a budget token of source is, by language, and how fast they are counted.

    python -m tests.bench.tokens --repos PATH... [--tokenizer NAME] [--json FILE]

Every text file is taken in runs of forty lines, which is what frames look like. A ratio above 1 is what an answer
overflows a model by when it is packed by B3's bytes / 4 alone; `over` is the share of runs that have one.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from repo_provider import files
from repo_provider.model import Text
from repo_provider.protocol import token_cost
from repo_provider.repository import Repository
from repo_provider.tokens import Tokenizer, tokenizer

LINES = 40
_LEAST = 20
"""Runs of a language below which a distribution says nothing."""


def measure(repositories: Sequence[str], name: str) -> dict[str, dict[str, dict[str, float]]]:
    counter = tokenizer(name)
    counter.warm()
    table = {}
    for path in repositories:
        table[os.path.basename(os.path.normpath(path))] = _of_repository(path, counter)
    print(f"\n{counter.uncounted} runs were not counted")
    return table


def _of_repository(path: str, counter: Tokenizer) -> dict[str, dict[str, float]]:
    ratios: dict[str, list[float]] = defaultdict(list)
    bytes_read, tokens, spent = 0, 0, 0.0
    for language, content in _runs(Repository.open(path)):
        started = time.perf_counter()
        counted = counter.count(content)
        spent += time.perf_counter() - started
        bytes_read += len(content.encode())
        tokens += counted or 0
        if counted is not None:
            ratios[language].append(counted / token_cost(content))
    print(
        f"\n{path}: {bytes_read / 1e6:.1f} MB, {tokens} tokens of {counter.ref}, {tokens / spent / 1e6:.2f} M tokens/s"
    )
    print(f"{'language':14}{'runs':>8}{'10 %':>8}{'median':>8}{'90 %':>8}{'99 %':>8}{'over':>8}")
    rows = {language: _distribution(found) for language, found in sorted(ratios.items()) if len(found) >= _LEAST}
    for language, row in rows.items():
        figures = "".join(f"{row[part]:8.2f}" for part in ("10 %", "median", "90 %", "99 %"))
        print(f"{language:14}{row['runs']:8.0f}{figures}{row['over']:8.1%}")
    return rows


def _runs(repository: Repository) -> Iterator[tuple[str, str]]:
    snapshot = repository.working_tree()
    for path in snapshot.entries:
        data = repository.read(snapshot, path)
        if data is None or files.unserved(path, data) is not None:
            continue
        text, language = Text(data), files.language_of(path, data).name
        for first in range(1, text.line_count + 1, LINES):
            span = text.span(first, first + LINES - 1)
            if span is not None:
                yield language, text.content(span)[0]


def _distribution(ratios: Sequence[float]) -> dict[str, float]:
    ordered = sorted(ratios)
    at = {"10 %": 0.1, "median": 0.5, "90 %": 0.9, "99 %": 0.99}
    quantiles = {part: round(ordered[int(share * (len(ordered) - 1))], 3) for part, share in at.items()}
    over = sum(ratio > 1 for ratio in ordered) / len(ordered)
    return {"runs": float(len(ordered)), **quantiles, "over": round(over, 4)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tokens", description="Model tokens per budget token.")
    parser.add_argument("--repos", nargs="+", required=True)
    parser.add_argument("--tokenizer", default="o200k_base")
    parser.add_argument("--json")
    chosen = parser.parse_args(arguments)
    table = measure(chosen.repos, chosen.tokenizer)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
