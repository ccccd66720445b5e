"""One peer's conversation: what may be asked when, and the only place an exception becomes an `error` envelope.

`Session.receive(line)` reads one line, checks it against the state of the handshake and the declared capabilities,
synchronously and in reading order; the `Job` it returns does the work on any thread and always ends in a `Reply`.
There is no I/O here, no thread and no clock: the edges (`stdio`, HTTP) own those and differ in framing only. The
provider is anything that can `query` and `verify`; it is loaded when first needed, so that an acknowledgement waits
for nothing. Keeps H1, H3, H4, Q1, P5, V2, V5, R1, U1, X1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from repo_provider import wire
from repo_provider.errors import (
    BadRequest,
    IncompatibleVersion,
    Internal,
    ProviderError,
    ShuttingDown,
    UnsupportedKind,
    UnsupportedRepresentation,
)
from repo_provider.protocol import (
    PROTOCOL_VERSION,
    AttesterKey,
    Capabilities,
    ContextQuery,
    ContextQueryResult,
    FrameId,
    FrameVerdict,
    ProviderInfo,
    parse_instant,
)

ReplyType: TypeAlias = Literal["handshake_ack", "frames", "verified", "error"]

_SPELLINGS = (PROTOCOL_VERSION, f"{PROTOCOL_VERSION}-draft")
_NOT_REQUESTS = ("handshake_ack", "frames", "verified", "error")


class Provider(Protocol):
    """Whoever answers. Called from several threads at once.

    `deadline` is a reading of `time.monotonic()`, None to wait as long as it takes. A provider may also have
    `warm()`, called once in the background when a peer has shaken hands, and `close()`, called before the process ends.
    """

    def query(self, query: ContextQuery, deadline: float | None, /) -> ContextQueryResult: ...

    def verify(self, frames: Sequence[FrameId], /) -> Sequence[FrameVerdict]: ...


class Reply(Struct, frozen=True):
    """One envelope, encoded, without a line end. `code` is the error code of an `error`.

    `unreadable` marks the answer to bytes that were no envelope at all: an HTTP edge has a status for those.
    """

    type: ReplyType
    data: bytes
    code: str | None = None
    unreadable: bool = False


class Signer(Struct, frozen=True):
    """Who vouches for answers: the keys the handshake publishes, and what signs. Neither goes without the other."""

    keys: tuple[AttesterKey, ...]
    seal: wire.Seal


class Service:
    """What every session of this process speaks for: the handshake's values, and the provider once it is needed."""

    def __init__(
        self,
        info: ProviderInfo,
        capabilities: Capabilities,
        load: Callable[[], Provider],
        *,
        signer: Signer | None = None,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.info = info
        self.capabilities = capabilities
        self.signer = signer
        self.log = log
        self._load = load
        self._loading = Lock()
        self._provider: Provider | None = None
        self._closed = False

    def provider(self) -> Provider:
        """The provider, loaded once; a load that failed is tried again by the next request."""
        with self._loading:
            if self._closed:
                raise ShuttingDown("the provider is shutting down")
            if self._provider is None:
                self._provider = self._load()
            return self._provider

    def warm(self) -> None:
        """Load the provider and let it prepare. Never raises: a request will meet the same fault and report it."""
        try:
            getattr(self.provider(), "warm", lambda: None)()
        except ProviderError as error:
            self.log(f"{error.code}: {error.message}")
        except BaseException as error:
            self.log(_trace(error))

    def close(self) -> None:
        """Close the provider if it was ever loaded. Never raises."""
        self._closed = True
        try:
            if self._provider is not None:
                getattr(self._provider, "close", lambda: None)()
        except BaseException as error:
            self.log(_trace(error))


class Job:
    """One request on its way to its reply.

    `ordered`: the peer gave no id, so replies are told apart by their order alone (H4).
    `ready`: the reply is known already; `run` costs nothing. `type` is the request's, "" where it was refused.
    """

    def __init__(
        self, service: Service, id: str | None, work: Callable[[], Reply], *, type: str = "", ready: bool = False
    ) -> None:
        self.id = id
        self.type = type
        self.ordered = id is None
        self.ready = ready
        self._service = service
        self._work = work

    def run(self) -> Reply:
        """Do the work. Returns a reply whatever happens."""
        try:
            return self._work()
        except BaseException as error:
            return self.refuse(error)

    def refuse(self, error: BaseException) -> Reply:
        """The reply that reports this error instead of an answer (X1)."""
        return _error_reply(self._service, self.id, error)


class Session:
    """A conversation with one peer. `open` starts it behind the handshake, as every HTTP exchange is."""

    def __init__(self, service: Service, *, open: bool = False) -> None:
        self.ended = False
        self._service = service
        self._open = open

    def receive(self, line: bytes, *, deadline: float | None = None) -> Job | None:
        """Take one line without its LF. None where nothing is to be answered: blank lines, notifications, `shutdown`.

        After a `shutdown` the session is `ended`. `deadline` is handed to the provider with the query.
        """
        try:
            message = wire.read(line)
            return None if message is None else self._job(message, deadline)
        except wire.Unreadable as error:
            return self.refuse(error, error.id)
        except BaseException as error:
            return self.refuse(error, None)

    def too_long(self, head: bytes) -> Job:
        """The answer to a line beyond `wire.MAX_LINE`, of which only the first bytes were kept."""
        error = wire.too_long(head)
        return self.refuse(error, error.id)

    def refuse(self, error: BaseException, id: str | None) -> Job:
        """A job that answers this error at once."""
        reply = _error_reply(self._service, id, error)
        return Job(self._service, id, lambda: reply, ready=True)

    def _job(self, message: wire.Message, deadline: float | None) -> Job | None:
        if message.type == "shutdown":
            self.ended = True  # R2
            return None
        try:
            work = self._work(message, deadline)
        except BaseException as error:
            return self.refuse(error, message.id)
        if work is None:
            return None
        return Job(self._service, message.id, work, type=message.type, ready=message.type == "handshake")

    def _work(self, message: wire.Message, deadline: float | None) -> Callable[[], Reply] | None:
        if self.ended:
            raise ShuttingDown("the session was shut down")
        if message.type == "handshake":
            return self._handshake(wire.protocol_version(message))
        if message.type == "query":
            query = wire.query(message)
            self._check_query(query)
            return lambda: self._answer(query, message.id, deadline)
        if message.type == "verify":
            frames = wire.identities(message)
            self._check_open("verify" if self._service.capabilities.verify else None)
            return lambda: self._judge(frames, message.id)
        if message.id is None and message.type not in _NOT_REQUESTS:
            return None  # U1: a notification nobody defined yet
        raise BadRequest("not a request this provider serves")

    # --- handshake (H1, H3) ---

    def _handshake(self, version: str) -> Callable[[], Reply]:
        if _family(version) != _family(PROTOCOL_VERSION):
            raise IncompatibleVersion(f"this provider speaks {PROTOCOL_VERSION}")
        self._open = True
        own = version if version in _SPELLINGS else PROTOCOL_VERSION
        service = self._service
        keys = service.signer.keys if service.signer is not None else ()
        data = wire.handshake_ack(own, service.info, service.capabilities, keys)
        reply = Reply("handshake_ack", data)
        return lambda: reply

    # --- query ---

    def _check_query(self, query: ContextQuery) -> None:
        self._check_open("query")
        if query.as_of is not None:
            parse_instant(query.as_of)
        served = self._service.capabilities.query.kinds
        if query.kinds and not set(query.kinds) & set(served):  # Q1
            raise UnsupportedKind("kinds served: " + ", ".join(served))
        wanted = query.representation_preferences
        if wanted and "full" not in wanted:  # P5
            raise UnsupportedRepresentation("only `full` frames are served")

    def _answer(self, query: ContextQuery, id: str | None, deadline: float | None) -> Reply:
        result = self._service.provider().query(query, deadline)
        seal = self._service.signer.seal if self._service.signer is not None else None
        return Reply("frames", wire.frames(result, id, seal))

    # --- verify ---

    def _judge(self, frames: Sequence[FrameId], id: str | None) -> Reply:
        return Reply("verified", wire.verified(self._service.provider().verify(frames), id))

    def _check_open(self, capability: str | None) -> None:
        if not self._open:
            raise BadRequest("a handshake comes first")
        if capability is None:
            raise BadRequest("this provider declares no `verify`")


def _family(version: str) -> str:
    return version.partition(".")[0]  # H1


def _error_reply(service: Service, id: str | None, error: BaseException) -> Reply:
    if not isinstance(error, ProviderError):
        service.log(_trace(error))
        error = Internal("the provider failed on this request; its standard error stream has the details")
    data = wire.error(error.code, error.message, id)
    return Reply("error", data, error.code, unreadable=isinstance(error, wire.Unreadable))


def _trace(error: BaseException) -> str:
    try:
        from traceback import format_exception  # only ever needed here
    except Exception:  # a process that may open no more files cannot load it
        return repr(error)
    return "".join(format_exception(error))
