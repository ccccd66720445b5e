"""Envelopes, texts and repositories by chance: bytes nobody would write, and what is always true of the answer.

The same every time in a normal run; `HYPOTHESIS_PROFILE=deep` tries others and many more, and `python -m
tests.faults.fuzz` goes on for as long as it is told to.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pygit2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repo_provider.protocol import line_starts
from repo_provider.workers import Workers
from tests.connect import FAKE, HANDSHAKE, InProcess, OverStdio, query, repository
from tests.faults import fault, fuzz
from tests.repos import Content, Executable, Gitlink, Link, make_repo
from tests.spec import requirement

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"

# --- envelopes -------------------------------------------------------------------------------------------------

texts = st.text(max_size=20) | st.sampled_from(("\ud800", "\udfff\ud800", "\0", "\u2028", "a" * 5_000, "\U0001f600"))
numbers = st.integers() | st.floats() | st.sampled_from((2**32, -1, 2**63, 10**5_000 % 10**4_000, 1e308))
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(("type", "id", "query", "request", "protocol_version", "frames", "goal", "max_frames", "kinds"))
valid = st.sampled_from([json.loads(line) for line in fuzz.conversations() if line.startswith(b'{"type"')][:80])


@st.composite
def nearly_valid(draw: st.DrawFn) -> Any:
    """A valid envelope of which one thing, at any depth, is something else, missing or there too."""
    envelope = draw(valid)
    envelope = json.loads(json.dumps(envelope))
    place = envelope
    while inner := [each for each in place.values() if isinstance(each, dict)]:
        if draw(st.booleans()):
            break
        place = inner[0]
    name = draw(st.sampled_from(sorted(place) or ["type"]) | names)
    if draw(st.booleans()):
        place[name] = draw(anything)
    else:
        place.pop(name, None)
    return envelope


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


deep = st.tuples(st.sampled_from((b"[", b'{"a":', b'{"type":"query","query":[')), st.sampled_from((70, 2_000, 50_000)))
lines = st.one_of(
    valid.map(written),
    nearly_valid().map(written),
    anything.map(written),
    st.binary(max_size=60),
    deep.map(lambda made: made[0] * made[1]),
).map(lambda line: line.replace(b"\n", b" "))


@fault(94, 96)
@requirement("R1", "H4")
@given(lines)
def test_any_line_gets_one_envelope_or_none(line: bytes) -> None:
    fuzz.answered(line)


@fault(94)
@requirement("R1")
def test_no_line_ends_a_conversation_over_pipes() -> None:
    """A question with an id behind every bad line is answered: nothing was lost, and nobody left."""
    host, at = OverStdio(FAKE), Random(8)
    host.ask(HANDSHAKE)
    for number, line in enumerate(itertools.islice(fuzz.bad_lines(at), 20_000 if DEEP else 150)):
        if b"shutdown" in line or b"hang" in line or b"wait" in line or b"bytes" in line:
            continue
        host.send(line)
        host.send(query("still there", f"after {number}"))
        while (reply := host.receive()) and reply.get("id") != f"after {number}":
            assert reply["type"] in ("error", "frames", "verified", "handshake_ack")
        assert reply, line
    host.close()


@requirement("R1")
def test_mutated_conversations_get_one_envelope_or_none() -> None:
    for line in itertools.islice(fuzz.bad_lines(Random(9)), 200_000 if DEEP else 500):
        fuzz.answered(line)


# --- texts -----------------------------------------------------------------------------------------------------


@fault(36, 41, 116)
def test_a_mutated_text_has_an_outline_that_keeps_its_rules() -> None:
    """Or none, where it takes its parser with it."""
    found = list(itertools.islice(fuzz.bad_texts(Random(10)), 5_000 if DEEP else 24))
    workers = Workers(2)
    try:
        said = fuzz.read_texts(workers, found, wall=20.0)
    finally:
        workers.close()
    assert [] == [(language, one[1]) for (language, _), one in zip(found, said, strict=True) if one and one[1]]
    assert len(said) - said.count(None) > len(said) // 2


# --- repositories ----------------------------------------------------------------------------------------------

SAFE_ON_DISK = st.binary(min_size=1, max_size=12).map(lambda name: bytes(byte for byte in name if byte not in b"\0/"))
odd_names = st.one_of(
    SAFE_ON_DISK,
    st.sampled_from(
        (b"caf\xc3\xa9.py", b"cafe\xcc\x81.py", b"\xff\xfe.rb", b" ", b"-", b"--help", b"a\nb.py", b"\x1b[31m.md")
    ),
    st.sampled_from(
        (b"%2e%2e", b"#L1", b"a b.c", b"~1", b"@x", b"CON", b"a\\b.js", b"\xed\xa0\x80.go", b":x", b"*.py", b"[")
    ),
).filter(lambda name: name not in (b"", b".", b"..") and name.lower() != b".git")
paths = st.lists(odd_names, min_size=1, max_size=3).map(b"/".join)
WORDS = "harbour master berths the ship\n"
plain_texts = st.sampled_from(
    (
        b"",
        b"\n",
        WORDS.encode(),
        b"def harbour():\r    pass\r",
        b"def harbour():\r\n    return 1\r\n",
        b"# harbour \xe9\n",
        b"harbour\0master\n",
        b"\xef\xbb\xbfdef harbour(): pass\n",
        WORDS.encode("utf-16"),
        WORDS.encode("utf-16-le"),
        b"\xff\xfe\0\0" + WORDS.encode("utf-32-le"),
        b"harbour \x8f\xcf\x91\xd0 \x83\\\n",
        b"harbour " * 3_000,
        b"no newline at the harbour",
        b"<<<<<<< a\nharbour\n=======\nmaster\n>>>>>>> b\n",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n",
    )
)
contents: st.SearchStrategy[Content] = st.one_of(
    plain_texts,
    st.binary(max_size=80),
    plain_texts.map(Executable),
    st.sampled_from((".", "..", "/", "/etc/passwd", "missing", "a/../../x")).map(Link),
    st.just(Gitlink("1" * 40)),
)
ASKED = (query("harbour master berths a ship"), query("harbour", kinds=["graph", "doc", "symbol", "episode"]))


@fault(18, 82, 84)
@requirement("P2", "P5", "V1")
@settings(max_examples=400 if DEEP else 12, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(paths, contents, min_size=1, max_size=6), st.dictionaries(paths, contents, max_size=3))
def test_any_repository_is_answered_from_with_its_own_bytes(
    first: dict[bytes, Content], then: dict[bytes, Content]
) -> None:
    with TemporaryDirectory() as folder:
        made = make_repo([], Path(folder) / "repo", bare=True)
        try:
            made.commit("2026-01-01", _fitting(first))
            made.commit("2026-01-02", _fitting(then))
        except (pygit2.GitError, ValueError, OSError):
            return  # what git itself does not store
        host = InProcess(repository(made.path, "--workers", "1"))
        host.ask(HANDSHAKE)
        for question in _questions():
            reply = host.ask(question)
            assert "frames" == reply["type"], reply
            for frame in reply["result"]["frames"]:
                _is_true(frame, made.repo)
            held = [_identity(frame) for frame in reply["result"]["frames"]]
            verdicts = host.ask({"type": "verify", "request": {"frames": held}})["response"]["verdicts"]
            assert [] == [verdict for verdict in verdicts if verdict["status"] != "valid"]
        assert [] == host.close()


def _fitting(files: dict[bytes, Content]) -> dict[str | bytes, Content]:
    """Those of the files of which none lies below another."""
    return {name: files[name] for name in sorted(files) if not any(name.startswith(other + b"/") for other in files)}


def _questions() -> Iterator[Any]:
    for question in ASKED:
        yield question
        yield {**question, "query": {**question["query"], "as_of": "2026-01-01T12:00:00Z"}}


def _identity(frame: Any) -> dict[str, str]:
    return {"provider_id": "repo-provider", "frame_id": frame["id"], "content_digest": frame["content_digest"]}


def _is_true(frame: Any, repo: pygit2.Repository) -> None:
    """What a frame cites is what lies in the repository's own objects, byte for byte."""
    assert f"sha256:{sha256(frame['content'].encode()).hexdigest()}" == frame["content_digest"]
    for link in frame.get("provenance", ()):
        parts = urlsplit(link["uri"]).path.split(";") if "digest" in link else [""]
        if parts[0].startswith("1:cnt:"):
            blob = repo[parts[0].removeprefix("1:cnt:")]
            assert isinstance(blob, pygit2.Blob)
            assert link["digest"] == f"sha256:{sha256(_cited(blob.data, link.get('range'))).hexdigest()}"
            named = next((part for part in parts if part.startswith("path=/")), "path=/")
            assert b"\0" not in unquote_to_bytes(named)


def _cited(data: bytes, lines: str | None) -> bytes:
    if lines is None:
        return data
    first, _, last = lines.removeprefix("L").partition("-")
    starts = [*line_starts(data), len(data)]
    return data[starts[int(first) - 1] : starts[min(int(last or first), len(starts) - 1)]]
