"""One conversation with a provider, whatever lies between: one test body runs in process, over pipes and over HTTP.

`Connection` is what a test speaks to; `WAYS` are the ways to make one. An edge with its own framing joins by adding a
class here and a row to `WAYS`. Every envelope that comes back is checked against the published schema.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from repo_provider.__main__ import serving
from repo_provider.httpd import Edge
from repo_provider.session import Service, Session
from repo_provider.settings import Http, Surroundings, read, resolve
from tests import fake

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "fixtures" / "spec"
PATIENCE = 30.0
"""Seconds until a reply that never comes is a failure."""

Envelope = Mapping[str, Any]

HANDSHAKE = {"type": "handshake", "protocol_version": "contextgraph/1.0"}
SHUTDOWN = {"type": "shutdown"}


def query(goal: str = "anything", id: str | None = None, **members: Any) -> Envelope:
    asked = {"goal": goal, "max_frames": 8, "max_tokens": 4096, **members}
    return {"type": "query", **({} if id is None else {"id": id}), "query": asked}


class Served(NamedTuple):
    """A provider in the two forms the ways need: as a value of this process and as a command."""

    service: Callable[[], Service]
    command: Sequence[str]


FAKE = Served(fake.service, (sys.executable, "-m", "tests.fake"))


def repository(path: Path, *options: str) -> Served:
    """The real provider on a repository; without store and deadline, so that its replies depend on nothing else."""
    typed = ("-C", str(path), "--no-store", "--deadline", "0", *options)

    def service() -> Service:
        return serving(resolve(read(typed), Surroundings(None, str(ROOT), 2)))

    return Served(service, (sys.executable, "-m", "repo_provider", "serve", *typed))


class Connection(ABC):
    """Sends lines and takes replies; what is sent may be bytes that are no envelope at all."""

    def send(self, message: bytes | Envelope) -> None:
        self._send(message if isinstance(message, bytes) else encode(message))

    def ask(self, message: bytes | Envelope) -> Envelope:
        """Send, and take the next reply."""
        self.send(message)
        reply = self.receive()
        assert reply is not None, f"the provider left instead of answering {message!r:.200}"
        return reply

    def receive(self) -> Envelope | None:
        """The next reply; None at the end of the provider's output."""
        line = self._receive()
        return None if line is None else checked(line)

    @abstractmethod
    def _send(self, line: bytes) -> None: ...

    @abstractmethod
    def _receive(self) -> bytes | None: ...

    @abstractmethod
    def close(self) -> list[Envelope]:
        """End the conversation from the host's side. The replies nobody took yet."""


class InProcess(Connection):
    """A session without an edge: each job is run as soon as it is read."""

    def __init__(self, served: Served) -> None:
        self._service = served.service()
        self._session = Session(self._service)
        self._replies: deque[bytes] = deque()

    def _send(self, line: bytes) -> None:
        job = self._session.receive(line)
        if job is not None:
            self._replies.append(job.run().data)

    def _receive(self) -> bytes | None:
        return self._replies.popleft() if self._replies else None

    def close(self) -> list[Envelope]:
        self._service.close()
        return [checked(line) for line in self._replies]


class OverStdio(Connection):
    """A process spawned as hosts do: an environment of PATH and HOME, pipes, its own process group."""

    def __init__(self, served: Served, *, arguments: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*served.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            start_new_session=True,
        )
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def _receive(self) -> bytes | None:
        try:
            line = self._lines.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError("no reply") from None
        if line is None:
            self._lines.put(None)  # the end stays the end
        assert line is None or line.endswith(b"\n")
        return line

    def close(self) -> list[Envelope]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
            rest = []
            while (reply := self.receive()) is not None:
                rest.append(reply)
            assert 0 == self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        return rest


class OverHttp(Connection):
    """An edge in a thread of this process: a message is a request, and a session of its own past the handshake."""

    def __init__(self, served: Served) -> None:
        self._edge = Edge(served.service(), Http("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._edge.run)
        self._thread.start()
        address = self._edge.url.removeprefix("http://").rstrip("/")
        self._http = HTTPConnection(address, timeout=PATIENCE)
        self._replies: deque[bytes] = deque()

    def _send(self, line: bytes) -> None:
        self._http.request("POST", "/", line, {"Content-Type": "application/json"})
        response = self._http.getresponse()
        data = response.read()
        assert bool(data) == (response.status != 204)
        if data:
            self._replies.append(data)

    def _receive(self) -> bytes | None:
        return self._replies.popleft() if self._replies else None

    def close(self) -> list[Envelope]:
        self._http.close()
        self._edge.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return [checked(line) for line in self._replies]


WAYS: Mapping[str, Callable[[Served], Connection]] = {"in_process": InProcess, "stdio": OverStdio, "http": OverHttp}
STREAMS = ("in_process", "stdio")
"""The ways on which a conversation has a beginning."""


def encode(message: Envelope) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def checked(line: bytes) -> Envelope:
    """The envelope on a line that a provider emitted, which has to be one by the published schema."""
    assert b"\n" not in line.removesuffix(b"\n")
    envelope = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    plain = {name: value for name, value in envelope.items() if (envelope.get("type"), name) != ("verified", "id")}
    _validator(str(envelope.get("type"))).validate(plain)
    assert not isinstance(envelope, list)
    return dict(envelope)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@cache
def _validator(type: str) -> Draft202012Validator:
    schema = json.loads((SPEC / "contextgraph-envelope.schema.json").read_bytes())
    name = type.title().replace("_", "")  # one definition, so that a failure names the member and not eight types
    assert {"$ref": f"#/$defs/{name}"} in schema["oneOf"], f"not an envelope type: {type}"
    del schema["oneOf"]
    return Draft202012Validator({**schema, "$ref": f"#/$defs/{name}"})
