"""The protocol over HTTP: one envelope in a request's body, one in the response's, and a page for people.

    POST /, /contextgraph   the protocol; a session a request, already past its handshake
    POST /explain           a `query`, answered with its `frames` and what each score is made of
    GET /timeline           the commits an instant can mean
    POST /mcp               the same questions for agents that speak MCP, where somebody mounted that
    GET /                   the page that asks all of these; it holds nothing of the repository
    GET /healthz, /metrics  that it lives; counts in Prometheus' text form

Framing, statuses and who may ask live here; envelopes and errors are `session`'s. Every request passes `_Gate` first:
the host it names (a rebound name is a stranger's page), the page it comes from, the token. Nothing a peer leaves open,
sends slowly or does not read is waited for without a bound, and what waits for work is counted. One event loop does
the talking, threads do the work, so nothing slow is ever in front of `/healthz`. uvicorn and starlette are imported
here only. Keeps R1, R2, H4, P5 and what the specification says of its HTTP binding.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import signal
import socket
import sys
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import h11
import msgspec
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from repo_provider import wire
from repo_provider.errors import BadRequest, ProviderError, ShuttingDown, Unavailable
from repo_provider.protocol import ContextFrame, ContextQuery, ContextQueryResult, FrameId, FrameVerdict
from repo_provider.session import Job, Reply, Service, Session
from repo_provider.settings import Http

_T = TypeVar("_T")


class Limits(Struct, frozen=True):
    """What one peer may take from the others, in bytes, seconds and counts."""

    body: int = wire.MAX_LINE
    body_time: float = 20.0
    header: int = 64 * 2**10
    header_time: float = 10.0
    idle_time: int = 75
    write_time: float = 30.0
    linger: float = 1.0
    """How long a refused peer's body is still taken from it: closing at once could take the refusal back."""
    connections: int = 512
    queries: int = 4
    verifies: int = 2
    waiting: int = 256
    held: int = 64 * 2**20
    overrun: float = 5.0
    """Past its deadline a request is answered for."""
    drain: float = 3.5
    """After a stop: what is then not answered is told so."""


LIMITS = Limits()
TIMELINE = 500
"""Commits that `/timeline` lists at most."""
SPARE_WORKERS = 32
"""Threads that may take the place of those whose work never ended."""


class Explains(Protocol):
    """What the page asks of a provider beside queries and verdicts."""

    def explain(
        self, query: ContextQuery, deadline: float | None, /
    ) -> tuple[ContextQueryResult, Sequence[Mapping[str, float]]]: ...

    def timeline(self, limit: int, /) -> Mapping[str, object]: ...


Asgi: TypeAlias = ASGIApp
Mount: TypeAlias = Callable[[], Asgi]
"""Makes an application when the first request for it comes, in a thread: it may import for a second."""


def serve(
    service: Service,
    http: Http,
    announce: Callable[[str], None],
    *,
    deadline: float | None,
    limits: Limits = LIMITS,
    mcp: Mount | None = None,
) -> int:
    """Serve until a signal says stop; returns the exit status, with the provider closed.

    `announce` gets the url once there is somebody to answer at it. `deadline` is in seconds from the reading of a
    request. `mcp` is what answers at `/mcp`. Raises BadRequest or Unavailable where it cannot listen.
    """
    edge = Edge(service, http, deadline=deadline, limits=limits, mcp=mcp)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: edge.stop())
    announce(edge.url)
    threading.Thread(target=service.warm, daemon=True).start()
    edge.run()
    closing = threading.Thread(target=service.close, daemon=True)
    closing.start()
    closing.join(limits.linger / 2)
    return 0


class Edge:
    """A socket that listens from the start, and what answers at it once `run` runs. `stop` may come from anywhere."""

    def __init__(
        self,
        service: Service,
        http: Http,
        *,
        deadline: float | None = None,
        limits: Limits = LIMITS,
        mcp: Mount | None = None,
    ) -> None:
        counts = _Counts()
        self._desk = _Desk(service, counts, deadline, limits, mcp)
        token = None if http.token_file is None else _token(http.token_file)
        gate = _Gate(self._desk.app(), http, token, counts, limits, service.log)
        self._server = _Server(_configured(gate, http, counts, limits))
        self._socket = _listening(http)
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        host, port = self._socket.getsockname()[:2]
        self.url = f"{'https' if http.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"

    def run(self) -> None:
        """Answer until `stop`, then drain."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._desk.open()
        if self._stopped:
            self._stop()
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Take no new work, answer what was asked, and leave. A signal handler may call this."""
        self._stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has left already
                self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._desk.shut()
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's, not the server's."""
        yield


def _listening(http: Http) -> socket.socket:
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let another process take the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((http.host, http.port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise Unavailable(f"cannot listen at {http.host} port {http.port}: {error.strerror}") from None
    return listener


def _configured(app: ASGIApp, http: Http, counts: _Counts, limits: Limits) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=_protocol(limits, counts),
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.idle_time,
        timeout_graceful_shutdown=int(limits.drain) + 1,
        h11_max_incomplete_event_size=limits.header,
        ssl_certfile=http.certificate,
        ssl_keyfile=http.key,
    )
    try:
        config.load()
    except OSError as error:  # ssl's errors are OSErrors
        raise BadRequest(f"--tls-cert and --tls-key do not load: {error}", reason="usage") from None
    return config


_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]{16,4096}=*")


def _token(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            token = file.read(2**13).strip()
    except OSError as error:
        raise BadRequest(f"--token-file {path}: {error.strerror}", reason="usage") from None
    if not _TOKEN.fullmatch(token):
        raise BadRequest(
            f"--token-file {path} is to hold one token of 16 or more letters, digits or -._~+/", reason="usage"
        )
    return token


# --- who may ask -----------------------------------------------------------------------------------------------


class _Refused(Exception):
    """A request that ends here, with a status and at most an envelope. Its body may not have been read."""

    def __init__(self, status: int, why: str, envelope: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.envelope = envelope


class _Refusal(Response):
    """Says no and closes, but goes on taking the body for a while: closing at once could take the answer back."""

    def __init__(self, refused: _Refused, linger: float) -> None:
        headers = {"connection": "close"} | ({"www-authenticate": "Bearer"} if refused.status == 401 else {})
        media_type = "application/json" if refused.envelope else None
        super().__init__(refused.envelope, refused.status, headers, media_type)
        self._linger = linger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(self._linger):
                while (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body"})


_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version, mcp-method, mcp-name"),
    (b"access-control-max-age", b"600"),
]
_WITHOUT_TOKEN = {"/", "/healthz"}


class _Gate:
    """Looks at every request before anything else does, and has the last word on every response."""

    def __init__(
        self,
        app: ASGIApp,
        http: Http,
        token: bytes | None,
        counts: _Counts,
        limits: Limits,
        log: Callable[[str], None],
    ) -> None:
        self._app = app
        self._counts = counts
        self._limits = limits
        self._log = log
        self._hosts = frozenset(http.hosts)
        self._origins = frozenset(http.origins)
        self._schemes = {"https"} if http.certificate else {"http", "https"} if http.behind_proxy else {"http"}
        self._default_port = 443 if http.certificate else 80
        self._token = None if token is None else hashlib.sha256(token).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        extra = list(_HEADERS)
        started = False

        async def answering(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            origin = self._origin(request)
            if origin is not None:
                extra += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
                if request.method == "OPTIONS":
                    extra += _PREFLIGHT
                    return await Response(status_code=204)(scope, receive, answering)
            self._authorize(request)
            await self._app(scope, receive, answering)
        except _Refused as refused:
            self._counts.refused[refused.why] += 1
            await _Refusal(refused, self._limits.linger)(scope, receive, answering)
        except Exception as error:
            from traceback import format_exception  # only ever needed here

            self._log("".join(format_exception(error)))
            if not started:
                await Response(status_code=500)(scope, receive, answering)

    def _origin(self, request: Request) -> str | None:
        """The page that asks, if it is one that was let in by name. Raises _Refused for strangers."""
        headers = request.headers
        hosts = headers.getlist("host")
        if sum(len(name) + len(value) for name, value in headers.raw) > self._limits.header:
            raise _Refused(431, "header_size")
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower(), request) or not _is_path(request.scope):
            raise _Refused(403, "host")
        origins = headers.getlist("origin")
        if not origins:
            page = request.scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not page:
                raise _Refused(403, "origin")
            return None
        if len(origins) == 1 and origins[0] in self._origins:
            return origins[0]
        if len(origins) != 1 or origins[0] not in {f"{scheme}://{hosts[0].lower()}" for scheme in self._schemes}:
            raise _Refused(403, "origin")
        return None

    def _is_ours(self, host: str, request: Request) -> bool:
        """Whether a Host header names this server: a name that was rebound to our address does not."""
        match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?", host, re.ASCII)
        if match is None:
            return False
        name, port = match[1], int(match[2] or self._default_port)
        if host in self._hosts or name in self._hosts:
            return True
        address, own_port = request.scope["server"]  # of this connection
        own = {"localhost", "127.0.0.1", "[::1]", f"[{address}]" if ":" in address else address}
        return name in own and port == own_port

    def _authorize(self, request: Request) -> None:
        if self._token is None or (request.method in ("GET", "HEAD") and request.scope["path"] in _WITHOUT_TOKEN):
            return
        given = request.headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        told = hashlib.sha256(token.strip().encode("utf-8", "replace")).digest()
        if not hmac.compare_digest(told, self._token) or scheme.lower() != "bearer":
            raise _Refused(401, "token")


def _is_path(scope: Scope) -> bool:
    """Not `GET http://somewhere/ HTTP/1.1`: such a line names a host of its own."""
    return bool(scope["raw_path"].startswith(b"/"))


# --- what is answered ------------------------------------------------------------------------------------------


class _Desk:
    """The routes, and the work behind them."""

    def __init__(
        self, service: Service, counts: _Counts, deadline: float | None, limits: Limits, mcp: Mount | None
    ) -> None:
        self._service = service
        self._mcp = None if mcp is None else _Mounted(self, mcp)
        self._counts = counts
        self._deadline = deadline
        self._limits = limits
        self._queries = _Pool(limits.queries, limits.waiting)
        self._verifies = _Pool(limits.verifies, limits.waiting)  # never behind a slow query
        self._held = 0
        self._shut = False

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._show, methods=["GET"]),
                Route("/", self._post, methods=["POST"]),
                Route("/contextgraph", self._post, methods=["POST"]),
                Route("/explain", self._explain, methods=["POST"]),
                Route("/timeline", self._timeline, methods=["GET"]),
                Route("/healthz", self._healthy, methods=["GET"]),
                Route("/metrics", self._metrics, methods=["GET"]),
                *([] if self._mcp is None else [Route("/mcp", self._mcp, methods=["POST"])]),
            ],
            exception_handlers={_Refused: self._refuse, ClientDisconnect: _leave},
        )

    def open(self) -> None:
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def shut(self) -> None:
        """No new work; what is not done when the time to drain has passed is answered `shutting_down`."""
        if not self._shut:
            self._shut = True
            asyncio.get_running_loop().call_later(self._limits.drain, self._over.set_result, None)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, _Refused)
        self._counts.refused[error.why] += 1
        return _Refusal(error, self._limits.linger)

    async def _show(self, request: Request) -> Response:
        html, policy = page()
        headers = {"content-security-policy": policy, "cross-origin-opener-policy": "same-origin"}
        return Response(html, media_type="text/html", headers=headers)

    async def _healthy(self, request: Request) -> Response:
        return Response("alive\n", media_type="text/plain")

    async def _metrics(self, request: Request) -> Response:
        return Response(self._counts.text(), media_type="text/plain; version=0.0.4")

    async def _timeline(self, request: Request) -> Response:
        service = self._service
        limit = None if self._deadline is None else monotonic() + self._deadline + self._limits.overrun
        try:
            told = await self._work(
                request, self._queries, lambda: cast(Explains, service.provider()).timeline(TIMELINE), limit
            )
        except Exception as error:
            return _enveloped(Session(service).refuse(error, None).run())
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def _post(self, request: Request) -> Response:
        reply = await self._exchange(request, self._service)
        return Response(status_code=204) if reply is None else _enveloped(reply)

    async def _explain(self, request: Request) -> Response:
        explaining = _Explaining(self._service)
        reply = await self._exchange(request, explaining.service)
        if reply is not None and reply.type == "frames":
            return Response(explaining.explained(reply.data), media_type="application/json")
        return Response(status_code=204) if reply is None else _enveloped(reply)

    async def _exchange(self, request: Request, service: Service) -> Reply | None:
        """The reply to what the body says; None where there is nothing to say."""
        parts: list[bytes] = []
        try:
            body = await self._read(request, parts)
            begun = monotonic()
            deadline = None if self._deadline is None else begun + self._deadline
            session = Session(service, open=True)
            job = session.receive(body, deadline=deadline)
            if job is None and not session.ended and not body.strip():
                job = session.refuse(wire.Unreadable("an empty body is no envelope"), None)
            if job is None:
                return None
            reply = job.run() if job.ready else await self._reply(request, job, deadline)
            self._counts.answered(job.type, reply, monotonic() - begun)
            return reply
        finally:
            self._held -= sum(map(len, parts))

    async def _reply(self, request: Request, job: Job, deadline: float | None) -> Reply:
        pool = self._verifies if job.type == "verify" else self._queries
        try:
            return await self._work(
                request, pool, job.run, None if deadline is None else deadline + self._limits.overrun
            )
        except ProviderError as error:
            return job.refuse(error)

    async def _work(self, request: Request, pool: _Pool, work: Callable[[], _T], limit: float | None) -> _T:
        """Do it in a thread, as long as somebody waits for it. Raises what it raises, Unavailable, ShuttingDown."""
        if self._shut:
            raise ShuttingDown("the provider is shutting down")
        promise = pool.start(work)
        if promise is None:
            raise Unavailable("too many requests at once", reason="busy")
        result = asyncio.wrap_future(promise)
        gone = asyncio.ensure_future(_gone(request))
        try:
            self._counts.working += 1
            await asyncio.wait(
                (result, gone, self._over),
                timeout=None if limit is None else max(0.0, limit - monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if result.done():
                return result.result()
            if gone.done():
                raise ClientDisconnect
            if self._over.done():
                raise ShuttingDown("the provider is shutting down")
            raise Unavailable("this took too long", reason="overrun")
        finally:
            gone.cancel()
            if not result.done():
                pool.give_up(promise)
            self._counts.working -= 1

    # --- bodies ---

    async def hand_on(self, app: Callable[[], Awaitable[Asgi]], scope: Scope, receive: Receive, send: Send) -> None:
        """A request as others are taken, answered by another application."""
        if self._shut:
            raise _Refused(503, "shutting_down")
        parts: list[bytes] = []
        try:
            body = await self._read(Request(scope, receive), parts)
            if self._counts.working >= self._limits.waiting:
                raise _Refused(503, "busy")
            self._counts.working += 1
            try:
                await (await app())(scope, _again(body, receive), send)
            finally:
                self._counts.working -= 1
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, request: Request, parts: list[bytes]) -> bytes:
        """The body, whose parts are counted among those of all requests as long as the caller keeps them."""
        self._check_headers(request)
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_time):
                async for part in request.stream():
                    size += len(part)
                    self._held += len(part)
                    parts.append(part)
                    if size > self._limits.body:
                        raise _Refused(413, "body_size", Session(self._service).too_long(parts[0]).run().data)
                    if self._held > self._limits.held:
                        busy = Unavailable("too many requests at once", reason="busy")
                        raise _Refused(200, "bodies", Session(self._service).refuse(busy, None).run().data)
        except TimeoutError:
            raise _Refused(408, "body_time") from None
        return b"".join(parts)

    def _check_headers(self, request: Request) -> None:
        headers = request.headers
        types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
        if types != ["application/json"]:  # what a foreign form can send without asking first is something else
            error = BadRequest("send the body with Content-Type: application/json")
            raise _Refused(415, "content_type", Session(self._service).refuse(error, None).run().data)
        if headers.get("content-encoding", "identity") != "identity":
            raise _Refused(415, "content_encoding")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise _Refused(400, "two_lengths")
        if int(headers.get("content-length", "0")) > self._limits.body:
            raise _Refused(413, "body_size", Session(self._service).too_long(b"").run().data)


def _again(body: bytes, receive: Receive) -> Receive:
    """A request whose body was read already, for somebody who wants to read it."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return unread.pop() if unread else await receive()

    return receiving


class _Mounted:
    """Another application, made when it is first asked, behind the bounds of this one."""

    def __init__(self, desk: _Desk, mount: Mount) -> None:
        self._desk = desk
        self._mount = mount
        self._made: asyncio.Task[Asgi] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._desk.hand_on(self._app, scope, receive, send)

    async def _app(self) -> Asgi:
        if self._made is None or (self._made.done() and self._made.exception() is not None):
            self._made = asyncio.create_task(asyncio.to_thread(self._mount))
        return await asyncio.shield(self._made)


async def _leave(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # to nobody: the peer has left


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _enveloped(reply: Reply) -> Response:
    return Response(reply.data, 400 if reply.unreadable else 200, media_type="application/json")


class _Explaining:
    """A provider for one request, whose answer to a query comes with what the scores are made of."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._frames: Sequence[ContextFrame] = ()
        self._parts: Sequence[Mapping[str, float]] = ()
        self.service = Service(
            service.info,
            service.capabilities,
            lambda: self,
            signer=service.signer,
            log=service.log,
        )

    def query(self, query: ContextQuery, deadline: float | None, /) -> ContextQueryResult:
        result, self._parts = cast(Explains, self._service.provider()).explain(query, deadline)
        self._frames = result.frames
        return result

    def verify(self, frames: Sequence[FrameId], /) -> Sequence[FrameVerdict]:
        return self._service.provider().verify(frames)

    def explained(self, frames: bytes) -> bytes:
        """The `frames` envelope with a member `explain`: frame id -> name of a part -> its value."""
        told = {
            frame.id: {name: float(value) for name, value in sorted(parts.items())}
            for frame, parts in zip(self._frames, self._parts, strict=True)
        }
        return b'%s,"explain":%s}' % (frames.removesuffix(b"}"), msgspec.json.encode(told))


# --- work ------------------------------------------------------------------------------------------------------


class _Pool:
    """Daemon threads that take work in order; one whose work does not end is replaced, so many times."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._most = threads + waiting
        self._unfinished = 0
        self._spare = SPARE_WORKERS
        self._given_up: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        for _ in range(threads):
            self._start_thread()

    def start(self, work: Callable[[], _T]) -> Future[_T] | None:
        """The promise of a result; None where too much waits already."""
        with self._lock:
            if self._unfinished >= self._most:
                return None
            self._unfinished += 1
        promise: Future[_T] = Future()
        promise.add_done_callback(self._finished)
        self._queue.put((promise, work))
        return promise

    def give_up(self, promise: Future[Any]) -> None:
        """Nobody waits for this any more: work that has not begun never will."""
        promise.cancel()
        with self._lock:
            if promise.running() and self._spare:
                self._spare -= 1
                self._given_up.add(promise)
                self._start_thread()

    def _finished(self, promise: Future[Any]) -> None:
        with self._lock:
            self._unfinished -= 1

    def _start_thread(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            promise, work = self._queue.get()
            if not promise.set_running_or_notify_cancel():
                continue
            try:
                promise.set_result(work())
            except BaseException as error:
                promise.set_exception(error)
            with self._lock:
                if promise in self._given_up:  # another thread has taken this one's place
                    self._given_up.remove(promise)
                    self._spare += 1
                    return


# --- connections -----------------------------------------------------------------------------------------------


def _protocol(limits: Limits, counts: _Counts) -> type[H11Protocol]:
    """uvicorn's connection, with an end to whatever a peer can leave open."""
    idle: dict[H11Protocol, None] = {}  # those with no request to answer, longest first

    class Bounded(H11Protocol):
        _header_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
            super().connection_made(transport)
            counts.connections += 1
            self._look()
            if counts.connections > limits.connections:
                counts.refused["connections"] += 1
                longest = next(iter(idle))
                del idle[longest]
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            if not self._refused:
                super().data_received(data)
                self._look()

        def on_response_complete(self) -> None:
            idle[self] = None
            super().on_response_complete()  # which may take up the next request
            if self._answering():
                self._forget()

        def send_400_response(self, msg: str) -> None:
            """Not HTTP, or too much of it. Called while h11's error is being handled."""
            status = getattr(sys.exception(), "error_status_hint", 400)
            counts.refused["http"] += 1
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                return self.transport.abort()
            answering = self._answering()
            headers = [("content-length", "0"), ("connection", "close")]
            reason = HTTPStatus(status).phrase.encode()
            self._write(h11.Response(status_code=status, headers=headers, reason=reason))
            self._write(h11.EndOfMessage())
            self._refused = True
            if answering:
                return self.transport.close()
            self.loop.call_later(limits.linger, self.transport.abort)

        def shutdown(self) -> None:
            if self._refused:
                self.transport.abort()
            else:
                super().shutdown()

        def connection_lost(self, exc: Exception | None) -> None:
            counts.connections -= 1
            self._forget()
            self._end_write_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            self._write_timer = self.loop.call_later(limits.write_time, self.transport.abort)
            super().pause_writing()

        def resume_writing(self) -> None:
            self._end_write_timer()
            super().resume_writing()

        def _write(self, event: h11.Event) -> None:
            self.transport.write(self.conn.send(event) or b"")

        def _answering(self) -> bool:
            return self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY)

        def _look(self) -> None:
            """While nothing is being answered, a request has to come, whole up to its body, in so much time."""
            if self._answering():
                return self._forget()
            idle.setdefault(self)
            if self._header_timer is None:
                self._header_timer = self.loop.call_later(limits.header_time, self._late)

        def _late(self) -> None:
            counts.refused["header_time"] += 1
            self.transport.abort()

        def _forget(self) -> None:
            idle.pop(self, None)
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

        def _end_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

    return Bounded


# --- counts ----------------------------------------------------------------------------------------------------

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class _Counts:
    """What `/metrics` tells. Only the event loop's thread counts; nothing here names what was asked."""

    def __init__(self) -> None:
        self.connections = 0
        self.working = 0
        self.answers: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.buckets: Counter[tuple[str, float]] = Counter()
        self.seconds: dict[str, float] = {}

    def answered(self, type: str, reply: Reply, seconds: float) -> None:
        type = type or "refused"
        self.answers[type, reply.code or "ok"] += 1
        self.seconds[type] = self.seconds.get(type, 0.0) + seconds
        self.buckets[type, next((bound for bound in _BUCKETS if seconds <= bound), float("inf"))] += 1

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _metric("connections", "gauge", "Open connections.")
        yield f"repo_provider_connections {self.connections}"
        yield from _metric("working", "gauge", "Requests that are being answered.")
        yield f"repo_provider_working {self.working}"
        yield from _metric("requests_total", "counter", "Envelopes answered.")
        for (type, code), count in sorted(self.answers.items()):
            yield f'repo_provider_requests_total{{type="{type}",code="{code}"}} {count}'
        yield from _metric("refused_total", "counter", "Requests and connections turned away.")
        for why, count in sorted(self.refused.items()):
            yield f'repo_provider_refused_total{{why="{why}"}} {count}'
        yield from _metric("request_seconds", "histogram", "From the reading of an envelope to its answer.")
        for type in sorted(self.seconds):
            count = 0
            for bound in (*_BUCKETS, float("inf")):
                count += self.buckets[type, bound]
                label = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f'repo_provider_request_seconds_bucket{{type="{type}",le="{label}"}} {count}'
            yield f'repo_provider_request_seconds_sum{{type="{type}"}} {self.seconds[type]:.6f}'
            yield f'repo_provider_request_seconds_count{{type="{type}"}} {count}'


def _metric(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP repo_provider_{name} {help}", f"# TYPE repo_provider_{name} {kind}"


# --- the page --------------------------------------------------------------------------------------------------


@cache
def page() -> tuple[bytes, str]:
    """The page in one piece, and the policy that lets nothing run in it but its own style and script."""
    here = Path(__file__)
    style, script = (here.with_name(name).read_bytes().strip() for name in ("page.css", "page.js"))
    html = here.with_name("page.html").read_bytes()
    html = html.replace(b"<style></style>", b"<style>%s</style>" % style)
    html = html.replace(b"<script></script>", b"<script>%s</script>" % script)
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; "
        f"style-src {_hash(style)}; script-src {_hash(script)}; require-trusted-types-for 'script'; "
        "trusted-types 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def _hash(data: bytes) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(data).digest()).decode()}'"
