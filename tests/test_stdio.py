"""The stdio edge: order, limits, back-pressure, and every way a conversation ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repo_provider import stdio, wire
from tests import fake
from tests.connect import FAKE, HANDSHAKE, PATIENCE, ROOT, SHUTDOWN, Envelope, OverStdio, checked, encode, query
from tests.faults import fault
from tests.spec import requirement
from tests.test_wire import LINES


class Served:
    """`stdio.serve` on a thread of this process, with the host's ends of its pipes."""

    def __init__(self, provider: fake.Fake | None = None, *, nonblocking: bool = False, **options: Any) -> None:
        self.provider = provider or fake.Fake()
        stdin, host_out = os.pipe()
        host_in, stdout = os.pipe()
        if nonblocking:
            os.set_blocking(stdin, False)
            os.set_blocking(stdout, False)
        self._ends = [stdin, stdout]
        self.to = os.fdopen(host_out, "wb", buffering=0)
        self.back = os.fdopen(host_in, "rb")
        self.status: int | None = None
        self._thread = threading.Thread(target=self._serve, args=(stdin, stdout, options), daemon=True)
        self._thread.start()

    def _serve(self, stdin: int, stdout: int, options: dict[str, Any]) -> None:
        self.status = stdio.serve(fake.service(self.provider), stdin, stdout, **options)
        os.close(stdout)

    def send(self, *messages: bytes | Envelope) -> None:
        for message in messages:
            data = memoryview(message if isinstance(message, bytes) else encode(message) + b"\n")
            while data:
                data = data[self.to.write(data) or 0 :]

    def receive(self) -> Envelope:
        return checked(self.back.readline())

    def rest(self) -> list[Envelope]:
        """Close the host's side and take what is still answered."""
        self.to.close()
        return [checked(line) for line in self.back]

    def wait(self) -> int | None:
        self._thread.join(PATIENCE)
        return self.status

    def close(self) -> None:
        self.provider.release.set()
        self.provider.never.set()
        self.to.close()
        self.back.close()
        assert 0 == self.wait()
        os.close(self._ends[0])


@contextmanager
def served(provider: fake.Fake | None = None, *, handshake: bool = True, **options: Any) -> Iterator[Served]:
    host = Served(provider, **options)
    try:
        if handshake:
            host.send(HANDSHAKE)
            host.receive()
        yield host
    finally:
        host.close()


# --- lines -----------------------------------------------------------------------------------------------------


@requirement("line")
@given(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\x00", b"\n"))))
def test_lines_are_cut_at_lf_only_however_the_bytes_arrive(chunks: list[bytes]) -> None:
    lines = stdio.Lines(10**6)
    cut = [line for chunk in chunks for line in lines.feed(chunk)] + list(lines.finish())
    assert [(line, True) for line in b"".join(chunks).split(b"\n") if line] == cut


@requirement("request-limit")
def test_a_line_too_long_is_given_once_and_reading_goes_on_behind_it() -> None:
    lines = stdio.Lines(4)
    stream = [b"abcd\nabcde", b"fgh", b"", b"i\n", b"ab", b"cd\n", b"abcdefgh\nxy\n", b"12345"]
    cut = [line for chunk in stream for line in lines.feed(chunk)] + list(lines.finish())
    assert [b"abcd", b"abcde", b"abcd", b"abcdefgh", b"xy", b"12345"] == [line for line, _ in cut]
    assert [True, False, True, False, True, False] == [whole for _, whole in cut]


@fault(93)
@requirement("request-limit")
def test_no_more_than_the_longest_line_is_ever_held() -> None:
    lines = stdio.Lines(1_000)
    for _ in range(100):
        assert all(len(line) <= 1_100 for line, _ in lines.feed(b"x" * 100))
        assert 1_100 >= sum(map(len, lines._parts))


@fault(93)
@requirement("request-limit", "R1", "bad_request")
def test_requests_up_to_the_limit_are_served_and_longer_ones_answered() -> None:
    """Fault 93."""
    with served() as host:
        for length in (65_535, 65_536, 65_537, 2**20, wire.MAX_LINE, wire.MAX_LINE + 1):
            line = encode(query(id="long", query_text="")).replace(b'"query_text":""', b'"query_text":"%s"')
            host.send(line % (b"x" * (length - len(line) + 2)) + b"\n")
            reply = host.receive()
            assert "long" == reply["id"]
            assert ("frames" if length <= wire.MAX_LINE else "error") == reply["type"]
        for _ in range(40):
            host.send(b"y" * 2**20)
        assert "bad_request" == host.receive()["code"]
        host.send(b"\n", query(id="next"))
        assert "next" == host.receive()["id"]


# --- order -----------------------------------------------------------------------------------------------------


@requirement("H4")
def test_a_request_with_an_id_overtakes_a_slow_one() -> None:
    with served() as host:
        host.send(query("wait", "slow"), query("x", "fast"), HANDSHAKE)
        assert {"fast", None} == {host.receive().get("id"), host.receive().get("id")}
        host.provider.release.set()
        assert "slow" == host.receive()["id"]


@requirement("H4", "R1")
def test_requests_without_an_id_are_answered_in_the_order_they_came() -> None:
    with served() as host:
        host.send(query("wait"), b"nonsense\n", query("second"), {"type": "query", "id": "q"}, query("x", "fast"))
        host.send(HANDSHAKE, query("third"))
        assert {"q", "fast"} == {host.receive()["id"], host.receive()["id"]}
        host.provider.release.set()
        contents = [_gist(host.receive()) for _ in range(5)]
        assert ["wait", "bad_request", "second", "handshake_ack", "third"] == contents


def _gist(reply: Envelope) -> str:
    if reply["type"] == "frames":
        return str(reply["result"]["frames"][0]["content"])
    return str(reply.get("code", reply["type"]))


@requirement("R1")
def test_the_malformed_input_probe_is_answered_in_its_order() -> None:
    with served() as host:
        bad = [b"this is not valid json {{{\n", b"42\n", b'{"type":"query","id":"cgp-r1-missing-payload"}\n']
        for line in bad:
            host.send(line, query("probe"))
            assert ["bad_request", "probe"] == [_gist(host.receive()), _gist(host.receive())]


# --- many and large --------------------------------------------------------------------------------------------


@fault(97)
@requirement("P5", "H4", "line")
@pytest.mark.parametrize("ordered", [False, True])
def test_two_hundred_large_replies_reach_a_host_that_writes_everything_first(ordered: bool) -> None:
    """Fault 97."""
    with served() as host:
        host.send(*[query(f"bytes {64_000 + n}", None if ordered else f"q{n}") for n in range(200)])
        replies = [host.receive() for _ in range(200)]
        lengths = [len(reply["result"]["frames"][0]["content"]) - 64_000 for reply in replies]
        assert list(range(200)) == (lengths if ordered else sorted(lengths))
        if not ordered:
            assert [f"q{n}" for n in lengths] == [reply["id"] for reply in replies]


@pytest.mark.skipif(os.name != "posix", reason="pipes of another kind")
def test_pipes_that_came_as_non_blocking_carry_large_replies_too() -> None:
    with served(nonblocking=True) as host:
        host.send(*[query("bytes 300000", f"q{n}") for n in range(4)])
        assert {f"q{n}" for n in range(4)} == {host.receive()["id"] for _ in range(4)}


@requirement("P5")
def test_work_pauses_while_the_host_leaves_too_much_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING_BYTES", 200_000)
    with served(workers=2, max_waiting=10**6) as host:
        host.send(*[query("bytes 100000", f"q{n}") for n in range(50)])
        assert {f"q{n}" for n in range(50)} == {host.receive()["id"] for _ in range(50)}


@requirement("P5")
def test_a_host_that_never_reads_is_not_read_either_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_UNREAD", 10)
    with served() as host:
        lines = [b"nonsense %d\n" % n * 20 for n in range(100)]
        writer = threading.Thread(target=host.send, args=lines)
        writer.start()
        codes = Counter(host.receive()["code"] for _ in range(2_000))
        writer.join(PATIENCE)
        assert {"bad_request": 2_000} == codes


@requirement("unavailable", "P5")
def test_a_request_too_many_is_told_to_come_later() -> None:
    with served(workers=1, max_waiting=2) as host:
        host.send(query("wait", "running"))
        host.provider.running.wait(PATIENCE)
        host.send(*[query("x", f"q{n}") for n in range(5)])
        refused = [host.receive() for _ in range(3)]
        assert ["q2", "q3", "q4"] == [reply["id"] for reply in refused]
        assert {"unavailable"} == {reply["code"] for reply in refused}
        host.provider.release.set()
        assert ["running", "q0", "q1"] == [host.receive()["id"] for _ in range(3)]


@requirement("unavailable", "P5")
def test_bytes_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING_BYTES", 1_000)
    with served(workers=1) as host:
        host.send(query("wait", "running"))
        host.provider.running.wait(PATIENCE)
        host.send(query("x" * 5_000, "alone"), query("x" * 5_000, "more"))
        assert ("more", "unavailable") == ((reply := host.receive())["id"], reply["code"])
        host.provider.release.set()
        assert {"running", "alone"} == {host.receive()["id"], host.receive()["id"]}


@fault(99)
def test_each_reply_leaves_at_once() -> None:
    """Fault 99."""
    with served() as host:
        for n in range(300):
            host.send(query(id=f"q{n}"))
            assert f"q{n}" == host.receive()["id"]


# --- deadlines -------------------------------------------------------------------------------------------------


@requirement("P5")
def test_the_deadline_counts_from_the_reading_of_the_request() -> None:
    with served(deadline=100.0) as host:
        before = monotonic()
        host.send(query())
        host.receive()
        (deadline,) = host.provider.deadlines
        assert deadline is not None
        assert before + 100 <= deadline <= monotonic() + 100
    with served(deadline=0) as host:
        host.send(query())
        host.receive()
        assert [None] == host.provider.deadlines


@requirement("P5", "unavailable")
def test_a_job_that_ignores_its_deadline_is_answered_for_and_its_worker_replaced() -> None:
    with served(deadline=0.01, overrun=0.01, workers=1) as host:
        for n in range(3):
            host.send(query("hang", f"q{n}"))
            assert (f"q{n}", "unavailable") == ((reply := host.receive())["id"], reply["code"])
        host.send(query("hang"), HANDSHAKE)
        assert ["unavailable", "handshake_ack"] == [_gist(host.receive()), _gist(host.receive())]
        assert [] == host.rest()  # nor does it hold up the end


@requirement("P5")
def test_a_late_reply_to_a_request_that_was_answered_for_is_dropped() -> None:
    with served(deadline=0.01, overrun=0.01, workers=1) as host:
        host.send(query("wait", "q"))
        assert "unavailable" == host.receive()["code"]
        host.provider.release.set()
        assert [] == host.rest()


@requirement("P5")
def test_a_request_that_waited_too_long_for_a_worker_is_answered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "SPARE_WORKERS", 0)
    with served(deadline=0.01, overrun=0.01, workers=1) as host:
        host.send(query("hang", "a"), query("x", "b"))
        assert {"a", "b"} == {host.receive()["id"], host.receive()["id"]}


# --- warming ---------------------------------------------------------------------------------------------------


@requirement("handshake-time")
def test_the_provider_is_warmed_after_the_handshake_and_not_before() -> None:
    with served(handshake=False) as host:
        host.send({**HANDSHAKE, "protocol_version": "contextgraph/2.0"})
        assert "incompatible_version" == host.receive()["code"]
        assert not host.provider.warmed.is_set()
        host.send(HANDSHAKE)
        assert "handshake_ack" == host.receive()["type"]
        assert host.provider.warmed.wait(PATIENCE)


# --- the end ---------------------------------------------------------------------------------------------------


@requirement("R2")
def test_at_the_end_of_input_what_was_read_is_answered_first() -> None:
    with served(workers=2) as host:
        host.send(*[query("x", f"q{n}") for n in range(50)], encode(query("last")))
        replies = host.rest()
        assert {f"q{n}" for n in range(50)} | {None} == {reply.get("id") for reply in replies}
        assert 51 == len(replies)
        assert 0 == host.wait()
        assert host.provider.closed.is_set()


@requirement("R2")
@pytest.mark.parametrize("handshake", [True, False])
def test_a_host_that_says_nothing_more_is_left(handshake: bool) -> None:
    with served(handshake=handshake) as host:
        assert [] == host.rest()
        assert 0 == host.wait()


@requirement("R2", "shutting_down", "shutdown-time")
def test_shutdown_answers_what_is_in_flight_and_closes_the_provider() -> None:
    with served(workers=2) as host:
        host.send(query("hang"), query("hang", "b"), query("x", "c"), query("x"), SHUTDOWN, query("too late", "d"))
        replies = [checked(line) for line in host.back]
        assert [None, None] == [reply.get("id") for reply in replies if "id" not in reply]
        assert {"b", "c", None} == {reply.get("id") for reply in replies}
        assert {"shutting_down"} == {reply["code"] for reply in replies}
        assert 0 == host.wait()
        assert host.provider.closed.is_set()


@requirement("R2", "shutdown-time")
def test_shutdown_waits_for_no_host_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "FAREWELL", 0.01)
    with served() as host:
        host.send(*[query("bytes 200000", f"q{n}") for n in range(4)], SHUTDOWN)
        assert 0 == host.wait()


@requirement("R2", "shutdown-time")
def test_shutdown_waits_for_no_provider_that_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(fake.Fake):
        def close(self) -> None:
            self.never.wait()

    monkeypatch.setattr(stdio, "FAREWELL", 0.01)
    with served(Stubborn()) as host:
        host.send(query(id="q"))
        host.receive()
        host.send(SHUTDOWN)
        assert 0 == host.wait()


@requirement("R2")
def test_a_broken_pipe_ends_it_quietly() -> None:
    with served() as host:
        host.back.close()
        host.send(query("hang", "a"), query("x", "b"))
        assert 0 == host.wait()
        assert host.provider.closed.is_set()


@requirement("R2")
def test_an_input_that_cannot_be_read_is_one_that_has_ended() -> None:
    with open(os.devnull, "wb") as sink:
        assert 0 == stdio.serve(fake.service(), sink.fileno(), sink.fileno())


@fault(89)
@requirement("R1", "P5", "stdout")
@settings(max_examples=25)
@given(st.lists(LINES, max_size=8), st.binary(max_size=20))
def test_any_bytes_on_stdin_give_envelopes_only(lines: list[bytes], tail: bytes) -> None:
    with served() as host:
        host.send(b"\n".join(lines) + b"\n" + query_line("probe"), tail)
        replies = host.rest()
        assert replies or b"shutdown" in b"".join(lines)


def query_line(goal: str) -> bytes:
    return encode(query(goal)) + b"\n"


# --- the process -----------------------------------------------------------------------------------------------


@requirement("R2", "shutdown-time")
@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_process_cleanly(number: signal.Signals, busy: bool) -> None:
    connection = OverStdio(FAKE)
    connection.ask(HANDSHAKE)
    if busy:
        connection.send(query("hang", "q"))
        connection.ask(query("x", "r"))
    connection.process.send_signal(number)
    assert 0 == connection.process.wait(PATIENCE)
    assert (["shutting_down"] if busy else []) == [reply["code"] for reply in connection.close()]


@requirement("R2", "shutdown-time")
def test_a_hung_job_does_not_keep_the_process() -> None:
    connection = OverStdio(FAKE)
    connection.ask(HANDSHAKE)
    connection.send(query("hang", "q"))
    assert "shutting_down" == connection.ask(SHUTDOWN)["code"]
    assert 0 == connection.process.wait(2)
    assert [] == connection.close()


@fault(89)
@requirement("stdout", "line")
def test_whatever_prints_reaches_the_error_stream_and_never_the_host() -> None:
    """Fault 89."""
    lines = [encode(HANDSHAKE), *[encode(query(goal)) for goal in ("print", "fail", "x") * 7], b"nonsense"]
    done = run(FAKE.command, b"\n".join(lines))
    assert 23 == len([checked(line) for line in done.stdout.splitlines()])
    for text in (b"not an envelope", b"not an envelope either", b"nor is this", b"ZeroDivisionError"):
        assert text in done.stderr


def run(command: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        command, input=stdin, capture_output=True, cwd=ROOT, env=environment, timeout=PATIENCE, check=True
    )


@requirement("P5")
def test_an_error_stream_nobody_reads_holds_up_nothing() -> None:
    process = subprocess.Popen(
        FAKE.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(HANDSHAKE) + b"\n" + query_line("fail") * 300)
        process.stdin.flush()
        assert ["handshake_ack"] + ["internal"] * 300 == [_gist(checked(process.stdout.readline())) for _ in range(301)]
        process.stdin.write(encode(SHUTDOWN) + b"\n")
        process.stdin.flush()
        assert 0 == process.wait(PATIENCE)


@pytest.mark.skipif(os.name != "posix", reason="descriptors of another kind")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_stream_the_host_closed_does_not_become_some_file(closed: Sequence[int]) -> None:
    script = f"import os\nfor fd in {closed}: os.close(fd)\nfrom tests.fake import main\nmain()"
    done = run([sys.executable, "-c", script], encode(HANDSHAKE) + b"\n" + query_line("print"))
    expected = [] if {0, 1} & set(closed) else ["handshake_ack", "print"]
    assert expected == [_gist(checked(line)) for line in done.stdout.splitlines()]


@requirement("handshake-time")
def test_an_acknowledgement_needs_no_heavy_import() -> None:
    script = "import sys, tests.fake; print(*sorted(name for name in sys.modules if '.' not in name))"
    loaded = set(run([sys.executable, "-c", script], b"").stdout.decode().split())
    assert "msgspec" in loaded
    heavy = "pygit2 numpy tree_sitter click rich asyncio starlette uvicorn tiktoken cryptography sqlite3 logging json"
    assert set() == loaded & set(heavy.split())
