"""Values that cross the wire, and the grammars they are written in.

Every envelope member of contextgraph/1.0 that a provider reads or writes is a frozen struct here; the small
grammars (instants F4, digests F5, line ranges F17, token cost B3) are functions beside them. Nothing here does
I/O or knows the repository. `wire` turns these into bytes and back; every other module speaks in them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import date
from io import BytesIO
from itertools import accumulate
from time import gmtime
from typing import Annotated, Literal, NewType, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from repo_provider.errors import BadRequest

Digest = NewType("Digest", str)
"""`sha256:` and 64 lowercase hex digits (F5)."""

Instant = NewType("Instant", int)
"""Seconds since 1970-01-01T00:00:00Z, any integer git can store."""

U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
NonEmpty = Annotated[str, Meta(min_length=1)]

PROTOCOL_VERSION = "contextgraph/1.0"
KINDS = ("snippet", "symbol", "doc", "graph", "episode")
"""Kinds this provider can serve, in the order it declares them."""


# --- structs ---------------------------------------------------------------------------------------------------


class DataFlow(Struct, frozen=True, omit_defaults=True):
    reads: bool
    writes: bool
    egress: bool
    egress_scopes: tuple[str, ...] = ()


class ProviderInfo(Struct, frozen=True):
    name: str
    version: str
    data_flow: DataFlow


class QueryCapability(Struct, frozen=True):
    kinds: tuple[str, ...]


class Capabilities(Struct, frozen=True, omit_defaults=True):
    query: QueryCapability
    correlation: bool = False
    graph: bool = False
    verify: bool = False


class AttesterKey(Struct, frozen=True):
    key_id: str
    algorithm: str
    public_key: str


class ContextQuery(Struct, frozen=True, omit_defaults=True):
    goal: NonEmpty
    max_frames: U32
    max_tokens: U32
    query_text: str | None = None
    kinds: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    as_of: str | None = None
    representation_preferences: tuple[str, ...] = ()


class Provenance(Struct, frozen=True, omit_defaults=True):
    """One link of a frame's chain, closest to the source first. On the wire the kind is called `type`."""

    type: str
    uri: str | None = None
    range: str | None = None
    digest: Digest | None = None
    method: str | None = None
    by: str | None = None


class Relation(Struct, frozen=True):
    """G1, G2: `display_name` and `target_uri` are never empty."""

    rel: str
    target_uri: str
    display_name: str


class ContextFrame(Struct, frozen=True, omit_defaults=True):
    id: str
    kind: str
    title: str
    score: float
    token_cost: int
    content: str
    content_digest: Digest
    uri: str | None = None
    content_fidelity: str | None = None
    canonical_token_cost: int | None = None
    tokenizer_ref: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    provenance: tuple[Provenance, ...] = ()
    citation_label: str = ""
    relations: tuple[Relation, ...] = ()


class FrameId(Struct, frozen=True, omit_defaults=True):
    """A frame identity as a host holds it. `content_digest` tells absent from null, so that it is echoed whole."""

    provider_id: NonEmpty
    frame_id: NonEmpty
    content_digest: str | UnsetType | None = UNSET


Status: TypeAlias = Literal["valid", "stale", "gone", "unknown"]


class FrameVerdict(Struct, frozen=True, omit_defaults=True):
    frame: FrameId
    status: Status
    replacement_digest: Digest | None = None


class ProvenanceAttestation(Struct, frozen=True):
    signed_commitment: str
    key_id: str
    algorithm: str
    attester_id: str
    signature: str
    issued_at: str


class InclusionStep(Struct, frozen=True):
    sibling: str
    sibling_is_left: bool


class InclusionProof(Struct, frozen=True):
    leaf_index: int
    leaf_count: int
    path: tuple[InclusionStep, ...]


class FrameAttestation(Struct, frozen=True, omit_defaults=True):
    frame: FrameId
    attestation: ProvenanceAttestation | None = None
    inclusion_proof: InclusionProof | None = None


class ContextQueryResult(Struct, frozen=True, omit_defaults=True):
    frames: tuple[ContextFrame, ...]
    truncated: bool
    dropped_estimate: int | None = None
    frame_attestations: tuple[FrameAttestation, ...] = ()
    result_attestation: ProvenanceAttestation | None = None


# --- digests and cost ------------------------------------------------------------------------------------------


def digest(data: bytes) -> Digest:
    """The F5 digest of exactly these bytes."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def token_cost(content: str) -> int:
    """B3: ceil(bytes / 4), exact."""
    return -(-len(content.encode("utf-8")) // 4)


# --- instants (F4) ---------------------------------------------------------------------------------------------

_F4 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FIRST_F4, _LAST_F4 = -62_167_219_200, 253_402_300_799  # years 0000 and 9999


def parse_instant(text: str) -> Instant:
    """The whole second of an F4 timestamp, rounded down.

    Commit times are whole seconds, so `time <= as_of` and `as_of < time` both survive the rounding (Q2).
    Raises BadRequest (`invalid_time`) for anything the grammar or the calendar refuses.
    """
    match = _F4.fullmatch(text)
    if match is None:
        raise BadRequest("as_of is not a YYYY-MM-DDTHH:MM:SSZ timestamp", reason="invalid_time")
    year, month, day, hour, minute, second = (int(group) for group in match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= _days_in(year, month) or hour > 23 or minute > 59 or second > 60:
        raise BadRequest("as_of is not a date of the calendar", reason="invalid_time")
    shifted = date(year or 400, month, day).toordinal() - (0 if year else 146_097)  # date knows no year 0
    return Instant((shifted - _EPOCH_ORDINAL) * 86_400 + hour * 3_600 + minute * 60 + second)


def _days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTH_DAYS[month - 1]


def format_instant(instant: int | None) -> str | None:
    """F4 text of an instant; None where F4 has no spelling for it (before year 0, after 9999)."""
    if instant is None or not _FIRST_F4 <= instant <= _LAST_F4:
        return None
    era, rest = divmod(instant, 400 * 31_556_952)  # gmtime of the platform need not take years before 1970
    t = gmtime(rest)
    year = t.tm_year + 400 * era
    return f"{year:04}-{t.tm_mon:02}-{t.tm_mday:02}T{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}Z"


# --- line ranges (F17) -----------------------------------------------------------------------------------------

_RANGE = re.compile(r"L([1-9]\d*)(?:-([1-9]\d*))?", re.ASCII)


def format_range(first: int, last: int) -> str:
    """F17 text of 1-based inclusive lines; one line is `L5`, never `L5-5`."""
    return f"L{first}" if first == last else f"L{first}-{last}"


def parse_range(text: str) -> tuple[int, int] | None:
    """1-based inclusive lines of an F17 range; None for any text the grammar does not give."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first = _line_number(match[1])
    last = _line_number(match[2] or match[1])
    return None if last < first else (first, last)


def _line_number(digits: str) -> int:
    return int(digits) if len(digits) < 19 else 10**18  # unbounded on the wire; past any file's end all are alike


def line_starts(data: bytes) -> list[int]:
    """0-based byte offset of the start of every line (F17: a line ends after each LF, a final LF opens none)."""
    starts = [0, *accumulate(map(len, BytesIO(data)))]
    starts.pop()
    return starts


def lines_span(data: bytes, first: int, last: int, starts: Sequence[int] | None = None) -> tuple[int, int] | None:
    """Byte span [start, end) of 1-based lines, the end clamped to the last line (F17).

    None where the first line lies past the end: such a range addresses nothing.
    """
    starts = line_starts(data) if starts is None else starts
    if first > len(starts):
        return None
    return starts[first - 1], starts[last] if last < len(starts) else len(data)


# --- uris ------------------------------------------------------------------------------------------------------

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_QUOTED = tuple(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256))
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def quote(raw: bytes) -> str:
    """Percent-encoding of raw bytes; RFC 3986's unreserved characters and `/` stay as they are."""
    return "".join([_QUOTED[byte] for byte in raw])


def unquote(text: str) -> bytes:
    """The raw bytes of percent-encoded text; a `%` that starts no escape is itself."""
    return _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), text.encode("utf-8", "surrogatepass"))


def file_uri(root: str, path: bytes) -> str:
    """The `file://` uri of a repository path under a root, which is absolute and spelled as it was typed."""
    parts = os.fsencode(root).replace(os.fsencode(os.sep), b"/").strip(b"/")
    return "file:///" + quote(parts + b"/" + path if parts else path)
