"""A pool of processes that can be killed, for native code that may hang, crash or eat memory.

It knows nothing of its tasks: a task is the name `module:function` of a function from bytes to bytes. A payload whose
process dies (crash, memory limit, wall limit) costs that payload and nothing else; the answer for it is None. The
session process never waits longer than the deadline it gives, never runs a task itself, and never unpickles anything.

Plain pipes with length-prefixed messages, not multiprocessing: a worker needs the interpreter, this package and the
modules of its tasks. It starts outside the served repository and never puts the current directory on its path (P6:
no code of the repository runs). It holds no copy of our stdout (P5), and ends when its pipe does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from time import monotonic
from typing import IO

import msgspec

DEFAULT_MEMORY_LIMIT = 1 << 30
BATCH_BYTES = 32 * 1024
BATCH_COUNT = 16
"""Small payloads travel together, so that the pipe's round trip is not what takes the time."""

LOAD_WALL = 30.0
"""Seconds a worker may take to load a task's module."""
IDLE_SECONDS = 10.0
"""After which a worker with nothing to do ends: what it holds is more than a new one costs."""
MAX_CRASHES = 8
"""Workers that may die one after another, none of them finishing anything, before a run is given up."""


class Workers:
    """`count` processes, started when first needed. Safe from many threads; `close` may come from any of them."""

    def __init__(self, count: int = 2, memory_limit: int = DEFAULT_MEMORY_LIMIT) -> None:
        self.count = max(1, count)
        self._memory_limit = memory_limit
        self._state = threading.Condition()
        self._runs: list[_Run] = []
        self._slots: list[_Slot] = []
        self._closed = False
        self._watching = False
        self.starved = False
        """Whether the last process to be given work did not come so far: the system's fault then, not a payload's."""

    def run(
        self,
        task: str,
        payloads: Sequence[bytes],
        *,
        wall: float,
        deadline: float | None = None,
        background: bool = False,
    ) -> list[bytes | None]:
        """Results in payload order; None for a payload that was killed, crashed, raised, or was not reached.

        `wall` is what one payload may take, in seconds. `deadline` is an instant of `time.monotonic`: then this
        returns with what there is, and what is being worked on is left to its wall limit. A background run gives way
        to every other one between payloads.
        """
        run = _Run(task, payloads, wall, deadline, background)
        with self._state:
            if self._closed or not payloads:
                return run.results
            if not self._start(len(payloads)):
                return run.results
            self._runs.append(run)
            self._state.notify_all()
            while run.waiting and not self._closed:
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    break
                self._state.wait(left)
            self._runs.remove(run)
            run.over = True
            return list(run.results)

    def start(self, task: str) -> None:
        """Starts every worker behind the caller's back and has it load the module of a task it will be given."""
        module = task.partition(":")[0].encode()
        errand = threading.Thread(target=self.run, args=(_LOAD_TASK, [module] * self.count), kwargs={"wall": LOAD_WALL})
        errand.daemon = True
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread to be had: the first run starts them
            errand.start()

    def close(self) -> None:
        """Kills every worker at once; runs under way return what they have."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            slots = tuple(self._slots)
        for slot in slots:
            slot.kill()

    @property
    def alive(self) -> tuple[int, ...]:
        """Process ids of the workers there are now."""
        with self._state:
            return tuple(slot.process.pid for slot in self._slots if slot.process is not None)

    def _start(self, wanted: int) -> bool:
        """Whether there is anybody to work: threads cannot always be had."""
        with contextlib.suppress(RuntimeError, MemoryError):
            if not self._slots:
                threading.Thread(target=self._guard, name="worker-guard", daemon=True).start()
            while len(self._slots) < min(self.count, wanted):
                self._slots.append(_Slot(self))
        return bool(self._slots)

    def _guard(self) -> None:
        """Kills the process of a slot that waits too long for one answer; that ends the pipe it reads from."""
        while True:
            with self._state:
                if self._closed:
                    return
                expiries = [slot.expires for slot in self._slots if slot.expires is not None]
                self._watching = bool(expiries)
                self._state.wait(max(0.0, min(expiries) - monotonic()) if expiries else None)
                late = [slot for slot in self._slots if slot.expires is not None and slot.expires <= monotonic()]
            for slot in late:
                slot.kill(late=True)

    # -- called by slots

    def _watch(self) -> None:
        if not self._watching:
            with self._state:
                self._state.notify_all()

    def _take(self, patience: float | None) -> _Batch | None:
        """The next payloads to work on; None when the pool is closed, or nothing came for so many seconds."""
        with self._state:
            while not self._closed:
                for run in sorted(self._runs, key=lambda run: run.background):
                    if run.pending and (run.deadline is None or run.deadline > monotonic()):
                        return run.batch()
                if not self._state.wait(patience):
                    break
            return None

    def _put(self, run: _Run, index: int, result: bytes | None) -> None:
        with self._state:
            if not run.over:
                run.results[index] = result
            run.waiting.discard(index)
            run.crashes = 0
            self.starved = False
            if not run.waiting:
                self._state.notify_all()

    def _lost(self, run: _Run, index: int | None, rest: Sequence[int]) -> None:
        """A worker died: the payload it had in hand is lost, those behind it go back to the front.

        Where it had none in hand yet, it did not get so far as to be killed by one.
        """
        with self._state:
            run.crashes += 1
            self.starved = index is None
            run.pending.extendleft(reversed(rest))
            if index is not None:
                run.waiting.discard(index)
            if run.crashes >= MAX_CRASHES:
                run.waiting.difference_update(run.pending)
                run.pending.clear()
            self._state.notify_all()


class _Batch:
    def __init__(self, run: _Run, indices: list[int]) -> None:
        self.run = run
        self.indices = indices

    def encoded(self, memory_limit: int) -> bytes:
        run = self.run
        return msgspec.msgpack.encode((run.task, run.wall, memory_limit, [run.payloads[i] for i in self.indices]))


class _Run:
    """One call of `run`; guarded by the pool's lock."""

    def __init__(
        self, task: str, payloads: Sequence[bytes], wall: float, deadline: float | None, background: bool
    ) -> None:
        self.task = task
        self.payloads = payloads
        self.wall = wall
        self.deadline = deadline
        self.background = background
        self.results: list[bytes | None] = [None] * len(payloads)
        self.pending = deque(range(len(payloads)))
        self.waiting = set(self.pending)
        self.crashes = 0
        self.over = False

    def batch(self) -> _Batch:
        taken, size = [self.pending.popleft()], 0
        size = len(self.payloads[taken[0]])
        # The last few payloads are dealt out one by one, so that no worker sits idle while another has many left.
        while self.pending and len(taken) < min(BATCH_COUNT, 1 + len(self.pending) // 4):
            size += len(self.payloads[self.pending[0]])
            if size > BATCH_BYTES:
                break
            taken.append(self.pending.popleft())
        return _Batch(self, taken)


class _Slot:
    """A thread and the worker process it talks to. The thread lives as long as the pool, so what is tied to the
    thread that started a process (the parent-death signal) is tied to the pool."""

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self._guard = threading.Lock()
        self.process: _Process | None = None
        self.expires: float | None = None
        threading.Thread(target=self._serve, name="worker-slot", daemon=True).start()

    def kill(self, *, late: bool = False) -> None:
        """`late`: only if the answer has still not come."""
        with self._guard:
            if late and (self.expires is None or self.expires > monotonic()):
                return
            if self.process is not None:
                with contextlib.suppress(OSError):
                    self.process.kill()

    def _serve(self) -> None:
        while not self._pool._closed:
            batch = self._pool._take(None if self.process is None else IDLE_SECONDS)
            if batch is not None:
                self._work(batch)
            else:
                self._drop()
                _give_back()
        self._drop()

    def _work(self, batch: _Batch) -> None:
        waiting, taken = deque(batch.indices), False
        try:
            process = self._running()
            self.expires = monotonic() + batch.run.wall
            self._pool._watch()
            _write(process.stdin, batch.encoded(self._pool._memory_limit))
            _read(process.stdout)
            taken = True
            while waiting:
                self.expires = monotonic() + batch.run.wall
                answer = _read(process.stdout)
                self._pool._put(batch.run, waiting[0], msgspec.msgpack.decode(answer, type=bytes | None))
                waiting.popleft()
        except Exception:  # the pipe ended, no process or no memory to be had, an answer that is none
            self._drop()
            in_hand = waiting.popleft() if taken and waiting else None
            self._pool._lost(batch.run, in_hand, tuple(waiting))
        finally:
            self.expires = None

    def _running(self) -> _Process:
        with self._guard:
            if self._pool._closed:
                raise EOFError
            if self.process is None:
                self.process = _Process()
            return self.process

    def _drop(self) -> None:
        with self._guard:
            process, self.process = self.process, None
        if process is not None:
            process.end()


def _give_back() -> None:
    """Return to the system what bulk work used and freed here too, where the C library would keep it."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class _Process:
    """A worker process with its two pipes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, *_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=os.path.abspath(os.sep),
        )
        self.pid = self._process.pid
        self.kill = self._process.kill
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout

    def end(self) -> None:
        self.kill()
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()


_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from repo_provider.workers import serve; serve()"


def _path() -> list[str]:
    """Our own module search path, less what means the current directory, which may be the repository."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [entry for entry in sys.path if entry == package or (os.path.isabs(entry) and not _is_current(entry))]


def _is_current(entry: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(entry, os.curdir)
    return False


# --- messages --------------------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">I")


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


# --- inside a worker -------------------------------------------------------------------------------------------


def serve() -> None:
    """Answers batches until the pipe ends: that its task is loaded, then each payload, with bytes or None if it raised.

    Whoever dies before the first of these was not killed by a payload.
    """
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _settle()
    limited = False
    while True:
        try:
            message = _read(requests)
        except EOFError:
            return
        task, wall, memory_limit, payloads = msgspec.msgpack.decode(message, type=tuple[str, float, int, list[bytes]])
        if not limited:
            limited = _limit(memory_limit)
        function = _task(task)
        _write(answers, b"")
        for payload in payloads:
            with _alarm(wall):
                answer = _answer(function, payload)
            _write(answers, msgspec.msgpack.encode(answer))


def _answer(function: Callable[[bytes], bytes], payload: bytes) -> bytes | None:
    try:
        return function(payload)
    except Exception as error:
        print(f"repo-provider: a worker's task failed: {type(error).__name__}", file=sys.stderr)
        return None


def load_task(module: bytes) -> bytes:
    """The task of being ready for another one."""
    import_module(module.decode())
    return b""


_LOAD_TASK = "repo_provider.workers:load_task"


def _task(name: str) -> Callable[[bytes], bytes]:
    module, _, function = name.partition(":")
    found: Callable[[bytes], bytes] = getattr(import_module(module), function)
    return found


def _settle() -> None:
    """Ctrl-C is for the parent, whose death is ours where the system can say so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # numpy sets memory aside for one thread a core, many cores for nothing
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def _limit(memory: int) -> bool:
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return True


@contextlib.contextmanager
def _alarm(wall: float) -> Iterator[None]:
    """The system ends us when native code holds on for far too long, even where the parent is gone already."""
    if sys.platform == "win32":
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, 2 * wall + 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
