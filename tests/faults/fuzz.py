"""Random bad bytes: what the wire decoder is fed, and what a text is made of before its outline is taken.

    python -m tests.faults.fuzz wire 600         # for so many seconds, with chance of its own; finds are printed
    python -m tests.faults.fuzz outlines 600

`test_fuzzed_faults.py` runs a short form of both, the same every time. Corpora are what the repository holds already:
golden conversations and samples of every language. A text is read in a worker, as the provider does it, so that one
that kills or hangs a parser costs that text; that is counted and no find, an exception or a broken outline is one.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from random import Random
from tempfile import gettempdir
from time import monotonic, process_time
from traceback import format_exc

import msgspec

from repo_provider import corpus, lexical, syntax
from repo_provider.protocol import ContextQuery, ContextQueryResult
from repo_provider.session import Service, Session
from repo_provider.workers import Workers
from tests import fake
from tests.connect import HANDSHAKE, ROOT, checked, encode, query

LONGEST = 60_000
SLOW = 5.0
"""Processor seconds for one text that are reported in the long form, and never asserted."""

# --- how bytes go bad ------------------------------------------------------------------------------------------

OPENERS = b"\"'`([{<\\#/*%|$@=:;,.-\n\t \x00\xff"
SIGNS: Sequence[bytes] = (
    *(b'"""', b"'''", b"/*", b"*/", b"<!--", b"-->", b"${", b"#{", b"<script>", b"</script>", b"R\"(", b"#if 0\n"),
    *(b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"```\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xc3"),
    *(b"\xe2\x80\xa8", b"\\u{", b"\\", b"1e999", b"0x", b"\xf0\x9f\x98\x80", b"import ", b"class ", b"end\n", b"{%"),
)  # fmt: skip


def spliced(data: bytes, other: bytes, at: Random) -> bytes:
    start, end = _cut(other, at)
    here = at.randint(0, len(data))
    return data[:here] + other[start:end] + data[here:]


def deleted(data: bytes, other: bytes, at: Random) -> bytes:
    start, end = _cut(data, at)
    return data[:start] + data[end:]


def repeated(data: bytes, other: bytes, at: Random) -> bytes:
    start, end = _cut(data, at, at.choice((1, 4, 30, 300)))
    return data[:start] + data[start:end] * at.choice((2, 20, 500, 5_000)) + data[end:]


def nested(data: bytes, other: bytes, at: Random) -> bytes:
    opening, closing = at.choice(((b"(", b")"), (b"[", b"]"), (b"{", b"}"), (b"<", b">"), (b'"', b"'"), (b"`", b"`")))
    depth = at.choice((3, 50, 1_000, 10_000))
    start, end = _cut(data, at, 40)
    inner = opening * depth + data[start:end] + closing * at.choice((depth, depth - 1, 0))
    return data[:start] + inner + data[end:]


def noised(data: bytes, other: bytes, at: Random) -> bytes:
    here = at.randint(0, len(data))
    return data[:here] + at.randbytes(at.choice((1, 3, 50))) + data[here + at.choice((0, 1, 3)) :]


def signed(data: bytes, other: bytes, at: Random) -> bytes:
    """A mark that opens or closes something, where nobody closes or opened it; often many of them."""
    here = at.randint(0, len(data))
    sign = at.choice(SIGNS) if at.random() < 0.6 else bytes([at.choice(OPENERS)])
    return data[:here] + sign * at.choice((1, 1, 1, 2, 1_000)) + data[here:]


def unbroken(data: bytes, other: bytes, at: Random) -> bytes:
    """One very long line."""
    return data.replace(b"\n", at.choice((b" ", b"", b";", b"\r", b"\0")))


def halved(data: bytes, other: bytes, at: Random) -> bytes:
    return data[: at.randint(0, len(data))]


def flipped(data: bytes, other: bytes, at: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(at.choice((1, 5, 50)) if data else 0):
        changed[at.randrange(len(data))] ^= 1 << at.randrange(8)
    return bytes(changed)


def shuffled(data: bytes, other: bytes, at: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at.shuffle(lines)
    return b"".join(lines)


WAYS: Sequence[Callable[[bytes, bytes, Random], bytes]] = (
    spliced, deleted, repeated, nested, noised, signed, unbroken, halved, flipped, shuffled,
)  # fmt: skip


def mutated(data: bytes, other: bytes, at: Random) -> bytes:
    for _ in range(at.choice((1, 1, 2, 3, 6))):
        data = at.choice(WAYS)(data, other, at)[:LONGEST]
    return data


def _cut(data: bytes, at: Random, longest: int = 3_000) -> tuple[int, int]:
    start = at.randint(0, len(data))
    return start, min(len(data), start + at.randint(0, longest))


# --- lines for the wire ----------------------------------------------------------------------------------------


@cache
def conversations() -> Sequence[bytes]:
    sessions = [line for path in sorted((ROOT / "fixtures" / "sessions").glob("*")) for line in _lines(path)]
    frames = [{"provider_id": "fake", "frame_id": "doc:README.md:L1", "content_digest": "sha256:" + "0" * 64}]
    own = [HANDSHAKE, query("x", "1"), query("\u00e9\U0001f600", anchors=["a.py"], as_of="2026-01-01T00:00:00Z")]
    own += [
        {"type": "verify", "request": {"frames": frames}, "id": "v"},
        {"type": "shutdown"},
        {"type": "odd", "id": "o"},
    ]
    return tuple(sorted({*sessions, *map(encode, own)}))


def _lines(path: Path) -> Iterator[bytes]:
    for line in path.read_bytes().splitlines():
        yield line[line.find(b"{") :] if b"{" in line else line


def bad_lines(at: Random) -> Iterator[bytes]:
    known = conversations()
    while True:
        yield mutated(at.choice(known), at.choice(known), at).replace(b"\n", b"\r")


def answered(line: bytes) -> str:
    """What a session says to a line: the reply's type, or "" for none. Raises AssertionError for what it may not."""
    session = Session(_service(), open=True)
    job = session.receive(line)
    if job is None:
        return ""
    reply = job.run()
    envelope = checked(reply.data)
    assert envelope.get("code") != "internal", line
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return str(envelope["type"])
    if isinstance(said, dict) and isinstance(said.get("id"), str) and "id" in envelope:
        assert envelope["id"] == said["id"]  # H4: verbatim
    return str(envelope["type"])


@cache
def _service() -> Service:
    return fake.service(Still())


class Still(fake.Fake):
    """Without the goals that wait for somebody."""

    def query(self, query: ContextQuery, deadline: float | None) -> ContextQueryResult:
        return ContextQueryResult((fake.frame(query.goal),), False)


# --- texts for the outlines ------------------------------------------------------------------------------------


@cache
def samples() -> Sequence[tuple[str, bytes]]:
    found = sorted((ROOT / "fixtures" / "languages").glob("*/*"))
    return tuple((path.parent.name, path.read_bytes()) for path in found if path.suffix != ".outline")


def bad_texts(at: Random) -> Iterator[tuple[str, bytes]]:
    known = samples()
    while True:
        language, data = at.choice(known)
        yield language, mutated(data, at.choice(known)[1], at)


def read_text(payload: bytes) -> bytes:
    """A worker's task: a text is read as the index and an answer read it. The seconds it took, and what went wrong."""
    from tests.test_languages import check

    language, data = msgspec.msgpack.decode(payload, type=tuple[str, bytes])
    started, wrong = process_time(), ""
    try:
        outline = syntax.outline(data, language)
        check(outline, data)
        assert outline == syntax.decode_outline(syntax.outline_task(syntax.encode_task(data, language)))
        lexical.analyse(data, corpus._rules(language))
    except Exception:
        wrong = format_exc()
    return msgspec.msgpack.encode((process_time() - started, wrong))


def read_texts(workers: Workers, texts: Sequence[tuple[str, bytes]], wall: float) -> list[tuple[float, str] | None]:
    """What `read_text` says of each; None where reading it ended its worker."""
    payloads = [msgspec.msgpack.encode(text) for text in texts]
    found = workers.run("tests.faults.fuzz:read_text", payloads, wall=wall)
    return [None if one is None else msgspec.msgpack.decode(one, type=tuple[float, str]) for one in found]


# --- the long form ---------------------------------------------------------------------------------------------


def main(what: str, seconds: float) -> int:
    """Prints figures; the number of finds."""
    seed = int.from_bytes(os.urandom(4))
    print(f"{what}, seed {seed}")
    counted: Counter[str] = Counter()
    finds = {"wire": _wire, "outlines": _outlines}[what](Random(seed), monotonic() + seconds, counted)
    print(*(f"{name or 'no reply'}: {number}" for name, number in sorted(counted.items())), f"finds: {finds}", sep="\n")
    return finds


def _wire(at: Random, until: float, counted: Counter[str]) -> int:
    finds = 0
    for line in bad_lines(at):
        if monotonic() > until:
            break
        try:
            counted[answered(line)] += 1
        except Exception:
            finds += 1
            _report("wire", line, format_exc())
    return finds


def _outlines(at: Random, until: float, counted: Counter[str]) -> int:
    finds, texts, workers = 0, bad_texts(at), Workers(1)
    while monotonic() < until:
        batch = [next(texts) for _ in range(200)]
        for (language, data), said in zip(batch, read_texts(workers, batch, 20.0), strict=True):
            counted["read" if said else f"worker lost: {language}"] += 1
            if said is None:
                _report(language, data, "its worker was lost")
            elif said[1] or said[0] > SLOW:
                finds += 1
                _report(language, data, said[1] or f"{said[0]:.1f} s of the processor")
    workers.close()
    return finds


def _report(about: str, data: bytes, wrong: str) -> None:
    kept = Path(gettempdir()) / f"fuzz-{about}-{sha1(data).hexdigest()[:10]}"
    kept.write_bytes(data)
    print(f"{kept}: {wrong}", flush=True)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1], float(sys.argv[2])) else 0)
