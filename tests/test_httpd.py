"""The HTTP edge: the binding, who may ask, and what a peer can leave open, send slowly or send too much of."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from repo_provider.errors import BadRequest, Unavailable
from repo_provider.httpd import LIMITS, Edge, Limits, page
from repo_provider.protocol import ContextQuery, ContextQueryResult
from repo_provider.settings import Http
from tests import fake
from tests.connect import HANDSHAKE, PATIENCE, SHUTDOWN, Envelope, checked, encode, query
from tests.faults import fault
from tests.repos import Made, make_repo
from tests.spec import requirement

JSON = {"Content-Type": "application/json"}
TOKEN = "correct-horse-battery-staple"
VERIFY: Envelope = {"type": "verify", "request": {"frames": []}}


class Explaining(fake.Fake):
    def explain(
        self, query: ContextQuery, deadline: float | None
    ) -> tuple[ContextQueryResult, Sequence[Mapping[str, float]]]:
        result = self.query(query, deadline)
        return result, [{"words": 0.25, "names": 0.5}] * len(result.frames)

    def timeline(self, limit: int) -> Mapping[str, object]:
        if limit < 1:
            raise Unavailable("no")
        return {"commits": [{"commit": "ab", "at": "2026-01-01T00:00:00Z", "subject": "<b>"}]}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def envelope(self) -> Envelope:
        return checked(self.body)


class Running:
    """An edge that runs in a thread, and what a test asks it."""

    def __init__(self, http: Http, limits: Limits, deadline: float | None) -> None:
        self.provider = Explaining()
        self.logged: list[str] = []
        service = fake.service(self.provider)
        service.log = self.logged.append
        self.edge = Edge(service, http, deadline=deadline, limits=limits)
        self.address = self.edge.url.partition("//")[2].rstrip("/")
        self.port = int(self.address.rpartition(":")[2])
        self.thread = threading.Thread(target=self.edge.run)
        self.thread.start()

    def stop(self) -> None:
        self.provider.release.set()
        self.provider.never.set()
        self.edge.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def ask(
        self, method: str = "GET", path: str = "/", body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        data = body if body is None or isinstance(body, bytes) else encode(body)
        with closing(HTTPConnection(self.address, timeout=PATIENCE)) as connection:
            connection.request(method, path, data, dict(JSON if headers is None else headers))
            return _answer(connection.getresponse())

    def post(self, body: Any, path: str = "/", **headers: str) -> Answer:
        return self.ask("POST", path, body, JSON | {name.replace("_", "-"): value for name, value in headers.items()})

    def raw(self, data: bytes, *, then: bytes = b"") -> Answer:
        """The answer to bytes that no honest client sends."""
        with self.connected() as connection:
            try:
                connection.sendall(data)
                connection.sendall(then)
            except OSError:
                pass  # refused before it was all sent: the answer is there to be read
            return received(connection)

    def connected(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)

    def head(self, *lines: str, target: str = "/", method: str = "POST") -> bytes:
        """The head of a request from these lines, with a right Host and type unless they say otherwise."""
        named = {line.partition(":")[0].lower() for line in lines}
        usual = [line for line in (f"Host: {self.address}", "Content-Type: application/json")
                 if line.partition(":")[0].lower() not in named]  # fmt: skip
        return "\r\n".join([f"{method} {target} HTTP/1.1", *usual, *lines, "", ""]).encode("latin-1")

    def metric(self, name: str) -> float:
        found = re.search(rf"^repo_provider_{re.escape(name)} (\S+)$", self.ask(path="/metrics").body.decode(), re.M)
        return float(found[1]) if found else 0.0


def received(connection: socket.socket) -> Answer:
    response = HTTPResponse(connection)
    response.begin()
    return _answer(response)


def _answer(response: HTTPResponse) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Running] = []

    def run(*, deadline: float | None = None, limits: Limits = LIMITS, host: str = "127.0.0.1", **http: Any) -> Running:
        started.append(Running(Http(host, 0, **http), limits, deadline))
        return started[-1]

    yield run
    for running in started:
        running.stop()


@pytest.fixture(scope="module")
def plain() -> Iterator[Running]:
    """One edge for every test that changes nothing about it."""
    running = Running(Http("127.0.0.1", 0), LIMITS, None)
    yield running
    running.stop()


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(TOKEN + "\n")
    return str(tmp_path / "token")


# --- the binding -----------------------------------------------------------------------------------------------


@requirement("http", "H4")
@pytest.mark.parametrize("path", ["/", "/contextgraph"])
def test_one_envelope_in_the_body_and_one_in_the_response(plain: Running, path: str) -> None:
    answer = plain.post(query("x", "q1"), path)
    assert (200, "application/json") == (answer.status, answer.headers["content-type"])
    assert ("frames", "q1") == (answer.envelope["type"], answer.envelope["id"])
    assert "handshake_ack" == plain.post(HANDSHAKE, path).envelope["type"]
    assert "verified" == plain.post(VERIFY, path).envelope["type"]


@requirement("http-errors", "X1")
def test_an_error_of_the_protocol_is_status_200(plain: Running) -> None:
    for body, code in (
        (query("busy", "q"), "unavailable"),
        (query("fail"), "internal"),
        (query(kinds=["memory"]), "unsupported_kind"),
        ({"type": "query"}, "bad_request"),
        ({"type": "resolve", "id": "r"}, "bad_request"),
        ({**HANDSHAKE, "protocol_version": "contextgraph/2.0"}, "incompatible_version"),
    ):
        answer = plain.post(body)
        assert (200, "error", code) == (answer.status, answer.envelope["type"], answer.envelope["code"])


@requirement("http-errors", "R1")
@pytest.mark.parametrize("body", [b"", b" \n", b"nonsense", b"42", b"[]", b"\xff\xfe", b"{}", b'{"type":5}'])
def test_a_body_that_is_no_envelope_is_400_with_one(plain: Running, body: bytes) -> None:
    answer = plain.post(body)
    assert (400, "bad_request") == (answer.status, answer.envelope["code"])
    assert "frames" == plain.post(query()).envelope["type"]


def test_an_envelope_may_be_written_over_many_lines(plain: Running) -> None:
    assert "frames" == plain.post(json.dumps(query(), indent=2).encode()).envelope["type"]


@requirement("http-shutdown", "R2")
def test_a_shutdown_ends_its_exchange_only(plain: Running) -> None:
    for _ in range(3):
        assert (204, b"") == (plain.post(SHUTDOWN).status, plain.post(SHUTDOWN).body)
        assert "handshake_ack" == plain.post(HANDSHAKE).envelope["type"]


@requirement("unknown-type")
def test_a_notification_nobody_defined_is_204(plain: Running) -> None:
    assert (204, b"") == plain.post({"type": "progress"})[::2]


def test_half_a_surrogate_pair_never_comes_back(plain: Running) -> None:
    """Fault 96."""
    body = b'{"type":"query","query":{"goal":"a\\ud83d","max_frames":1,"max_tokens":9}}'
    assert "a\ufffd" == plain.post(body).envelope["result"]["frames"][0]["content"]
    assert 200 == plain.post(query("surrogate")).status
    assert 400 == plain.post(b'{"type":"query","id":"\\ud83d"}').status


def test_paths_and_methods_that_are_not_served_say_so(plain: Running) -> None:
    assert 404 == plain.post(query(), "/nowhere").status
    assert [405, 405, 405] == [plain.ask(method, "/", b"{}").status for method in ("PUT", "DELETE", "OPTIONS")]
    assert 405 == plain.post(query(), "/healthz").status
    assert 405 == plain.ask("GET", "/explain").status
    assert "frames" == plain.post(query()).envelope["type"]


def test_it_lives_and_counts(start: Start) -> None:
    running = start()
    assert (200, b"alive\n") == running.ask(path="/healthz")[::2]
    running.post(query())
    running.post(query("busy"))
    running.post(b"nonsense")
    running.ask(headers={"Host": "evil.example"})
    assert 1 == running.metric('requests_total{type="query",code="ok"}')
    assert 1 == running.metric('requests_total{type="query",code="unavailable"}')
    assert 1 == running.metric('requests_total{type="refused",code="bad_request"}')
    assert 1 == running.metric('refused_total{why="host"}')
    assert 2 == running.metric('request_seconds_count{type="query"}')
    assert 2 == running.metric('request_seconds_bucket{type="query",le="+Inf"}')
    assert running.ask(path="/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


# --- beside the protocol ---------------------------------------------------------------------------------------


def test_explain_answers_a_query_with_what_each_score_is_made_of(plain: Running) -> None:
    answer = json.loads(plain.post(query("x", "q1"), "/explain").body)
    explain = answer.pop("explain")
    assert answer == plain.post(query("x", "q1")).envelope
    (frame,) = answer["result"]["frames"]
    assert {frame["id"]: {"names": 0.5, "words": 0.25}} == explain


def test_explain_checks_what_a_query_checks(plain: Running) -> None:
    assert "unsupported_kind" == plain.post(query(kinds=["memory"]), "/explain").envelope["code"]
    assert "unavailable" == plain.post(query("busy"), "/explain").envelope["code"]
    assert "verified" == plain.post(VERIFY, "/explain").envelope["type"]
    assert 400 == plain.post(b"nonsense", "/explain").status
    assert 204 == plain.post(SHUTDOWN, "/explain").status


def test_the_timeline_is_read_only_json(plain: Running) -> None:
    answer = plain.ask(path="/timeline")
    assert (200, "application/json") == (answer.status, answer.headers["content-type"])
    assert "<b>" == json.loads(answer.body)["commits"][0]["subject"]


def test_what_fails_behind_the_timeline_is_told_as_an_error(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start()
    monkeypatch.setattr(running.provider, "timeline", lambda limit: 1 / 0)
    answer = running.ask(path="/timeline")
    assert (200, "internal") == (answer.status, answer.envelope["code"])
    assert "ZeroDivisionError" in running.logged[0]


@pytest.fixture(scope="module")
def made() -> Made:
    return make_repo(
        [
            ("2026-01-01", {"net.py": "def retry():\n    return 1\n", "a.md": "# Old\n"}),
            ("2026-02-01", {"net.py": "def retry():\n    return 2\n"}),
            ("2026-02-01", {"net.py": "def retry():\n    return 3\n"}),
            ("2026-03-01", {"a.md": "# New\n"}),
        ]
    )


def test_a_real_provider_explains_and_lists_the_instants_there_are(made: Made) -> None:
    from repo_provider.provider import Provider
    from repo_provider.settings import Settings

    provider = Provider(Settings(path=str(made.path)))
    try:
        told: Any = provider.timeline(500)
        assert (True, 3) == (told["working_tree"], told["total"])  # one commit is hidden by another of that second
        assert ["2026-01-01", "2026-02-01", "2026-03-01"] == [commit["at"][:10] for commit in told["commits"]]
        assert (made.path.name, made.path.as_uri()) == (told["name"], told["root"].rstrip("/"))
        sampled: Any = provider.timeline(2)
        assert [told["commits"][0], told["commits"][-1]] == sampled["commits"]
        asked = ContextQuery("retry", 5, 1_000)
        result, parts = provider.explain(asked)
        assert result == provider.query(asked)
        assert 0 < len(result.frames) == len(parts)
        assert all(parts)
    finally:
        provider.close()


# --- who may ask -----------------------------------------------------------------------------------------------


@fault(100)
@pytest.mark.parametrize(
    "target", ["/", "/healthz", "/metrics", "/timeline", "/explain", "/contextgraph", "/mcp", "/nowhere"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_rebound_name_is_turned_away_on_every_route_before_any_work(plain: Running, target: str, method: str) -> None:
    """Fault 100."""
    before = len(plain.provider.deadlines)
    for host in (
        "evil.example",
        f"evil.example:{plain.port}",
        f"localhost.evil.com:{plain.port}",
        f"127.0.0.1.evil.com:{plain.port}",
        f"127.0.0.1:{plain.port + 1}",
        "127.0.0.1",
        f"127.0.0.1:{plain.port}@evil.example",
        f"user@127.0.0.1:{plain.port}",
        f"[::ffff:127.0.0.1]:{plain.port}",
        "",
        f":{plain.port}",
        "127.0.0.1:٣",
    ):
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
        assert (403, b"") == plain.raw(head.encode())[::2], host
    assert before == len(plain.provider.deadlines)


@fault(100)
def test_a_request_without_a_host_or_with_two_is_turned_away(plain: Running) -> None:
    assert (400, b"") == plain.raw(b"GET / HTTP/1.1\r\n\r\n")[::2]
    assert (403, b"") == plain.raw(b"GET / HTTP/1.0\r\n\r\n")[::2]
    assert (400, b"") == plain.raw(f"GET / HTTP/1.1\r\nHost: {plain.address}\r\nHost: a\r\n\r\n".encode())[::2]


@fault(100)
def test_a_request_line_that_names_a_host_of_its_own_is_turned_away(plain: Running) -> None:
    for target in ("http://evil.example/", f"http://{plain.address}/", "//evil.example/healthz", "*"):
        answer = plain.raw(plain.head(target=target, method="GET"))
        assert (404 if target.startswith("//") else 403) == answer.status


def test_loopback_has_several_names(plain: Running) -> None:
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert 200 == plain.ask(headers={"Host": f"{name}:{plain.port}"}).status


def test_other_names_are_let_in_by_name(start: Start) -> None:
    running = start(hosts=("code.example", "other.example:8443"))
    for host, status in (
        ("code.example", 200),
        ("Code.Example:99", 200),
        ("other.example:8443", 200),
        ("other.example", 403),
        ("sub.code.example", 403),
    ):
        assert status == running.ask(headers={"Host": host}).status, host


@fault(100)
def test_a_foreign_page_is_turned_away_on_every_route(plain: Running) -> None:
    """Fault 100."""
    for origin in ("http://evil.example", "null", f"https://{plain.address}", f"http://{plain.address}.evil.com", ""):
        for method, path in (("POST", "/"), ("GET", "/"), ("GET", "/healthz"), ("GET", "/timeline"), ("OPTIONS", "/")):
            answer = plain.ask(method, path, b"{}", {**JSON, "Origin": origin})
            assert (403, b"") == answer[::2]
            assert set() == {name for name in answer.headers if name.startswith("access-control")}
    assert 403 == plain.ask(headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status
    assert 403 == plain.ask(path="/timeline", headers={"Sec-Fetch-Site": "same-site"}).status


def test_our_own_page_and_a_link_to_it_are_let_in(plain: Running) -> None:
    for name in (plain.address, f"localhost:{plain.port}"):
        answer = plain.post(query(), Host=name, Origin=f"http://{name}", Sec_Fetch_Site="same-origin")
        assert "frames" == answer.envelope["type"]
        assert "access-control-allow-origin" not in answer.headers
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert [200, 403] == [plain.ask(path=path, headers=link).status for path in ("/", "/timeline")]


def test_a_page_that_was_let_in_by_name_may_ask_across_origins(start: Start) -> None:
    running = start(origins=("https://notes.example",))
    headers = {"Origin": "https://notes.example", "Sec-Fetch-Site": "cross-site"}
    preflight = running.ask("OPTIONS", "/", headers={**headers, "Access-Control-Request-Method": "POST"})
    assert (204, "https://notes.example") == (preflight.status, preflight.headers["access-control-allow-origin"])
    assert (
        "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name"
        == preflight.headers["access-control-allow-headers"]
    )
    answer = running.post(query(), **headers)
    assert ("frames", "https://notes.example") == (
        answer.envelope["type"],
        answer.headers["access-control-allow-origin"],
    )
    assert 403 == running.post(query(), Origin="https://evil.example").status


@requirement("http-auth")
def test_without_the_token_nothing_is_told(start: Start, token_file: str) -> None:
    """Fault 101."""
    running = start(token_file=token_file)
    wrong = [{}, *({"Authorization": value} for value in ("", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN))]
    wrong += [{"Authorization": f"Bearer {guess}"} for guess in (TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é" * 9)]
    routes = [("POST", "/"), ("POST", "/explain"), ("GET", "/timeline"), ("GET", "/metrics"), ("GET", "/nowhere")]
    for method, path in routes:
        answers = [running.ask(method, path, b"{}", {**JSON, **headers}) for headers in wrong]
        assert {(401, b"", "Bearer")} == {(*answer[::2], answer.headers["www-authenticate"]) for answer in answers}
    assert [] == running.provider.deadlines
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert "frames" == running.post(query(), **right).envelope["type"]
    assert "frames" == running.post(query(), Authorization=f"bearer  {TOKEN}").envelope["type"]
    assert 200 == running.ask(path="/timeline", headers=right).status
    assert [] == running.logged


def test_a_thousand_guesses_shut_nobody_out(start: Start, token_file: str) -> None:
    running = start(token_file=token_file)
    with closing(HTTPConnection(running.address, timeout=PATIENCE)) as connection:
        for number in range(1_000):
            connection.request("POST", "/", b"{}", {**JSON, "Authorization": f"Bearer guess-number-{number:06}"})
            assert 401 == _answer(connection.getresponse()).status
    assert "frames" == running.post(query(), Authorization=f"Bearer {TOKEN}").envelope["type"]
    assert [] == running.logged


def test_the_page_and_the_sign_of_life_need_no_token(start: Start, token_file: str) -> None:
    running = start(token_file=token_file)
    assert [200, 200] == [running.ask(path=path).status for path in ("/", "/healthz")]
    assert b"alive\n" == running.ask(path="/healthz").body


@pytest.mark.parametrize(
    "text", ["", "short", "two words of a token", "with\x00zero-and-more-of-it", "ünicode-token-16-long"]
)
def test_a_token_file_without_a_good_token_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(BadRequest, match="is to hold one token") as caught:
        Edge(fake.service(), Http("127.0.0.1", 0, token_file=str(tmp_path / "token")))
    assert not text or text not in caught.value.message


def test_what_cannot_be_used_is_named(tmp_path: Path, plain: Running) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(BadRequest, match=r"--token-file .*missing: No such file"):
        Edge(fake.service(), Http("127.0.0.1", 0, token_file=missing))
    with pytest.raises(BadRequest, match="--tls-cert and --tls-key do not load"):
        Edge(fake.service(), Http("127.0.0.1", 0, certificate=missing, key=missing))
    with pytest.raises(Unavailable, match=r"cannot listen at 127\.0\.0\.1 port"):
        Edge(fake.service(), Http("127.0.0.1", plain.port))


# --- bodies ----------------------------------------------------------------------------------------------------


@fault(101)
@pytest.mark.parametrize(
    "type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp", "text/json"],
)
def test_only_json_is_taken(plain: Running, type: str) -> None:
    """Fault 101."""
    status, _, body = plain.ask("POST", "/", query(), {"Content-Type": type})
    error = json.loads(body)
    assert (415, "bad_request") == (status, error["code"])
    assert "Content-Type: application/json" in error["message"]


def test_json_needs_a_type_and_may_have_a_parameter(plain: Running) -> None:
    assert 415 == plain.ask("POST", "/", query(), {}).status
    assert 415 == plain.raw(plain.head("Content-Type: text/plain", "Content-Type: application/json")).status
    assert 200 == plain.ask("POST", "/", query(), {"Content-Type": "Application/JSON; charset=utf-8"}).status


@fault(102)
def test_a_compressed_body_is_not_unpacked(plain: Running) -> None:
    """Fault 102."""
    for coding in ("gzip", "deflate", "br", "gzip, gzip"):
        assert 415 == plain.post(b"\x1f\x8b" + bytes(1_000), Content_Encoding=coding).status
    assert 200 == plain.post(query(), Content_Encoding="identity").status


@requirement("request-limit")
def test_a_body_at_the_limit_is_served_and_one_beyond_it_is_not(start: Start) -> None:
    running = start(limits=replace(LIMITS, body=1_000, linger=0.2))
    body = encode(query("x", "q1"))
    assert "frames" == running.post(body + b" " * (1_000 - len(body))).envelope["type"]
    answer = running.post(body + b" " * (1_001 - len(body)))
    assert (413, "bad_request") == (answer.status, answer.envelope["code"])


def test_sixteen_mebibytes_are_served(plain: Running) -> None:
    body = encode(query("x", "q1"))
    answer = plain.post(body[:-1] + b',"more":"' + b"x" * (LIMITS.body - len(body) - 10) + b'"}')
    assert "frames" == answer.envelope["type"]


@fault(102)
def test_a_length_of_ten_gigabytes_is_refused_before_it_comes(plain: Running) -> None:
    """Fault 102."""
    answer = plain.raw(plain.head("Content-Length: 10000000000") + b"0123456789")
    assert (413, "bad_request") == (answer.status, answer.envelope["code"])
    assert "close" == answer.headers["connection"]


@fault(102)
def test_a_body_in_chunks_is_refused_when_it_gets_too_long(start: Start) -> None:
    """Fault 102."""
    running = start(limits=replace(LIMITS, body=100_000))
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    answer = running.raw(running.head("Transfer-Encoding: chunked") + chunk * 3, then=chunk * 100)
    assert (413, "bad_request") == (answer.status, answer.envelope["code"])


@fault(102)
@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: -1"],
        ["Content-Length: abc"],
        ["Content-Length: 1e3"],
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: " + "9" * 30],
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Bad Header: x"],
        ["X: a\x00b"],
    ],
)
def test_a_head_that_two_readers_could_read_differently_is_refused(plain: Running, lines: list[str]) -> None:
    """Fault 102."""
    answer = plain.raw(plain.head(*lines) + b"0\r\n\r\n")
    assert answer.status in (400, 501)
    assert b"" == answer.body
    assert 200 == plain.ask(path="/healthz").status


def test_a_chunk_that_is_none_ends_its_connection_only(plain: Running) -> None:
    assert 400 == plain.raw(plain.head("Transfer-Encoding: chunked") + b"xyz\r\n").status
    assert 200 == plain.ask(path="/healthz").status


def test_long_heads_are_refused(plain: Running) -> None:
    """Fault 102."""
    assert 431 == plain.raw(plain.head("X: " + "x" * 2**20)).status
    assert 431 == plain.raw(plain.head(*[f"X-{number}: y" for number in range(10_000)])).status
    assert 431 == plain.raw(plain.head(target="/" + "x" * 2**20)).status
    assert 431 == plain.raw(b"x" * 2**20).status
    assert 200 == plain.ask(path="/healthz").status


@fault(102)
def test_memory_does_not_grow_with_what_is_refused(made: Made) -> None:
    """Fault 102: a process of its own, so that its memory is its own."""
    with Serving(made, "--http") as serving:
        serving.ask("POST", "/", query())
        before = serving.memory()
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        with serving.connected() as connection:
            connection.sendall(serving.head("Transfer-Encoding: chunked"))
            with suppress(OSError):  # it hangs up somewhere on the way
                for _ in range(3_200):
                    connection.sendall(chunk)
        serving.raw(serving.head("X: " + "x" * 2**20))
        serving.raw(serving.head("Content-Length: 10000000000") + b"0123456789")
        assert serving.memory() - before < 20 * 2**20
        assert 200 == serving.ask(path="/healthz").status


def test_bodies_that_wait_together_are_bounded(start: Start) -> None:
    running = start(limits=replace(LIMITS, held=100_000, linger=0.2))
    with running.connected() as slow:
        slow.sendall(running.head("Content-Length: 90000") + b" " * 80_000)
        while True:
            answer = running.post(b" " * 50_000)
            if answer.envelope["code"] == "unavailable":
                break  # the slow one's bytes have arrived
    assert 200 == answer.status
    assert "frames" == running.post(query()).envelope["type"]


# --- what is left open -----------------------------------------------------------------------------------------

HASTY = replace(LIMITS, header_time=0.3, body_time=0.3, idle_time=1, write_time=0.3, linger=0.2)


def test_a_slow_body_is_given_up(start: Start) -> None:
    """Fault 102."""
    running = start(limits=HASTY)
    assert (408, b"") == running.raw(running.head("Content-Length: 100") + b"{")[::2]


def test_a_connection_that_never_asks_is_closed(start: Start) -> None:
    running = start(limits=HASTY)
    with running.connected() as silent, running.connected() as stuttering:
        stuttering.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert b"" == _rest(silent)
        assert b"" == _rest(stuttering)
    assert 2 == running.metric('refused_total{why="header_time"}')


def test_a_connection_that_asks_no_more_is_closed(start: Start) -> None:
    running = start(limits=HASTY)
    with running.connected() as connection:
        connection.sendall(running.head(target="/healthz", method="GET"))
        assert _rest(connection).endswith(b"alive\n")


def test_a_second_request_that_never_ends_is_closed(start: Start) -> None:
    running = start(limits=replace(HASTY, idle_time=1_000))
    with running.connected() as connection:
        connection.sendall(running.head(target="/healthz", method="GET"))
        assert 200 == received(connection).status
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        assert b"" == _rest(connection)


def _rest(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_who_does_not_read_is_let_go(start: Start) -> None:
    running = start(limits=HASTY)
    with running.connected() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        body = encode(query(f"bytes {8 * 2**20}"))
        connection.sendall(running.head(f"Content-Length: {len(body)}") + body)
        until(lambda: running.metric("connections") == 1)  # the one that asks for it


def until(true: Callable[[], bool]) -> None:
    """Ask again and again, each time over a connection: bounded by the test's patience."""
    for _ in range(2_000):
        if true():
            return
    raise AssertionError("it never came true")


def test_two_hundred_idle_connections_shut_nobody_out(start: Start) -> None:
    running = start(limits=replace(LIMITS, connections=64))
    idle = [running.connected() for _ in range(200)]
    try:
        for _ in range(3):
            assert "frames" == running.post(query()).envelope["type"]
        assert running.metric("connections") <= 64
        assert b"" == _rest(idle[0])  # the one that was idle longest had to go
    finally:
        for connection in idle:
            connection.close()


# --- work ------------------------------------------------------------------------------------------------------


class Asking:
    """A request whose answer is awaited in a thread."""

    def __init__(self, running: Running, body: Envelope) -> None:
        self.answer: Answer | None = None
        self._thread = threading.Thread(target=self._ask, args=(running, body))
        self._thread.start()

    def _ask(self, running: Running, body: Envelope) -> None:
        self.answer = running.post(body)

    def done(self) -> Answer:
        self._thread.join(PATIENCE)
        assert self.answer is not None
        return self.answer


@fault(98)
def test_a_slow_query_is_in_front_of_nothing(start: Start) -> None:
    running = start(limits=replace(LIMITS, queries=1, waiting=1))
    slow = Asking(running, query("wait", "slow"))
    running.provider.running.wait(PATIENCE)
    assert 200 == running.ask(path="/healthz").status
    assert "verified" == running.post(VERIFY).envelope["type"]
    assert "handshake_ack" == running.post(HANDSHAKE).envelope["type"]
    waiting = Asking(running, query("x", "waiting"))
    until(lambda: running.metric("working") == 2)
    refused = running.post(query("x", "q3"))
    assert (200, "unavailable", "q3") == (refused.status, refused.envelope["code"], refused.envelope["id"])
    assert 200 == running.ask(path="/healthz").status
    running.provider.release.set()
    assert ["slow", "waiting"] == [asking.done().envelope["id"] for asking in (slow, waiting)]


@requirement("P5")
def test_work_that_outlives_its_deadline_is_answered_for(start: Start) -> None:
    running = start(deadline=0.1, limits=replace(LIMITS, queries=1, overrun=0.1))
    for number in range(3):  # a thread that hangs is replaced
        answer = running.post(query("hang", f"q{number}"))
        assert (200, "unavailable", f"q{number}") == (answer.status, answer.envelope["code"], answer.envelope["id"])
    assert "frames" == running.post(query()).envelope["type"]
    assert all(deadline is not None for deadline in running.provider.deadlines)


def test_nobody_works_for_a_peer_that_left(start: Start) -> None:
    running = start(limits=replace(LIMITS, queries=1))
    slow = Asking(running, query("wait"))
    running.provider.running.wait(PATIENCE)
    with running.connected() as connection:
        body = encode(query("never asked"))
        connection.sendall(running.head(f"Content-Length: {len(body)}") + body)
        until(lambda: running.metric("working") == 2)
    until(lambda: running.metric("working") == 1)
    running.provider.release.set()
    assert 200 == slow.done().status
    assert "frames" == running.post(query()).envelope["type"]
    assert 2 == len(running.provider.deadlines)


def test_many_at_once_each_get_their_own_answer(start: Start) -> None:
    """Fault 97."""
    running = start()
    asking = [Asking(running, query(f"goal {number}", f"q{number}")) for number in range(64)]
    for number, one in enumerate(asking):
        envelope = one.done().envelope
        assert (f"q{number}", f"goal {number}") == (envelope["id"], envelope["result"]["frames"][0]["content"])


def test_requests_that_come_in_one_piece_are_answered_in_order(plain: Running) -> None:
    bodies = [encode(query(f"goal {number}", f"q{number}")) for number in range(20)]
    with plain.connected() as connection:
        connection.sendall(b"".join(plain.head(f"Content-Length: {len(body)}") + body for body in bodies))
        stream = connection.makefile("rb")
        for number in range(20):
            length = 0
            while (line := stream.readline()) != b"\r\n":
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            assert f"q{number}" == checked(stream.read(length))["id"]


def test_a_stop_lets_what_was_asked_finish(start: Start) -> None:
    running = start()
    slow = Asking(running, query("wait", "slow"))
    running.provider.running.wait(PATIENCE)
    running.edge.stop()
    running.provider.release.set()
    assert ("frames", "slow") == (slow.done().envelope["type"], slow.done().envelope["id"])
    running.thread.join(PATIENCE)
    assert not running.thread.is_alive()


@requirement("shutting_down")
def test_a_stop_does_not_wait_for_what_never_ends(start: Start) -> None:
    running = start(limits=replace(LIMITS, drain=0.3))
    slow = Asking(running, query("hang", "slow"))
    running.provider.running.wait(PATIENCE)
    with running.connected(), running.connected() as stuttering:
        stuttering.sendall(b"GET")
        running.edge.stop()
        assert ("shutting_down", "slow") == (slow.done().envelope["code"], slow.done().envelope["id"])
        running.thread.join(PATIENCE)
        assert not running.thread.is_alive()


# --- TLS -------------------------------------------------------------------------------------------------------


def test_it_speaks_tls_with_a_certificate(start: Start, tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    running = start(certificate=certificate, key=key)
    assert running.edge.url.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cafile=certificate)
    with running.connected() as plain, context.wrap_socket(plain, server_hostname="localhost") as secured:
        body = encode(query("x", "q1"))
        secured.sendall(running.head(f"Content-Length: {len(body)}", f"Origin: https://{running.address}") + body)
        response = HTTPResponse(secured)
        response.begin()
        assert "q1" == checked(response.read())["id"]
        response.close()


def _certificate(folder: Path) -> tuple[str, str]:
    """A self-signed one for localhost, made on the spot."""
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2200, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(private, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


# --- the process -----------------------------------------------------------------------------------------------


class Serving(Running):
    """A process that was told `serve --http`."""

    def __init__(self, made: Made, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "repo_provider", "serve", "-C", str(made.path), "--no-store", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            cwd=Path(__file__).parents[1],
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode()
        self.address = self.url.partition("//")[2].strip().rstrip("/")

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(), err.decode()

    def memory(self) -> int:
        """Bytes of memory it has, or had at most where the system says."""
        told = Path(f"/proc/{self.process.pid}/status")
        if not told.exists():
            pytest.skip("no /proc here: memory is not measured")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", told.read_text())[0]) * 1024


def test_serve_http_prints_its_url_answers_and_leaves_in_peace(made: Made, token_file: str) -> None:
    with Serving(made, "--http", "--token-file", token_file, "--deadline", "0") as serving:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", serving.url)
        right = f"Bearer {TOKEN}"
        assert 401 == serving.post(query("retry")).status
        found = serving.post(query("retry", "q1"), Authorization=right).envelope
        assert ("frames", "q1") == (found["type"], found["id"])
        held = [
            {"provider_id": "repo-provider", "frame_id": frame["id"], "content_digest": frame["content_digest"]}
            for frame in found["result"]["frames"]
        ]
        verdicts = serving.post({"type": "verify", "request": {"frames": held}}, Authorization=right).envelope
        assert {"valid"} == {verdict["status"] for verdict in verdicts["response"]["verdicts"]}
        timeline = json.loads(serving.ask(path="/timeline", headers={"Authorization": right}).body)
        assert 3 == len(timeline["commits"])
        serving.process.send_signal(signal.SIGTERM)
        assert (0, "", "") == serving.ended()


@fault(101)
def test_serve_http_beyond_this_machine_refuses_to_start_in_the_open(made: Made) -> None:
    """Fault 101."""
    with Serving(made, "--http", "0.0.0.0:0") as serving:
        code, out, err = serving.ended()
    assert (2, "") == (code, out)
    assert "needs --token-file" in err


def test_a_port_that_is_taken_is_one_line(made: Made, plain: Running) -> None:
    with Serving(made, "--http", plain.address) as serving:
        code, out, err = serving.ended()
    assert (2, "") == (code, out)
    assert re.fullmatch(r"repo-provider: cannot listen at 127\.0\.0\.1 port \d+: .*\n", err)


# --- the page --------------------------------------------------------------------------------------------------


def test_the_page_lets_nothing_run_but_its_own(plain: Running) -> None:
    answer = plain.ask()
    policy = answer.headers["content-security-policy"]
    assert (page()[0], page()[1]) == (answer.body, policy)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = answer.body.decode()
    assert [] == re.findall(
        r"""\s(?:on\w+|style)\s*=\s*["']|javascript:|\b(?:src|href)\s*=\s*["']?(?:https?:)?//""", text
    )
    assert 1 == text.count("<script>")
    assert 1 == text.count("<style>")
    assert [] == re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text)


def test_every_response_is_kept_out_of_caches_frames_and_guesses(plain: Running) -> None:
    for answer in (
        plain.ask(),
        plain.ask(path="/nowhere"),
        plain.post(query()),
        plain.post(b"x"),
        plain.raw(plain.head("Host: x")),
    ):
        assert ("no-store", "nosniff", "DENY") == tuple(
            answer.headers[name] for name in ("cache-control", "x-content-type-options", "x-frame-options")
        )
