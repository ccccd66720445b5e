"""Many hosts at one `serve --http`: latencies, what health and verify feel of it, whether every answer finds its asker.

    python -m tests.bench http --repo PATH [--clients 32] [--requests 12] [--json FILE]

The server is a process of its own, every client a connection of its own in this one. Questions are the subjects of the
repository's commits, half of them as of a past instant. Each is asked once alone; under load its answer has to be the
same to the byte, under the id it was asked with: anything else counts as crossed, no answer as lost. Beside the
queries one client verifies what it holds and one asks for a sign of life, without pause. At the end the server is told
to stop while all of them are asking.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

JSON = {"Content-Type": "application/json"}
PATIENCE = 600.0
QUESTIONS = 24


class Server:
    """`serve --http` on a repository, in its own process and without a deadline: an answer is then a complete one."""

    def __init__(self, repository: str) -> None:
        command = [sys.executable, "-m", "repo_provider", "serve", "-C", repository, "--deadline", "0", "--http"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().partition("//")[2].strip().rstrip("/")


class Client:
    """One connection, and how long each of its requests took."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address, timeout=PATIENCE)
        self.seconds: list[float] = []

    def ask(self, message: Mapping[str, Any] | None = None, path: str = "/") -> bytes:
        started = time.perf_counter()
        body = None if message is None else json.dumps(message)
        self._connection.request("GET" if message is None else "POST", path, body, JSON)
        response = self._connection.getresponse()
        data = response.read()
        self.seconds.append(time.perf_counter() - started)
        if response.status != 200:
            raise HTTPException(f"status {response.status}")
        return data

    def close(self) -> None:
        self._connection.close()


class Row(NamedTuple):
    row: str
    seconds: Mapping[str, float]
    note: str


def measure(repository: str, clients: int, requests: int) -> list[Row]:
    server = Server(repository)
    try:
        return list(_measured(server, clients, requests))
    finally:
        server.process.kill()
        server.process.wait()


def _measured(server: Server, clients: int, requests: int) -> list[Row]:
    rows: list[Row] = []

    def told(name: str, seconds: Sequence[float], note: str = "") -> None:
        rows.append(Row(name, _percentiles(seconds), note))
        values = "  ".join(f"{at} {value * 1000:8.1f}" for at, value in rows[-1].seconds.items())
        print(f"{name:46}{values} ms  {note}", flush=True)

    with closing(Client(server.address)) as first:
        questions = _questions(json.loads(first.ask(path="/timeline"))["commits"])
        right = [_answer(first.ask(question)) for question in questions]  # with an empty index: not timed
        held = _held([json.loads(answer) for answer in right])
    with closing(Client(server.address)) as alone:
        again = [_answer(alone.ask(question)) for question in questions]
        told("one client: a query", alone.seconds, f"{len(questions)} questions")
    with closing(Client(server.address)) as alone:
        for _ in questions:
            alone.ask(held)
        told("one client: verify", alone.seconds, f"{len(held['request']['frames'])} frames")
    load = _Load(server.address, questions, right, clients, requests)
    health, verify = Client(server.address), Client(server.address)
    beside = [
        _without_pause(load, lambda: health.ask(path="/healthz")),
        _without_pause(load, lambda: verify.ask(held)),
    ]
    seconds = load.run()
    for thread in beside:
        thread.join()
    told(f"{clients} clients: a query", load.seconds, f"{len(load.seconds) / seconds:.1f} answers a second")
    told(f"{clients} clients: verify beside them", verify.seconds, f"{len(verify.seconds)} times")
    told(f"{clients} clients: health beside them", health.seconds, f"{len(health.seconds)} times")
    crossed = load.crossed + sum(one != other for one, other in zip(right, again, strict=True))
    rows.append(Row("lost", {}, str(load.lost)))
    rows.append(Row("crossed", {}, str(crossed)))
    print(f"{'of ' + str(clients * requests) + ' replies':46}lost {load.lost}, crossed {crossed}", flush=True)
    taken, outcomes = _stop(server, questions, clients)
    note = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    told("stop under load", [taken], f"{note}; exit code {server.process.returncode}")
    return rows


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    order = sorted(seconds)
    if len(order) == 1:
        return {"all": order[0]}
    return {f"p{share}": order[min(len(order) - 1, len(order) * share // 100)] for share in (50, 95, 99)} | {
        "max": order[-1]
    }


def _questions(commits: Sequence[Mapping[str, str]]) -> list[Mapping[str, Any]]:
    """Subjects of commits as questions, spread over the history; every second one as of its commit's instant."""
    chosen = commits[:: max(1, len(commits) // QUESTIONS)][:QUESTIONS]
    queries: list[dict[str, Any]] = [
        {"goal": commit["subject"] or "code", "max_frames": 8, "max_tokens": 4_000} for commit in chosen
    ]
    for commit, query in list(zip(chosen, queries, strict=True))[::2]:
        query["as_of"] = commit["at"]
    return [{"type": "query", "id": f"q{number}", "query": query} for number, query in enumerate(queries)]


def _answer(data: bytes) -> str:
    """The result of a reply in one form, without the id it came under."""
    reply = json.loads(data)
    return json.dumps(reply.get("result", reply.get("code")), sort_keys=True)


def _held(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    frames = [frame for result in results if isinstance(result, dict) for frame in result["frames"]]
    held = [
        {"provider_id": "repo-provider", "frame_id": frame["id"], "content_digest": frame["content_digest"]}
        for frame in frames
    ]
    return {"type": "verify", "request": {"frames": held[:50]}}


class _Load:
    """All clients at once, each with questions in an order of its own and ids of its own."""

    def __init__(
        self, address: str, questions: Sequence[Mapping[str, Any]], right: Sequence[str], clients: int, requests: int
    ) -> None:
        self._address = address
        self._questions = questions
        self._right = right
        self._clients = clients
        self._requests = requests
        self._lock = threading.Lock()
        self.over = threading.Event()
        self.seconds: list[float] = []
        self.lost = 0
        self.crossed = 0

    def run(self) -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(self._clients) as pool:
            list(pool.map(self._ask, range(self._clients)))
        self.over.set()
        return time.perf_counter() - started

    def _ask(self, number: int) -> None:
        with closing(Client(self._address)) as client:
            for turn in range(self._requests):
                which = (number * 7 + turn * 5) % len(self._questions)
                id = f"client {number} turn {turn}"
                try:
                    data = client.ask({**self._questions[which], "id": id})
                except (OSError, HTTPException):
                    self._count(lost=1)
                else:
                    self._count(crossed=json.loads(data).get("id") != id or _answer(data) != self._right[which])
            with self._lock:
                self.seconds += client.seconds

    def _count(self, *, lost: int = 0, crossed: int = 0) -> None:
        with self._lock:
            self.lost += lost
            self.crossed += crossed


def _without_pause(load: _Load, ask: Callable[[], bytes]) -> threading.Thread:
    def run() -> None:
        while not load.over.is_set():
            ask()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _stop(server: Server, questions: Sequence[Mapping[str, Any]], clients: int) -> tuple[float, Counter[str]]:
    """Seconds from SIGTERM to the end of the process, with every client's question read; and what each was told."""
    told: list[str] = []

    def ask(number: int) -> None:
        with closing(Client(server.address)) as client:
            try:
                reply = json.loads(client.ask(questions[number % len(questions)]))
                told.append(reply.get("code") or "answered")
            except (OSError, HTTPException):
                told.append("lost")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    with closing(Client(server.address)) as watching:
        for thread in threads:
            thread.start()
        while not told and f"repo_provider_working {clients}\n".encode() not in watching.ask(path="/metrics"):
            pass
    started = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait()
    taken = time.perf_counter() - started
    for thread in threads:
        thread.join()
    return taken, Counter(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repo", required=True)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=12, help="of each client")
    parser.add_argument("--json", help="also write the rows to this file")
    typed = parser.parse_args()
    rows = measure(typed.repo, typed.clients, typed.requests)
    if typed.json:
        Path(typed.json).write_text(json.dumps([row._asdict() for row in rows], indent=1))


if __name__ == "__main__":
    main()
