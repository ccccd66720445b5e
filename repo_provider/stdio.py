"""The protocol over a pair of pipes: one envelope a line in, one a line out, and nothing else ever.

Four kinds of threads, none of which waits for a peer that does not read or a job that does not end:

    reader   reads stdin, cuts lines, lets the session look at each at once
    workers  run the jobs; requests with an id are answered as they finish, those without in the order they came (H4)
    writer   writes whole lines, as fast as the peer takes them
    main     waits for the end: `shutdown`, end of input, a signal, a broken pipe; and answers for jobs that overran

What is waiting is bounded: beyond the limits below a request is answered `unavailable`, and in the end the reader
waits too. This module knows lines, threads and the end of the process; envelopes and errors are `session`'s.
It imports nothing heavy, so that `claim` can run before anything else of the program is imported. Keeps R1, R2.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Condition, Thread, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from repo_provider.errors import ShuttingDown, Unavailable

if TYPE_CHECKING:
    from repo_provider.session import Job, Reply, Service, Session

DEADLINE = 1.8
"""Seconds after a request was read; a host waits two for a turn."""
OVERRUN = 5.0
"""Seconds past its deadline after which a job is answered for."""
WORKERS = 4
SPARE_WORKERS = 32
"""Threads that may take the place of those whose job never ended."""
MAX_WAITING = 1_024
"""Requests that may wait for a worker."""
MAX_WAITING_BYTES = 64 * 2**20
"""Bytes of requests that may wait, and bytes of replies a peer may leave unread before work pauses."""
MAX_UNREAD = 65_536
"""Replies a peer may leave unread before its requests are left unread too."""
FAREWELL = 1.0
"""Seconds that the last replies get after `shutdown`; a host kills the process group after two."""
_CHUNK = 2**16


def claim() -> tuple[int, int]:
    """Take stdin and stdout away from the rest of the process; returns descriptors for them.

    Whatever else prints, reads or is spawned later finds the null device for input and the error stream for output:
    stdout carries envelopes only. Run it before other imports, which may warn or print.
    """
    for stream in (0, 1, 2):  # one the host left closed must not become some later file
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stdin, stdout


def log(text: str) -> None:
    """Write lines to stderr, unless that would wait for a reader who is not there."""
    try:
        if os.name == "posix":
            from select import select

            if not select([], [2], [], 0)[1]:
                return
        os.write(2, text.encode("utf-8", "backslashreplace").rstrip()[-4_000:] + b"\n")
    except OSError:
        pass


def leave(code: int) -> NoReturn:
    """End the process now. A thread inside native code cannot be joined, and all worth keeping was closed before."""
    os._exit(code)


def serve(
    service: Service,
    stdin: int,
    stdout: int,
    *,
    deadline: float = DEADLINE,
    overrun: float = OVERRUN,
    workers: int = WORKERS,
    max_waiting: int = MAX_WAITING,
) -> int:
    """Speak with one peer until it leaves; returns the exit status, with the provider closed.

    `deadline` is in seconds from the reading of a request; 0 means none.
    """
    from repo_provider.session import Session

    edge = _Edge(service, Session(service), stdin, stdout, deadline, overrun, max_waiting)
    return edge.run(workers)


class Lines:
    """Cuts a stream of bytes at LF and nowhere else, holding no more than one line of the longest allowed length."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Lines without their LF, each with whether it is whole; of one too long only the start is given, once."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            yield from self.finish()
        yield from self._add(rest)

    def finish(self) -> Iterator[tuple[bytes, bool]]:
        """End the current line: a LF came, or the stream ended without one."""
        parts, self._parts = self._parts, []
        self._length = 0
        if not self._skipping and parts:
            yield b"".join(parts), True
        self._skipping = False

    def _add(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        if self._skipping or not piece:
            return
        self._parts.append(piece)
        self._length += len(piece)
        if self._length > self._longest:
            self._skipping = True
            yield b"".join(self._parts)[:_CHUNK], False
            self._parts = []


class _Exchange:
    """A request between its reading and its reply."""

    __slots__ = ("job", "limit", "reply", "running", "size")

    def __init__(self, job: Job, size: int, limit: float | None) -> None:
        self.job = job
        self.size = size
        self.limit = limit
        self.running = False
        self.reply: Reply | None = None


class _Edge:
    """The threads and what they share, all of it under one condition."""

    def __init__(
        self,
        service: Service,
        session: Session,
        stdin: int,
        stdout: int,
        deadline: float,
        overrun: float,
        max_waiting: int,
    ) -> None:
        self.service = service
        self.session = session
        self.stdin = stdin
        self.stdout = stdout
        self.deadline = deadline
        self.overrun = overrun
        self.max_waiting = max_waiting
        self.changed = Condition()
        self.events: SimpleQueue[str] = SimpleQueue()  # to main; safe to put from a signal handler
        self.unanswered: dict[_Exchange, None] = {}  # in reading order
        self.in_order: deque[_Exchange] = deque()  # without id, unwritten
        self.waiting: deque[_Exchange] = deque()  # no worker yet
        self.waiting_bytes = 0
        self.unread: deque[Reply] = deque()  # on their way out
        self.unread_bytes = 0
        self.reading = True
        self.closing = False  # no new work, no late replies
        self.last = False  # nothing will be added to `unread`
        self.over = False  # the descriptors are the caller's again
        self.warmed = False
        self.spare_workers = SPARE_WORKERS

    # --- main ---

    def run(self, workers: int) -> int:
        self._catch_signals()
        if os.name == "posix":
            for stream in (self.stdin, self.stdout):  # a host may share a pipe end that it made non-blocking for itself
                os.set_blocking(stream, True)
        if not all(map(self._start, (self._write, self._work, self._read))):  # nothing is read that nobody could answer
            log("repo-provider: the system gives no threads")
            return 2
        for _ in range(workers - 1):
            self._start(self._work)
        how = self._wait("shutdown", "eof", "broken", "signal")
        if how == "eof":
            how = self._wait("idle", "broken", "signal")
        self._refuse_the_rest()
        with self.changed:
            self.last = True
            self.changed.notify_all()
        if how == "idle":
            self._wait("written", "broken", "signal")
        elif how != "broken":
            self._wait("written", "broken", until=monotonic() + FAREWELL)
        self.over = True
        self._close()
        return 0

    def _wait(self, *wanted: str, until: float | None = None) -> str:
        """The next of these events; meanwhile, answer for jobs that overran."""
        while True:
            times = [time for time in (until, self._next_overrun()) if time is not None]
            try:
                event = self.events.get(timeout=max(0.0, min(times) - monotonic()) if times else None)
            except Empty:
                if until is not None and monotonic() >= until:
                    return "late"
                self._answer_overrun()
                continue
            if event in wanted:
                return event

    def _next_overrun(self) -> float | None:
        with self.changed:
            return next((exchange.limit for exchange in self.unanswered), None)

    def _answer_overrun(self) -> None:
        """P5: a job that ignores its deadline is answered for, and its worker replaced."""
        now = monotonic()
        with self.changed:
            late = [exchange for exchange in self.unanswered if exchange.limit is not None and exchange.limit <= now]
        for exchange in late:
            if exchange.running and self.spare_workers:
                self.spare_workers -= 1
                self._start(self._work)
            self._settle(exchange, exchange.job.refuse(Unavailable("this took too long", reason="overrun")))

    def _refuse_the_rest(self) -> None:
        with self.changed:
            self.closing = True
            self.waiting.clear()
            rest = list(self.unanswered)
        for exchange in rest:
            self._settle(exchange, exchange.job.refuse(ShuttingDown("the provider is shutting down")))

    def _close(self) -> None:
        """Close the provider, and its children with it, but wait for neither longer than a host would."""
        closing = self._start(self.service.close)
        if closing is not None:
            closing.join(FAREWELL / 2)

    def _start(self, target: Callable[[], None]) -> Thread | None:
        """A thread that does this; None where the system gives none."""

        def run() -> None:
            try:
                target()
            except BaseException as error:  # no memory, say: better gone than there and silent
                self.events.put("broken")
                log(f"repo-provider: {type(error).__name__} while serving")

        thread = Thread(target=run, daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            return None
        return thread

    def _catch_signals(self) -> None:
        if current_thread() is main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, frame: self.events.put("signal"))

    # --- reader ---

    def _read(self) -> None:
        from repo_provider.wire import MAX_LINE

        lines = Lines(MAX_LINE)
        while data := _read_some(self.stdin):
            for line, whole in lines.feed(data):
                if not self._receive(line, whole):
                    return self.events.put("shutdown")
        for line, whole in lines.finish():
            if not self._receive(line, whole):
                return self.events.put("shutdown")
        with self.changed:
            self.reading = False
            self.events.put("eof")
            if not self.unanswered:
                self.events.put("idle")

    def _receive(self, line: bytes, whole: bool) -> bool:
        deadline = monotonic() + self.deadline if self.deadline else None
        job = self.session.receive(line, deadline=deadline) if whole else self.session.too_long(line)
        if job is not None:
            limit = None if deadline is None else deadline + self.overrun
            self._accept(_Exchange(job, len(line), limit))
        return not self.session.ended

    def _accept(self, exchange: _Exchange) -> None:
        with self.changed:
            self.changed.wait_for(lambda: len(self.unread) < MAX_UNREAD or self.closing)
            if not self.unanswered:
                self.events.put("busy")  # there is an overrun to watch for
            self.unanswered[exchange] = None
            if exchange.job.ordered:
                self.in_order.append(exchange)
            if not exchange.job.ready and not self._full(exchange.size):
                self.waiting.append(exchange)
                self.waiting_bytes += exchange.size
                self.changed.notify_all()
                return
        if exchange.job.ready:
            self._settle(exchange, exchange.job.run())
        else:
            self._settle(exchange, exchange.job.refuse(Unavailable("too many requests at once", reason="busy")))

    def _full(self, more: int) -> bool:
        too_many = len(self.waiting) >= self.max_waiting
        return too_many or (self.waiting_bytes > 0 and self.waiting_bytes + more > MAX_WAITING_BYTES)

    # --- workers ---

    def _work(self) -> None:
        while (exchange := self._take()) is not None:
            if not self._settle(exchange, exchange.job.run()):
                return  # answered for meanwhile: another worker has taken this one's place

    def _take(self) -> _Exchange | None:
        """The next request; held back while the peer leaves too much unread. None at the end."""
        with self.changed:
            while True:
                self.changed.wait_for(lambda: self.closing or (self.waiting and self.unread_bytes < MAX_WAITING_BYTES))
                if self.closing:
                    return None
                exchange = self.waiting.popleft()
                self.waiting_bytes -= exchange.size
                if exchange in self.unanswered:
                    exchange.running = True
                    return exchange

    def _settle(self, exchange: _Exchange, reply: Reply) -> bool:
        """Send the reply, unless the request was answered for in the meantime."""
        with self.changed:
            if exchange not in self.unanswered:
                return False
            del self.unanswered[exchange]
            exchange.reply = reply
            self.unread_bytes += len(reply.data)
            if not exchange.job.ordered:
                self.unread.append(reply)
            while self.in_order and (first := self.in_order[0].reply) is not None:
                self.unread.append(first)
                self.in_order.popleft()
            if not self.reading and not self.unanswered:
                self.events.put("idle")
            self.changed.notify_all()
            return True

    # --- writer ---

    def _write(self) -> None:
        try:
            while (reply := self._next_reply()) is not None:
                self._write_line(reply.data + b"\n")
                self._written(reply)
        except OSError:
            self.events.put("broken")
        else:
            self.events.put("written")

    def _write_line(self, data: bytes) -> None:
        """One write where the peer keeps up: nothing stays in a buffer of ours."""
        rest = memoryview(data)
        while rest and not self.over:
            rest = rest[os.write(self.stdout, rest) :]

    def _next_reply(self) -> Reply | None:
        with self.changed:
            self.changed.wait_for(lambda: self.unread or self.last)
            return self.unread[0] if self.unread and not self.over else None

    def _written(self, reply: Reply) -> None:
        with self.changed:
            self.unread.popleft()
            self.unread_bytes -= len(reply.data)
            self.changed.notify_all()
        if reply.type == "handshake_ack" and not self.warmed:
            self.warmed = True
            self._start(self.service.warm)


def _read_some(stdin: int) -> bytes:
    try:
        return os.read(stdin, _CHUNK)
    except OSError:  # a terminal that went away, a descriptor that never was
        return b""
