"""Files in every encoding and with every kind of line end: found, shown as text, judged by their own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from repo_provider.protocol import ContextFrame, ContextQuery, FrameId, digest, lines_span, parse_range
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.faults import fault
from tests.repos import Files, Made, make_repo

FILES = {
    "latin.py": b"# gar\xe7on\ndef in_latin(): pass\n",
    "sjis.c": "/* 日本 */\nint in_sjis(void) { return 1; }\n".encode("shift_jis"),
    "euc.py": "# 中文\ndef in_euc(): pass\n".encode("gb18030"),
    "little.cs": "\ufeffclass InLittle { int x; } // ç\n".encode("utf-16-le"),
    "big.py": "\ufeffdef in_big(): pass  # ç\n".encode("utf-16-be"),
    "wide.py": "\ufeffdef in_wide(): pass\n".encode("utf-32-le"),
    "marked.py": b"\xef\xbb\xbfdef in_marked(): pass\n",
    "twice.py": b"\xef\xbb\xbf\xef\xbb\xbfdef in_twice(): pass\n",
    "windows.py": b"def in_windows():\r\n    return 1\r\n",
    "mixed.py": b"x = 1\r\ndef in_mixed():\n    return 1\r\n",
    "old_mac.py": b"x = 1\rdef in_old_mac():\r    return 1\r",
    "feed.py": b"x = 1\x0c\ndef in_feed():\x0b\n    return '\x85\xe2\x80\xa8'\n",
    "no_end.py": b"def in_no_end(): pass",
    "cut.py": b"def in_cut(): return '\xe2\x82'\n",
    "surrogate.py": b"def in_surrogate(): return '\xed\xa0\x80'\n",
    "overlong.py": b"def in_overlong(): return '\xc0\xaf\xf8'\n",
    "escape.py": b"def in_escape(): return '\x1b[2J'\n",
}
LOST: dict[str, bytes] = {
    "nul.py": b"def in_nul(): pass\n\0" + bytes(10),
    "image.png": b"\x89PNG\r\n\x1a\n" + bytes(50),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    files: Files = {str(name): data for name, data in (FILES | LOST).items()}
    return make_repo([("2026-01-01", files)], tmp_path_factory.mktemp("bytes") / "r")


@pytest.fixture(scope="module")
def serving(made: Made) -> Iterator[Provider]:
    provider = Provider(Settings(path=str(made.path), workers=1, store=None))
    yield provider
    provider.close()


def ask(provider: Provider, goal: str, as_of: str | None) -> tuple[ContextFrame, ...]:
    return provider.query(ContextQuery(goal=goal, max_frames=9, max_tokens=9_999, as_of=as_of)).frames


@fault(82, 83)
@pytest.mark.parametrize("as_of", [None, "2026-02-01T00:00:00Z"])
@pytest.mark.parametrize("name", FILES)
def test_each_is_found_shown_and_judged(made: Made, serving: Provider, name: str, as_of: str | None) -> None:
    stem = name.partition(".")[0]
    goal = {"little": "InLittle"}.get(stem, f"in_{stem}")
    frame = next(frame for frame in ask(serving, goal, as_of) if name in frame.id)
    assert goal in frame.content
    assert frame.content.encode("utf-8")
    raw = FILES[name]
    exact = frame.content.encode() in raw
    assert exact or "normalized" == frame.content_fidelity
    assert digest(frame.content.encode()) == frame.content_digest
    link = frame.provenance[0]
    span = lines_span(raw, *(parse_range(link.range) or (0, 0))) if link.range else (0, len(raw))
    assert span is not None
    assert digest(raw[slice(*span)]) == link.digest
    held = [FrameId("repo-provider", frame.id, frame.content_digest)]
    assert ["valid"] == [verdict.status for verdict in serving.verify(held)]


@fault(80, 82)
def test_what_is_no_text_is_counted(serving: Provider) -> None:
    told = str(serving.status()["files"])
    assert all(name in told for name in LOST)


@fault(25)
@pytest.mark.parametrize(
    "attributes", ["text=auto", "text eol=crlf", "filter=evil ident", "working-tree-encoding=UTF-16"]
)
def test_no_attribute_comes_between_a_file_and_its_digest(tmp_path: FilePath, attributes: str) -> None:
    made = make_repo([("2026-01-01", {"f.py": b"def here():\r\n    return '$Id$'\r\n"})], tmp_path / "r")
    made.repo.config["core.autocrlf"] = "true"
    made.repo.config["filter.evil.clean"] = "touch pwned"
    made.repo.config["filter.evil.smudge"] = "touch pwned"
    made.commit("2026-01-02", {".gitattributes": f"*.py {attributes}\n"})
    provider = Provider(Settings(path=str(made.path), workers=1, store=None))
    first = provider.now()
    assert all(provider.now() is first for _ in range(5)), "nothing changed, so nothing is looked at again"
    (frame, *_) = ask(provider, "here", None)
    assert b"def here():\r\n    return '$Id$'\r\n" == frame.content.encode()
    assert "2026-01-01T00:00:00Z" == frame.valid_from
    assert [] == list(tmp_path.rglob("pwned"))
    provider.close()
