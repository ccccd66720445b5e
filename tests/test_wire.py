"""Bytes to envelopes and back: what is read out of bad lines, and what is left out of long replies."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from repo_provider import wire
from repo_provider.errors import BadRequest
from repo_provider.protocol import (
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    Digest,
    FrameAttestation,
    FrameId,
    FrameVerdict,
    InclusionProof,
    ProvenanceAttestation,
    digest,
    token_cost,
)
from tests.connect import checked, encode, query
from tests.faults import fault
from tests.spec import requirement

DEEP = b"[" * 100_000 + b"]" * 100_000


def envelope(line: bytes) -> wire.Message:
    message = wire.read(line)
    assert message is not None
    return message


def refused(line: bytes) -> wire.Unreadable:
    with pytest.raises(wire.Unreadable) as caught:
        wire.read(line)
    return caught.value


# --- envelopes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"", b" ", b"\t \r", b"\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert wire.read(line) is None


@pytest.mark.parametrize(
    "line", [b'{"type":"shutdown"}\r', b'\xef\xbb\xbf{"type":"shutdown"}', b'  {"type" : "shutdown"}\t']
)
def test_a_byte_order_mark_before_and_a_return_behind_are_tolerated(line: bytes) -> None:
    assert "shutdown" == envelope(line).type


@requirement("U1")
@pytest.mark.parametrize(
    "value",
    [
        b"9" * 5_000,
        b"-" + b"9" * 5_000 + b".5e99999",
        b"1e999",
        DEEP,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'"\\ud800"',
        b'"\\udc00\\ud800 \\\\ud800"',
        b'{"\\uDBFF":["\\ud83d\\ude00"]}',
        b'"' + b"x" * 100_000 + b'"',
    ],
    ids=range(9),
)
@pytest.mark.parametrize("place", ["before", "after", "within"])
def test_an_unknown_member_is_ignored_whatever_it_holds(value: bytes, place: str) -> None:
    member = b'"future":' + value
    inner = b'"goal":"g","max_frames":1,"max_tokens":2'
    line = {
        "before": b"{" + member + b',"type":"query","id":"q\\u0031","query":{' + inner + b"}}",
        "after": b'{"type":"query","id":"q\\u0031","query":{' + inner + b"}," + member + b"}",
        "within": b'{"type":"query","id":"q\\u0031","query":{' + inner + b"," + member + b"}}",
    }[place]
    message = envelope(line)
    assert "q1" == message.id
    assert ContextQuery("g", 1, 2) == wire.query(message)


@requirement("R1")
@pytest.mark.parametrize(
    "line",
    [
        b"this is not valid json {{{",
        b"42",
        b"null",
        b"true",
        b'"x"',
        b"[]",
        b"{",
        b"}",
        b"{}",
        b"[" * 100_000,
        DEEP,
        b'{"id":1}',
        b'{"type":null}',
        b'{"type":5}',
        b'{"type":["query"]}',
        b'{"type":"\xff"}',
        b"\xff\xfe",
        b"\xff\xfe{\x00",
        b'{"type":"shutdown",}',
        b'{"type":"shutdown"} x',
        b"{'type':'shutdown'}",
        b'{"type":"shutdown","n":NaN}',
        b'{"type":"shutdown","n":Infinity}',
        b'{"type":"shutdown","n":01}',
        b'{"type":"shutdown","s":"\x01"}',
        b'{"type":"shutdown"',
        b"\x00",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
    ],
    ids=range(28),
)
def test_a_line_that_is_no_envelope_is_a_bad_request_without_id(line: bytes) -> None:
    assert ("bad_request", None) == (refused(line).code, refused(line).id)


@requirement("H4", "R1")
@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"a"}',
        b'{"id":"a","type":5}',
        b'{"type":"query","id":"a","query":{"max_frames":NaN}}',
        b'{"type":"query","id":"a","query":{"goal":',
        b'{"type":"query","query":{"id":"b"},"id":"\\u0061","x":tru}',
        b'{"type":"query","id":"b","id":"a",}',
        b'{"id":"a"}{"id":"b"}',
        b'{"type":"id","x":"id","id" : "a" "id":"b"}',
        b'{"type":"query","id":"a","query":' + DEEP[:-1] + b"}",
    ],
    ids=range(9),
)
def test_the_id_of_a_line_that_is_no_envelope_is_recovered_where_the_line_gives_it(line: bytes) -> None:
    assert "a" == refused(line).id


@fault(94)
@requirement("H4")
@pytest.mark.parametrize(
    "line",
    [b'[{"id":"a"}', b'x{"id":"a"}', b'{"query":{"id":"a"}', b'{"id":5,', b'{"id":"\\ud800",', b'{"id":"",', b'{"id":'],
)
def test_no_id_is_made_up(line: bytes) -> None:
    assert refused(line).id is None


@requirement("H4")
@pytest.mark.parametrize(
    "id",
    [
        b"5",
        b"{}",
        b"[]",
        b"1.5",
        b"9223372036854775808",
        b"true",
        b'""',
        b'"\\ud800"',
        b'"\xff"',
        b'"' + b"x" * 2**20 + b'x"',
    ],
)
def test_an_id_that_is_no_text_to_echo_is_refused(id: bytes) -> None:
    assert refused(b'{"type":"query","id":' + id + b"}").id is None


@requirement("H4")
@pytest.mark.parametrize("id", ["a", " ", "\x00", "é\n", "😀", "\ufffd", "\u2028", "x" * 10_000, "null", '"'])
def test_an_id_is_read_and_written_as_it_is(id: str) -> None:
    for line in (encode({"type": "shutdown", "id": id}), json.dumps({"type": "shutdown", "id": id}).encode()):
        assert id == envelope(line).id
    assert id == checked(wire.error("internal", "x", id))["id"]


@requirement("null")
def test_a_null_id_is_an_absent_one() -> None:
    assert envelope(b'{"type":"shutdown","id":null}').id is None


def test_of_members_written_twice_the_last_counts() -> None:
    asks = b'{"goal":"x","goal":"y","max_frames":1,"max_tokens":2}'
    line = b'{"type":"shutdown","id":"a","id":"b","query":5,"query":' + asks + b',"type":"query"}'
    assert ("query", "b") == (envelope(line).type, envelope(line).id)
    assert ContextQuery("y", 1, 2) == wire.query(envelope(line))


# --- payloads --------------------------------------------------------------------------------------------------


def asked(**members: Any) -> ContextQuery:
    return wire.query(envelope(encode({"type": "query", "query": members})))


@requirement("null", "E1")
def test_null_stands_for_an_absent_member_and_embeddings_are_ignored() -> None:
    names = ("query_text", "embedding", "kinds", "anchors", "as_of", "representation_preferences")
    assert ContextQuery("g", 1, 2) == asked(goal="g", max_frames=1, max_tokens=2, **dict.fromkeys(names))
    assert ContextQuery("g", 1, 2) == asked(goal="g", max_frames=1, max_tokens=2, embedding=[0.5, 1])
    assert ContextQuery("g", 1, 2) == asked(goal="g", max_frames=1, max_tokens=2, embedding="not even numbers")


def test_half_a_surrogate_pair_in_a_goal_becomes_a_replacement_character() -> None:
    line = b'{"type":"query","query":{"goal":"a\\ud83d \\ud83d\\ude00 \\\\ud83d","max_frames":1,"max_tokens":2}}'
    assert "a\ufffd 😀 \\ud83d" == wire.query(envelope(line)).goal


@requirement("u32", "bad_request")
@pytest.mark.parametrize(
    "members",
    [
        {},
        {"goal": "g", "max_frames": 1},
        {"goal": "g", "max_tokens": 1},
        {"max_frames": 1, "max_tokens": 1},
        {"goal": "", "max_frames": 1, "max_tokens": 1},
        {"goal": None, "max_frames": 1, "max_tokens": 1},
        {"goal": ["g"], "max_frames": 1, "max_tokens": 1},
        {"goal": "g", "max_frames": -1, "max_tokens": 1},
        {"goal": "g", "max_frames": 2**32, "max_tokens": 1},
        {"goal": "g", "max_frames": 10**300, "max_tokens": 1},
        {"goal": "g", "max_frames": "8", "max_tokens": 1},
        {"goal": "g", "max_frames": 1.5, "max_tokens": 1},
        {"goal": "g", "max_frames": True, "max_tokens": 1},
        {"goal": "g", "max_frames": None, "max_tokens": 1},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "kinds": "doc"},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "kinds": [None]},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "anchors": {}},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "as_of": 0},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "query_text": ["x"]},
        {"goal": "g", "max_frames": 1, "max_tokens": 1, "representation_preferences": "full"},
    ],
    ids=range(20),
)
def test_a_query_of_the_wrong_shape_is_a_bad_request(members: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        asked(**members)


@requirement("u32")
def test_the_largest_budget_is_legal() -> None:
    assert ContextQuery("g", 2**32 - 1, 0) == asked(goal="g", max_frames=2**32 - 1, max_tokens=0)


@requirement("bad_request")
@pytest.mark.parametrize("type", ["query", "verify", "handshake"])
@pytest.mark.parametrize(
    "payload", ["", "null", "5", "[]", "{}", '"\\u0000"', '{"frames":5}', '{"frames":[{}]}', '{"frames":[5]}']
)
def test_a_payload_that_is_missing_or_of_another_type_is_a_bad_request(type: str, payload: str) -> None:
    name = {"query": "query", "verify": "request", "handshake": "protocol_version"}[type]
    member = f',"{name}":{payload}' if payload else ""
    message = envelope(f'{{"type":"{type}"{member}}}'.encode())
    read = {"query": wire.query, "verify": wire.identities, "handshake": wire.protocol_version}[type]
    if (type, payload) == ("handshake", '"\\u0000"'):
        assert "\x00" == read(message)
    else:
        with pytest.raises(BadRequest):
            read(message)


def test_what_is_wrong_with_a_query_is_told_without_its_values() -> None:
    with pytest.raises(BadRequest, match="max_frames") as caught:
        asked(goal="SECRET", max_frames="SECRET", max_tokens=1)
    assert "SECRET" not in caught.value.message


@requirement("verify-echo")
def test_identities_tell_an_absent_digest_from_null() -> None:
    ids = [{"provider_id": "p", "frame_id": "f"}, {"provider_id": "p", "frame_id": "f", "content_digest": None}]
    ids += [{"provider_id": "p", "frame_id": "f", "content_digest": "any text"}]
    frames = wire.identities(envelope(encode({"type": "verify", "request": {"frames": ids}})))
    reply = checked(wire.verified([FrameVerdict(frame, "unknown") for frame in frames]))
    assert ids == [verdict["frame"] for verdict in reply["response"]["verdicts"]]


# --- replies ---------------------------------------------------------------------------------------------------


def frame(content: str, id: str = "f") -> ContextFrame:
    data = content.encode("utf-8", "replace")
    return ContextFrame(id, "doc", "t", 0.5, -(-len(data) // 4), content, digest(data), citation_label="t L1")


def test_members_that_say_nothing_are_left_out() -> None:
    reply = checked(wire.frames(ContextQueryResult((frame("x"),), False)))
    assert {"type", "result"} == set(reply)
    assert {"frames", "truncated"} == set(reply["result"])
    assert {"id", "kind", "title", "score", "token_cost", "content", "content_digest", "citation_label"} == set(
        reply["result"]["frames"][0]
    )


@requirement("line")
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_reply_is_one_line_of_utf8_that_reads_back(id: str, content: str) -> None:
    data = wire.frames(ContextQueryResult((frame(content),), False), id)
    assert b"\n" not in data
    reply = checked(data)
    assert id == reply["id"]
    assert content == reply["result"]["frames"][0]["content"]
    assert token_cost(content) == reply["result"]["frames"][0]["token_cost"]
    assert frame(content) == msgspec.convert(reply["result"]["frames"][0], ContextFrame)


@requirement("X1")
@pytest.mark.parametrize("message", ["", " ", "\t\n", "\ud800", "x" * 100_000, "a\ud83dz"])
def test_an_error_always_has_a_message_of_whole_characters(message: str) -> None:
    reply = checked(wire.error("internal", message))
    assert reply["message"].strip()
    assert 1_000 >= len(reply["message"])


def test_a_frame_with_half_a_surrogate_pair_costs_that_frame() -> None:
    """Fault 96."""
    reply = checked(wire.frames(ContextQueryResult((frame("\ud800"), frame("good")), False), "q"))
    assert ["good"] == [kept["content"] for kept in reply["result"]["frames"]]
    assert (True, 1) == (reply["result"]["truncated"], reply["result"]["dropped_estimate"])


@requirement("reply-limit")
def test_a_long_answer_loses_its_last_frames() -> None:
    frames = tuple(frame(letter * 2**20, letter) for letter in "abcdefghijklmnopqrst")
    data = wire.frames(ContextQueryResult(frames, False), "q")
    result = checked(data)["result"]
    assert 14 * 2**20 < len(data) <= wire.MAX_REPLY
    assert list("abcdefghijklmn") == [kept["id"] for kept in result["frames"]]
    assert (True, 6) == (result["truncated"], result["dropped_estimate"])


@requirement("reply-limit")
def test_what_was_left_out_adds_to_the_estimate_of_a_complete_answer_only() -> None:
    frames = tuple(frame(letter * 2**20, letter) for letter in "abcdefghijklmnopqrst")
    assert 10 == wire.fitting(ContextQueryResult(frames, True, 4)).dropped_estimate
    assert wire.fitting(ContextQueryResult(frames, True)).dropped_estimate is None
    few = ContextQueryResult(frames[:3], False)
    assert few is wire.fitting(few)


@requirement("reply-limit")
def test_escapes_count_as_they_are_written() -> None:
    frames = tuple(frame("\x01" * 2**20, letter) for letter in "abcdef")
    data = wire.frames(ContextQueryResult(frames, False))
    assert len(data) <= wire.MAX_REPLY
    assert ["a", "b"] == [kept["id"] for kept in checked(data)["result"]["frames"]]


@requirement("F12", "sign-last", "reply-limit")
def test_an_answer_is_signed_after_everything_that_leaves_frames_out() -> None:
    """The evidence itself takes room too: what is signed in the end is what is sent."""
    signature = ProvenanceAttestation("sha256:" + "0" * 64, "k", "ed25519", "a", "0" * 128, "2026-01-01T00:00:00Z")
    sealed: list[ContextQueryResult] = []

    def seal(result: ContextQueryResult) -> ContextQueryResult:
        names = [FrameId("p", each.id, each.content_digest) for each in result.frames]
        evidence = tuple(FrameAttestation(name, signature, InclusionProof(0, 1, ())) for name in names)
        sealed.append(replace(result, frame_attestations=evidence, result_attestation=signature))
        return sealed[-1]

    for count, size in ((20, 2**20), (4_000, 2**12), (3, 10)):
        frames = tuple(frame("x" * size, f"f{n}") for n in range(count))
        data = wire.frames(ContextQueryResult(frames, False), "q", seal)
        result = (checked(data) if count < 100 else json.loads(data))["result"]
        assert [kept.id for kept in sealed[-1].frames] == [kept["id"] for kept in result["frames"]]
        assert len(result["frames"]) == len(result["frame_attestations"])
        assert len(data) <= wire.MAX_REPLY
        assert count == 3 or len(data) > 13 * 2**20
        assert (count > 3) == result["truncated"]
    broken = wire.frames(ContextQueryResult((frame("\ud800", "bad"), frame("good", "good")), False), "q", seal)
    assert ["good"] == [kept["id"] for kept in checked(broken)["result"]["frames"]]


@requirement("reply-limit")
def test_verdicts_that_do_not_fit_are_left_out() -> None:
    verdict = FrameVerdict(FrameId("p", "f" * 1_000, "sha256:x"), "stale", Digest("sha256:" + "0" * 64))
    data = wire.verified([verdict] * 20_000, "q")
    kept = len(checked(data)["response"]["verdicts"])
    assert 14 * 2**20 < len(data) <= wire.MAX_REPLY
    assert 0 < kept < 20_000


# --- properties ------------------------------------------------------------------------------------------------

SCRAPS = [
    b'{"type":"query"',
    b'"id":"a"',
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\ud800",
    b"\\u0061",
    b"null",
]
SCRAPS += [
    b"1",
    b"-",
    b".",
    b"e9",
    b" ",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b'"query":{"goal":"g","max_frames":1,"max_tokens":1}',
]
LINES = st.one_of(st.binary(), st.lists(st.sampled_from(SCRAPS)).map(b"".join))


@requirement("R1", "P5")
@given(LINES)
def test_any_bytes_are_an_envelope_or_nothing_or_unreadable(line: bytes) -> None:
    with suppress(BadRequest):
        message = wire.read(line)
        if message is not None and message.type == "query":
            wire.query(message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@requirement("U1")
def test_any_json_value_may_be_the_value_of_an_unknown_member(value: object) -> None:
    line = json.dumps({"type": "shutdown", "future": value}, default=str)
    if "NaN" not in line and "Infinity" not in line:
        assert "shutdown" == envelope(line.encode()).type


@requirement("request-limit")
def test_a_line_of_sixteen_mebibytes_is_read() -> None:
    line = encode(query("x" * (16 * 2**20 - 1_000)))
    assert len(line) <= wire.MAX_LINE
    assert 16 * 2**20 - 1_000 == len(wire.query(envelope(line)).goal)


@requirement("R1")
@pytest.mark.parametrize(
    "filling", [b"[", b'"', b"\\", b"\\u0041", b"{", b"\\ud83d", b"\\ud83d\\ude00", b'"\\', b"a,", b'"a":']
)
def test_a_long_line_of_anything_is_refused_without_much_ado(filling: bytes) -> None:
    refused(filling * (2**20 // len(filling)))
    refused(b'{"type":"x","y":"' + filling * (2**20 // len(filling)))
