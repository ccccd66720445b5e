"""Which files come first for which question: ranks, not scores, over small made repositories in `fixtures/ranks/`.

A file holds a repository and questions, each with what it shows and the first files found, best first. A change of
the ranking shows here what it moves: `pytest tests/test_ranks.py --update` rewrites, the difference is for a person to
read. An empty question, one of stop words and one of words that stand nowhere are answered with no frame at all.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from repo_provider.frames import parse_name
from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.connect import ROOT
from tests.repos import make_repo

RANKS = ROOT / "fixtures" / "ranks"
FIRST = 3
"""Files that are written down: what stands behind them is nobody's promise."""


@cache
def told(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def serving(path: Path) -> Provider:
    made = make_repo([("2026-01-01", told(path)["files"])])
    return Provider(Settings(path=str(made.path), workers=1))


def first_files(provider: Provider, question: str) -> list[str]:
    frames = provider.query(ContextQuery(goal=question, max_frames=20, max_tokens=20_000)).frames
    names = [name for frame in frames if (name := parse_name(frame.id)) is not None]
    return list(dict.fromkeys(name.path.decode() for name in names))[:FIRST]


@pytest.mark.parametrize("path", sorted(RANKS.glob("*.json")), ids=lambda path: path.stem)
def test_the_first_files_are_those_that_are_written_down(path: Path, update: bool) -> None:
    provider = serving(path)
    questions = told(path)["questions"]
    found = [{**question, "found": first_files(provider, question["ask"])} for question in questions]
    provider.close()
    if update:
        text = json.dumps({**told(path), "questions": found}, ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf-8")
    else:
        assert questions == found
