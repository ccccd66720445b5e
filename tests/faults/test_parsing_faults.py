"""Parsers that fail in every way: what they cost is their file, or their language, never the answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repo_provider import corpus, syntax
from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.faults import fault
from tests.repos import Files, make_repo

RUBY = b"def kept_in_ruby_%d\n  # harbour master\nend\n"
PYTHON = b"def kept_in_python():\n    '''harbour master'''\n"
ASKED = ContextQuery("harbour master", 20, 8000)


def ruby_ends_it(payload: bytes) -> bytes:
    """As outlines are made, but for a grammar that takes its process along."""
    if msgspec.msgpack.decode(payload)[0] == "ruby":
        os.abort()
    return syntax.outline_task(payload)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    files: Files = {**{f"lib/{n}.rb": RUBY % n for n in range(12)}, "app.py": PYTHON}
    monkeypatch.setattr(corpus, "_OUTLINE_TASK", f"{__name__}:ruby_ends_it")
    opened = Provider(Settings(str(make_repo([("2026-01-01", files)], tmp_path / "r").path), workers=1))
    yield opened
    opened.close()


@fault(44, 116)
def test_a_grammar_that_always_ends_its_process_is_shut_out(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = provider.query(ASKED)
    assert first.truncated
    assert any(frame.id.endswith("#kept_in_python") for frame in first.frames)
    assert any("lib/0.rb" in frame.id for frame in first.frames)
    parsed: list[bytes] = []
    run = provider.workers.run

    def watched(task: str, payloads: Sequence[bytes], **limits: Any) -> Sequence[bytes | None]:
        parsed.extend(payloads if task.endswith("ruby_ends_it") else ())
        return run(task, payloads, **limits)

    monkeypatch.setattr(provider.workers, "run", watched)
    assert first == provider.query(ASKED)
    assert [] == parsed


@fault(40)
def test_lock_files_are_counted_and_never_given_to_a_grammar(tmp_path: Path) -> None:
    entry = b'"left-pad@^1.%d":\n  resolved "https://example.org/left-pad-%d.tgz"\n'
    files: Files = {
        "yarn.lock": b"".join(entry % (n, n) for n in range(9_000)),
        "Cargo.lock": b"".join(b'[[package]]\nname = "left-pad-%d"\n' % n for n in range(9_000)),
        "poetry.lock": b'[[package]]\nname = "left-pad"\n',
        "package-lock.json": b'{"packages": {"left-pad": {}}}\n',
        "src/pad.py": b"def left_pad(text):\n    return text\n",
    }
    provider = Provider(Settings(str(make_repo([("2026-01-01", files)], tmp_path / "r").path), workers=1))
    frames = provider.query(ContextQuery("left pad", 5, 4000)).frames
    assert "src/pad.py" in frames[0].id
    locked = provider.query(ContextQuery("left pad of yarn.lock", 5, 4000)).frames
    assert any("yarn.lock" in frame.id for frame in locked)
    provider.close()
