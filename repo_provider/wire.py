"""Bytes of one envelope in, values out; values in, bytes of one envelope out.

Reading takes two steps, so that an answer can be addressed even where the payload is nonsense: `read` finds the
envelope's type and id and leaves the payload as raw bytes; `query`, `identities` and `protocol_version` then take it
apart. JSON is strict; unknown members are ignored whatever they hold (U1). Writing keeps every reply under what a
host's line can carry. This is not the conversation: what may be said when is `session`'s, lines are `stdio`'s.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from repo_provider.errors import BadRequest
from repo_provider.protocol import (
    U32,
    AttesterKey,
    Capabilities,
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    FrameId,
    FrameVerdict,
    NonEmpty,
    ProviderInfo,
)

MAX_LINE = 16 * 2**20
"""A longer request is refused unread."""
MAX_REPLY = 15 * 2**20
"""Hosts end the connection at 16 MiB; frames or verdicts are left out before that."""
MAX_ID = 2**20
_MAX_MESSAGE = 1_000

_T = TypeVar("_T")


# --- reading: the envelope -------------------------------------------------------------------------------------


class Message(Struct, frozen=True):
    """An envelope whose type is known and whose payload is still bytes."""

    type: str
    id: str | None
    payload: Raw | None


class Unreadable(BadRequest):
    """A line that is no envelope. `id` is what could still be told of who asked."""

    def __init__(self, message: str, id: str | None = None) -> None:
        super().__init__(message, reason="unreadable")
        self.id = id


class _Heading(Struct, frozen=True):
    type: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    protocol_version: Raw | UnsetType = UNSET
    query: Raw | UnsetType = UNSET
    request: Raw | UnsetType = UNSET


_PAYLOAD_OF = {"handshake": "protocol_version", "query": "query", "verify": "request"}
_heading = msgspec.json.Decoder(_Heading)
_text = msgspec.json.Decoder(str)
_optional_text = msgspec.json.Decoder(str | None)


def read(line: bytes) -> Message | None:
    """The envelope on a line; None for a blank one. A byte order mark before and a CR behind are tolerated.

    Raises Unreadable where the line is no JSON object with a string `type` and, if any, a non-empty string `id`.
    """
    line = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    if not line:
        return None
    heading, repaired = _read_heading(line)
    id = _read_id(heading.id, repaired)
    try:
        type = _text.decode(heading.type) if heading.type is not UNSET else None
    except DecodeError:
        type = None
    if type is None:
        raise Unreadable("an envelope needs a string member `type`", id)
    payload = getattr(heading, _PAYLOAD_OF[type]) if type in _PAYLOAD_OF else UNSET
    return Message(type, id, None if payload is UNSET else payload)


def too_long(head: bytes) -> Unreadable:
    """The error for a line beyond MAX_LINE, given its first bytes."""
    return Unreadable(f"a line may have {MAX_LINE} bytes", _recovered_id(head))


def _read_heading(line: bytes) -> tuple[_Heading, bool]:
    try:
        return _heading.decode(line), False
    except (DecodeError, RecursionError):
        repaired = _shallow(_without_lone_surrogates(line))
    try:
        return _heading.decode(repaired), True
    except ValidationError:
        raise Unreadable("an envelope is a JSON object") from None
    except (DecodeError, RecursionError):
        raise Unreadable("not valid JSON", _recovered_id(line)) from None


def _read_id(raw: Raw | UnsetType, repaired: bool) -> str | None:
    """H4: the id as the peer wrote it, null as absent. One that cannot be echoed verbatim is refused, never changed."""
    try:
        id = _optional_text.decode(raw) if raw is not UNSET else None
    except DecodeError:
        id = ""
    if id is None:
        return None
    if not id or len(id) > MAX_ID or (repaired and "\ufffd" in id):
        raise Unreadable(f"`id` must be a string of 1 to {MAX_ID} Unicode characters")
    return id


# Repairs. They run only on lines that the strict decoder refused; what they change is never an id (`_read_id`).

_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*+)\\u[dD](?:([89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|[89a-fA-F][0-9a-fA-F]{2})"
)
_STRING = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'  # to the end of the line where it is never closed: linear, whatever comes
_STRING_OR_BRACKET = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_TOKEN = re.compile(_STRING + rb'|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_DEEPEST = 64
_REPAIRABLE = 2**18


def _without_lone_surrogates(line: bytes) -> bytes:
    """JSON can spell half of a surrogate pair, Unicode text cannot hold it: U+FFFD stands in for it."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _SURROGATE.sub(lambda match: match[0] if match[2] else match[1] + rb"\ufffd", line)


def _shallow(line: bytes) -> bytes:
    """The line with `null` for everything nested deeper than any envelope is: only unknown members are (U1)."""
    if len(line) > _REPAIRABLE:
        return line
    parts, depth, done, start = [], 0, 0, 0
    for token in _STRING_OR_BRACKET.finditer(line):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == _DEEPEST + 1:
                start = token.start()
        elif token[0] in (b"]", b"}"):
            depth -= 1
            if depth == _DEEPEST:
                parts += [line[done:start], b"null"]
                done = token.end()
    return b"".join([*parts, line[done:]])


def _recovered_id(line: bytes) -> str | None:
    """The top-level `id` of a line that is not JSON to its end, as far as the line makes sense."""
    found = name = before = b""
    depth = 0
    for match in _TOKEN.finditer(line[:_REPAIRABLE]):
        token = match[0]
        if depth == 0 and (before or token != b"{"):
            break
        if depth == 1 and before == b":" and name == b'"id"':
            found, name = token, b""
        if depth == 1 and before in (b"{", b","):
            name = token
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        before = token
    try:
        return _text.decode(found)[:MAX_ID] or None
    except DecodeError:
        return None


# --- reading: payloads -----------------------------------------------------------------------------------------


class _Query(Struct, frozen=True):
    """ContextQuery as a peer may write it: null stands for an absent optional member."""

    goal: NonEmpty
    max_frames: U32
    max_tokens: U32
    query_text: str | None = None
    kinds: tuple[str, ...] | None = None
    anchors: tuple[str, ...] | None = None
    as_of: str | None = None
    representation_preferences: tuple[str, ...] | None = None


class _VerifyRequest(Struct, frozen=True):
    frames: tuple[FrameId, ...]


_query = msgspec.json.Decoder(_Query)
_verify_request = msgspec.json.Decoder(_VerifyRequest)


def protocol_version(message: Message) -> str:
    """The version a `handshake` names. Raises BadRequest."""
    return _payload(message, _text)


def query(message: Message) -> ContextQuery:
    """What a `query` asks. Raises BadRequest where it lacks a member or one has the wrong type."""
    asked = _payload(message, _query)
    return ContextQuery(
        goal=asked.goal,
        max_frames=asked.max_frames,
        max_tokens=asked.max_tokens,
        query_text=asked.query_text,
        kinds=asked.kinds or (),
        anchors=asked.anchors or (),
        as_of=asked.as_of,
        representation_preferences=asked.representation_preferences or (),
    )


def identities(message: Message) -> tuple[FrameId, ...]:
    """The frame identities a `verify` presents, in its order. Raises BadRequest."""
    return _payload(message, _verify_request).frames


def _payload(message: Message, decoder: msgspec.json.Decoder[_T]) -> _T:
    name = _PAYLOAD_OF[message.type]
    if message.payload is None:
        raise BadRequest(f"`{message.type}` needs a member `{name}`")
    try:
        return decoder.decode(message.payload)
    except DecodeError as error:  # its text names members and types, never values
        raise BadRequest(f"`{name}`: {error}") from None


# --- writing ---------------------------------------------------------------------------------------------------


class _HandshakeAck(Struct, frozen=True, tag_field="type", tag="handshake_ack", omit_defaults=True):
    protocol_version: str
    provider: ProviderInfo
    capabilities: Capabilities
    attester_keys: tuple[AttesterKey, ...] = ()


class _Frames(Struct, frozen=True, tag_field="type", tag="frames", omit_defaults=True):
    result: ContextQueryResult
    id: str | None = None


class _VerifyResponse(Struct, frozen=True):
    verdicts: tuple[FrameVerdict, ...]


class _Verified(Struct, frozen=True, tag_field="type", tag="verified", omit_defaults=True):
    response: _VerifyResponse
    id: str | None = None


class _Error(Struct, frozen=True, tag_field="type", tag="error", omit_defaults=True):
    code: str
    message: str
    id: str | None = None


_encode = msgspec.json.Encoder().encode


def handshake_ack(
    version: str, info: ProviderInfo, capabilities: Capabilities, keys: Sequence[AttesterKey] = ()
) -> bytes:
    return _encode(_HandshakeAck(version, info, capabilities, tuple(keys)))


Seal: TypeAlias = Callable[[ContextQueryResult], ContextQueryResult]
"""Gives an answer its signatures, and changes nothing else in it."""


def frames(result: ContextQueryResult, id: str | None = None, seal: Seal | None = None) -> bytes:
    """A `frames` envelope of at most MAX_REPLY bytes: `fitting(result)` where the whole is too long.

    With a seal, what is sent is what it gave: it comes after everything that leaves frames out (F12).
    """
    return _sealed(result, id, seal) if seal is not None else _unsealed(result, id)


def _sealed(result: ContextQueryResult, id: str | None, seal: Seal) -> bytes:
    room = MAX_REPLY - _room_for(id)
    while len(data := _encode(_Frames(seal(fitting(result, room)), id))) > MAX_REPLY:
        room = room * MAX_REPLY // len(data)  # signatures take room as well, in proportion to the frames
    return data


def _unsealed(result: ContextQueryResult, id: str | None) -> bytes:
    try:
        data = _encode(_Frames(result, id))
    except UnicodeEncodeError:
        data = b""
    if data and len(data) <= MAX_REPLY:
        return data
    return _encode(_Frames(fitting(result, MAX_REPLY - _room_for(id)), id))


def verified(verdicts: Sequence[FrameVerdict], id: str | None = None) -> bytes:
    """A `verified` envelope of at most MAX_REPLY bytes; verdicts that do not fit are left out, so read as unknown."""
    data = _encode(_Verified(_VerifyResponse(tuple(verdicts)), id))
    if len(data) <= MAX_REPLY:
        return data
    ends = list(accumulate(len(_encode(verdict)) + 1 for verdict in verdicts))
    kept = verdicts[: bisect_right(ends, MAX_REPLY - _room_for(id))]
    return _encode(_Verified(_VerifyResponse(tuple(kept)), id))


def error(code: str, message: str, id: str | None = None) -> bytes:
    """An `error` envelope: always a code and a message that is not empty (X1), never half a surrogate pair."""
    text = message[:_MAX_MESSAGE].encode("utf-8", "replace").decode("utf-8")
    return _encode(_Error(code, text if text.strip() else code, id))


def fitting(result: ContextQueryResult, room: int = MAX_REPLY - 2**12) -> ContextQueryResult:
    """The frames of an unsigned result, best first, that can be written in so many bytes.

    It is `truncated` if any was left out.
    """
    sizes = [_size(frame) for frame in result.frames]
    if None not in sizes and sum(size + 1 for size in sizes if size) <= room:
        return result
    kept: list[ContextFrame] = []
    for frame, size in zip(result.frames, sizes, strict=True):
        if size is not None and size < room:
            room -= size + 1
            kept.append(frame)
    left_out = len(result.frames) - len(kept)
    cut = result.truncated and result.dropped_estimate is None  # P1: a cut answer gives no estimate
    return ContextQueryResult(
        frames=tuple(kept),
        truncated=True,
        dropped_estimate=None if cut else (result.dropped_estimate or 0) + left_out,
    )


def _size(frame: ContextFrame) -> int | None:
    try:
        return len(_encode(frame))
    except UnicodeEncodeError:  # half a surrogate pair somewhere: costs that frame
        return None


def _room_for(id: str | None) -> int:
    return 2**12 + len(_encode(id))
