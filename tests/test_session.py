"""The conversation, the same over every way there is to have one; and the session by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from repo_provider.errors import Internal, Unavailable
from repo_provider.protocol import (
    AttesterKey,
    ContextQuery,
    ContextQueryResult,
    FrameId,
    FrameVerdict,
    ProvenanceAttestation,
)
from repo_provider.session import Job, Service, Session, Signer
from tests import fake
from tests.connect import (
    HANDSHAKE,
    SHUTDOWN,
    STREAMS,
    Connection,
    Envelope,
    InProcess,
    Served,
    checked,
    encode,
    query,
)
from tests.faults import fault
from tests.spec import requirement
from tests.test_wire import LINES

Connect = Callable[..., Connection]


def verify(*frames: Any, **members: Any) -> Envelope:
    return {"type": "verify", "request": {"frames": list(frames)}, **members}


# --- handshake -------------------------------------------------------------------------------------------------


@requirement("H1", "H2", "C3", "C5", "attest-none")
def test_a_handshake_is_acknowledged(connect: Connect) -> None:
    reply = connect().ask(HANDSHAKE)
    assert ("handshake_ack", "contextgraph/1.0") == (reply["type"], reply["protocol_version"])
    assert reply["provider"]["name"].strip()
    assert reply["provider"]["version"].strip()
    assert {"reads": True, "writes": False, "egress": False, "egress_scopes": ["local-only"]} == reply["provider"][
        "data_flow"
    ]
    assert "attester_keys" not in reply


@requirement("attest-keys", "F6")
def test_keys_are_published_where_answers_are_signed_and_nowhere_else() -> None:
    key = AttesterKey("k", "ed25519", "0" * 64)
    service = fake.service()
    service.signer = Signer((key,), lambda result: replace(result, result_attestation=SIGNATURE))
    connection = InProcess(Served(lambda: service, ()))
    assert [msgspec.to_builtins(key)] == connection.ask(HANDSHAKE)["attester_keys"]
    for signed in (connection.ask(query("a")), connection.ask(query("a", "q1"))):
        assert msgspec.to_builtins(SIGNATURE) == signed["result"]["result_attestation"]
        assert {"type", "id", "result"} >= set(signed)


SIGNATURE = ProvenanceAttestation("sha256:" + "0" * 64, "k", "ed25519", "a", "0" * 128, "2026-01-01T00:00:00Z")


@requirement("attest-keys", "F14")
def test_an_answer_that_cannot_be_signed_is_not_sent_unsigned() -> None:
    def seal(result: ContextQueryResult) -> ContextQueryResult:
        raise Internal("a frame without content_digest cannot be signed")

    service = fake.service()
    service.signer = Signer((AttesterKey("k", "ed25519", "0" * 64),), seal)
    connection = InProcess(Served(lambda: service, ()))
    connection.ask(HANDSHAKE)
    assert ("error", "internal") == ((reply := connection.ask(query("a")))["type"], reply["code"])


@requirement("H1", "H3", "incompatible_version", "handshake-again")
def test_the_version_is_compared_by_its_family(connect: Connect) -> None:
    connection = connect()
    for version in ("contextgraph/1.0", "contextgraph/1.0-draft"):
        assert version == connection.ask({**HANDSHAKE, "protocol_version": version})["protocol_version"]
    for version in ("contextgraph/1.7", "contextgraph/1.99-draft", "contextgraph/1"):
        assert "contextgraph/1.0" == connection.ask({**HANDSHAKE, "protocol_version": version})["protocol_version"]
    for version in ("contextgraph/2.0", "contextgraph/10.0", "Contextgraph/1.0", "mcp/1.0", "", "1.0"):
        assert "incompatible_version" == connection.ask({**HANDSHAKE, "protocol_version": version})["code"]
    assert "frames" == connection.ask(query())["type"]


@requirement("handshake-first", "bad_request")
@pytest.mark.parametrize("connect", STREAMS, indirect=True)
def test_nothing_is_answered_before_the_handshake(connect: Connect) -> None:
    connection = connect()
    assert "bad_request" == connection.ask(query(id="q"))["code"]
    assert "incompatible_version" == connection.ask({**HANDSHAKE, "protocol_version": "contextgraph/2.0"})["code"]
    assert "bad_request" == connection.ask(query())["code"]
    assert "bad_request" == connection.ask(verify())["code"]
    assert "handshake_ack" == connection.ask(HANDSHAKE)["type"]
    assert "frames" == connection.ask(query())["type"]


# --- ids -------------------------------------------------------------------------------------------------------


@requirement("H4", "R1", "verify-id")
def test_every_reply_to_a_request_with_an_id_carries_it(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    for id in ("q1", " ", "cgp-conformance-h4-7f3a", "😀\u0000\ufffd"):
        for goal, type in (("x", "frames"), ("fail", "error"), ("busy", "error"), ("poor", "error")):
            reply = connection.ask(query(goal, id))
            assert (type, id) == (reply["type"], reply["id"])
        for message in (
            query(id=id, kinds=["memory"]),
            query(id=id, as_of="now"),
            query(id=id, representation_preferences=["reference"]),
            query(id=id, max_frames=-1),
            {"type": "query", "id": id},
            {"type": "resolve", "id": id},
            {"type": "verify", "id": id},
            {"type": "handshake", "id": id},
        ):
            reply = connection.ask(message)
            assert ("error", id) == (reply["type"], reply["id"])
        assert ("verified", id) == ((reply := connection.ask(verify(id=id)))["type"], reply["id"])
    assert "id" not in connection.ask(verify())
    assert "id" not in connection.ask(query())
    assert "id" not in connection.ask({**HANDSHAKE, "id": "x"})


# --- query -----------------------------------------------------------------------------------------------------


@requirement("Q1", "U2", "unsupported_kind")
def test_kinds_of_which_none_is_served_are_refused(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    assert "unsupported_kind" == connection.ask(query(kinds=["memory", "a kind of the future"]))["code"]
    assert "frames" == connection.ask(query(kinds=["doc", "a kind of the future"]))["type"]
    assert "frames" == connection.ask(query(kinds=[]))["type"]
    assert "frames" == connection.ask(query(kinds=None))["type"]


@requirement("spec-P5", "unsupported_representation")
def test_only_full_frames_are_served(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    for wanted in ([], ["full"], ["compact", "full"], ["a form of the future", "full"], None):
        assert "frames" == connection.ask(query(representation_preferences=wanted))["type"]
    for wanted in (["compact"], ["reference", "compact"]):
        reply = connection.ask(query(representation_preferences=wanted))
        assert "unsupported_representation" == reply["code"]


@requirement("as-of-form", "bad_request")
def test_a_malformed_instant_is_a_bad_request(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    for wrong in ("2026-02-30T00:00:00Z", "2026-07-01", "", "2026-07-01T00:00:00+02:00"):
        assert "bad_request" == connection.ask(query(as_of=wrong))["code"]
    for text in ("2026-07-01T00:00:00Z", "2016-12-31T23:59:60.25Z", "0000-01-01T00:00:00Z", None):
        assert "frames" == connection.ask(query(as_of=text))["type"]


# --- verify ----------------------------------------------------------------------------------------------------


@requirement("V1", "V2", "V3", "V5", "verify-echo")
def test_identities_are_judged_and_echoed_whole(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    ids: list[dict[str, Any]] = [
        {"provider_id": fake.NAME, "frame_id": "f", "content_digest": "sha256:x"},
        {"provider_id": "someone else", "frame_id": "f", "content_digest": None},
        {"provider_id": fake.NAME, "frame_id": "f"},
        {"provider_id": fake.NAME, "frame_id": "f"},
    ]
    verdicts = connection.ask(verify(*ids))["response"]["verdicts"]
    assert ids == [verdict["frame"] for verdict in verdicts]
    assert ["valid", "unknown", "valid", "valid"] == [verdict["status"] for verdict in verdicts]
    assert [] == connection.ask(verify())["response"]["verdicts"]


def test_a_provider_that_declares_no_verify_answers_none() -> None:
    service = fake.service()
    plain = Service(service.info, type(service.capabilities)(service.capabilities.query), fake.Fake)
    session = Session(plain, open=True)
    assert "bad_request" == answer(session, encode(verify()))["code"]


# --- errors and unknown things ---------------------------------------------------------------------------------


@fault(94)
@requirement("R1", "P5", "bad_request")
def test_each_bad_line_gets_one_reply_and_the_next_request_is_served(connect: Connect) -> None:
    """Fault 94."""
    connection = connect()
    connection.ask(HANDSHAKE)
    bad = [b"this is not valid json {{{", b"42", b"{", b"[]", b"null", b'"x"', b"[" * 100_000, b'{"id":1}', b"\xff\xfe"]
    bad += [b'{"type":"query"}', b'{"type":"query","query":5}', b'{"type":"query","query":{"goal":"\xff"}}', b"\x00"]
    bad += [b'{"type":"query","id":5,"query":{"goal":"g","max_frames":1,"max_tokens":1}}', b'{"type":5}', b"{}"]
    bad += [
        b'{"type":"frames"}',
        b'{"type":"error","message":"x"}',
        b'{"type":"x","id":5}',
        b'{"type":"shutdown","id":""}',
    ]
    for line in bad:
        reply = connection.ask(line)
        assert ("error", "bad_request") == (reply["type"], reply["code"])
        assert "id" not in reply
        assert "frames" == connection.ask(query())["type"]


@requirement("unknown-type", "U1")
def test_a_notification_nobody_defined_is_ignored(connect: Connect) -> None:
    connection = connect()
    connection.send({"type": "progress", "of": 5})
    assert "handshake_ack" == connection.ask(HANDSHAKE)["type"]
    connection.send({"type": "cancel", "id": None})
    assert "bad_request" == connection.ask({"type": "resolve", "id": "r"})["code"]


@pytest.mark.parametrize("connect", STREAMS, indirect=True)
def test_a_blank_line_is_ignored(connect: Connect) -> None:
    connection = connect()
    connection.send(b"")
    connection.send(b" \t\r")
    assert "handshake_ack" == connection.ask(HANDSHAKE)["type"]


@requirement("U1", "U4")
def test_unknown_members_are_ignored_at_every_level(connect: Connect) -> None:
    connection = connect()
    future: dict[str, Any] = {"future": {"deep": [1, {"deeper": None}]}}
    connection.ask({**HANDSHAKE, **future})
    assert connection.ask(query()) == connection.ask({**query(**future), **future})
    id = {"provider_id": fake.NAME, "frame_id": "f"}
    assert connection.ask(verify(id)) == connection.ask(
        {"type": "verify", "request": {"frames": [{**id, **future}], **future}, **future}
    )


@requirement("internal", "X1")
def test_a_fault_of_the_provider_is_told_without_its_text(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    reply = connection.ask(query("fail"))
    assert "internal" == reply["code"]
    assert "secret" not in reply["message"]
    assert "/" not in reply["message"]


@requirement("unavailable", "budget_unsatisfiable", "X1")
def test_an_error_the_provider_names_keeps_its_code_and_message(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    replies = [connection.ask(query(goal)) for goal in ("busy", "poor")]
    assert ["unavailable", "budget_unsatisfiable"] == [reply["code"] for reply in replies]
    assert ["the repository is locked", "no line fits into max_tokens"] == [reply["message"] for reply in replies]


@requirement("R2")
def test_shutdown_has_no_reply(connect: Connect) -> None:
    connection = connect()
    connection.ask(HANDSHAKE)
    connection.send(SHUTDOWN)
    assert connection.receive() is None


def test_half_a_surrogate_pair_never_comes_back(connect: Connect) -> None:
    """Fault 96."""
    connection = connect()
    connection.ask(HANDSHAKE)
    line = b'{"type":"query","query":{"goal":"a\\ud83d","max_frames":1,"max_tokens":9}}'
    assert "a\ufffd" == connection.ask(line)["result"]["frames"][0]["content"]
    reply = connection.ask(query("surrogate"))
    assert ["good"] == [frame["content"] for frame in reply["result"]["frames"]]


# --- the session by itself -------------------------------------------------------------------------------------


def job(session: Session, line: bytes | Envelope) -> Job:
    job = session.receive(line if isinstance(line, bytes) else encode(line))
    assert job is not None
    return job


def answer(session: Session, line: bytes | Envelope) -> Envelope:
    return checked(job(session, line).run().data)


def test_requests_with_an_id_are_free_of_order() -> None:
    session = Session(fake.service(), open=True)
    assert not job(session, query(id="q")).ordered
    assert job(session, query()).ordered
    assert job(session, b"nonsense").ordered
    assert not job(session, b'{"id":"q"').ordered


def test_errors_and_handshakes_are_ready_at_once_and_work_is_not() -> None:
    session = Session(fake.service(), open=True)
    assert job(session, HANDSHAKE).ready
    assert job(session, b"nonsense").ready
    assert job(session, query(max_frames=-1)).ready
    assert not job(session, query()).ready
    assert not job(session, verify()).ready


def test_the_edge_learns_what_kind_of_reply_it_carries() -> None:
    """What an HTTP edge needs: 400 for bytes that are no envelope, 204 where there is nothing to say."""
    session = Session(fake.service(), open=True)
    kinds = [
        job(session, line).run() for line in (b"nonsense", b"42", query(max_frames=-1), query(), verify(), HANDSHAKE)
    ]
    assert [True, True, False, False, False, False] == [reply.unreadable for reply in kinds]
    assert ["error", "error", "error", "frames", "verified", "handshake_ack"] == [reply.type for reply in kinds]
    assert ["bad_request"] * 3 + [None] * 3 == [reply.code for reply in kinds]
    assert session.receive(encode(SHUTDOWN)) is None
    assert session.ended


@requirement("shutting_down")
def test_a_session_that_was_shut_down_says_so() -> None:
    session = Session(fake.service(), open=True)
    session.receive(encode(SHUTDOWN))
    assert "shutting_down" == answer(session, query())["code"]
    assert "shutting_down" == answer(session, HANDSHAKE)["code"]


def test_the_deadline_reaches_the_provider() -> None:
    provider = fake.Fake()
    session = Session(fake.service(provider), open=True)
    for deadline in (None, 12.5):
        waiting = session.receive(encode(query()), deadline=deadline)
        assert waiting is not None
        waiting.run()
    assert [None, 12.5] == provider.deadlines


@requirement("handshake-time")
def test_nothing_is_loaded_for_a_handshake_or_a_bad_request_and_once_for_queries() -> None:
    loaded: list[fake.Fake] = []

    def load() -> fake.Fake:
        loaded.append(fake.Fake())
        return loaded[-1]

    plain = fake.service()
    session = Session(Service(plain.info, plain.capabilities, load))
    answer(session, HANDSHAKE)
    answer(session, query(max_frames=-1))
    answer(session, b"nonsense")
    assert [] == loaded
    answer(session, query())
    answer(session, query())
    assert 1 == len(loaded)


@requirement("unavailable")
def test_a_provider_that_cannot_be_loaded_is_tried_again_by_the_next_request() -> None:
    attempts = iter([Unavailable("the repository is not there", reason="not_a_repository"), OSError("gone")])

    def load() -> fake.Fake:
        for error in attempts:
            raise error
        return fake.Fake()

    plain = fake.service()
    session = Session(Service(plain.info, plain.capabilities, load), open=True)
    assert "unavailable" == answer(session, query())["code"]
    assert "internal" == answer(session, query())["code"]
    assert "frames" == answer(session, query())["type"]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), MemoryError(), RecursionError(), ValueError("\ud800")]
)
@requirement("P5")
def test_whatever_is_raised_becomes_a_reply_and_a_log_line(error: BaseException) -> None:
    class Failing:
        def query(self, query: ContextQuery, deadline: float | None) -> ContextQueryResult:
            raise error

        def verify(self, frames: Sequence[FrameId]) -> Sequence[FrameVerdict]:
            raise error

    logged: list[str] = []
    plain = fake.service()
    session = Session(Service(plain.info, plain.capabilities, Failing, log=logged.append), open=True)
    assert ("internal", "q") == (answer(session, query(id="q"))["code"], "q")
    assert "internal" == answer(session, verify())["code"]
    assert 2 == len(logged)
    assert type(error).__name__ in logged[0]


def test_warming_and_closing_never_raise() -> None:
    class Stubborn(fake.Fake):
        def warm(self) -> None:
            raise OSError("warm")

        def close(self) -> None:
            raise OSError("close")

    logged: list[str] = []
    plain = fake.service()
    for load in (Stubborn, lambda: fail(Unavailable("locked"))):
        service = Service(plain.info, plain.capabilities, load, log=logged.append)
        service.warm()
        service.close()
        assert "shutting_down" == answer(Session(service, open=True), query())["code"]
    assert ["warm", "close", "locked"] == [text.split()[-1] for text in logged]


def fail(error: Exception) -> fake.Fake:
    raise error


@requirement("R1", "P5", "shape")
@given(st.lists(LINES, max_size=8))
def test_any_lines_are_answered_with_envelopes_only(lines: list[bytes]) -> None:
    session = Session(fake.service())
    answer(session, HANDSHAKE)
    for line in lines:
        job = session.receive(line)
        if job is not None:
            checked(job.run().data)
    assert session.ended or "frames" == answer(session, query())["type"]
