"""Processes that can be killed: what is lost when one is, and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from repo_provider.workers import Workers
from tests.faults import fault

HERE = "tests.test_workers"
WALL = 30.0


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


# --- tasks, run inside workers ---------------------------------------------------------------------------------


def upper(payload: bytes) -> bytes:
    return payload.upper()


def moody(payload: bytes) -> bytes:
    """Does to itself what the payload says."""
    if payload == b"crash":
        os.abort()
    if payload == b"hang":
        sleep(600)
    if payload == b"raise":
        raise ValueError(payload)
    if payload == b"eat":
        return bytes(4 << 30)[:1]
    if payload == b"print":
        print("noise on what a worker takes for stdout")
        os.write(1, b"more noise\n")
    return payload.upper()


def where(payload: bytes) -> bytes:
    return "\n".join([os.getcwd(), *sys.path]).encode()


def pid(payload: bytes) -> bytes:
    return str(os.getpid()).encode()


# --- tests -----------------------------------------------------------------------------------------------------


def test_results_come_in_payload_order(pool: Workers) -> None:
    payloads = [f"p{i}".encode() for i in range(300)]
    assert [p.upper() for p in payloads] == pool.run(f"{HERE}:upper", payloads, wall=WALL)


def test_a_large_payload_goes_through_whole(pool: Workers) -> None:
    assert [b"A" * 3_000_000] == pool.run(f"{HERE}:upper", [b"a" * 3_000_000], wall=WALL)


def test_nothing_to_do_starts_no_process() -> None:
    workers = Workers(2)
    assert [] == workers.run(f"{HERE}:upper", [], wall=WALL)
    assert () == workers.alive
    workers.close()


@pytest.mark.parametrize("mishap", [b"crash", b"raise", b"eat"])
def test_a_payload_that_fails_costs_itself_only(pool: Workers, mishap: bytes) -> None:
    """Faults 37, 44, 116."""
    payloads = [b"a", b"b", mishap, b"c", b"d", b"e"]
    assert [b"A", b"B", None, b"C", b"D", b"E"] == pool.run(f"{HERE}:moody", payloads, wall=WALL)


@fault(39)
def test_a_payload_that_hangs_is_killed_at_the_wall_limit(pool: Workers) -> None:
    """Fault 39: native code that holds on is ended from outside."""
    assert [b"A", None, b"C"] == pool.run(f"{HERE}:moody", [b"a", b"hang", b"c"], wall=0.5)


def test_a_run_whose_workers_all_die_is_given_up() -> None:
    workers = Workers(2)
    assert [None] * 200 == workers.run(f"{HERE}:moody", [b"crash"] * 200, wall=WALL)
    assert [b"A"] == workers.run(f"{HERE}:moody", [b"a"], wall=WALL)
    workers.close()


def test_at_the_deadline_the_caller_has_what_there_is() -> None:
    workers = Workers(1)
    assert [b"A"] == workers.run(f"{HERE}:moody", [b"a"], wall=WALL)
    results = workers.run(f"{HERE}:moody", [b"hang", b"b"], wall=1.0, deadline=monotonic() + 0.2)
    assert [None, None] == results
    assert [b"C"] == workers.run(f"{HERE}:moody", [b"c"], wall=WALL)  # after the wall limit of the one that hung
    workers.close()


def test_many_threads_share_the_pool(pool: Workers) -> None:
    found: dict[int, list[bytes | None]] = {}

    def ask(number: int) -> None:
        found[number] = pool.run(f"{HERE}:upper", [f"t{number}-{i}".encode() for i in range(50)], wall=WALL)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: [f"T{n}-{i}".encode() for i in range(50)] for n in range(8)} == found


def test_a_background_run_gives_way(pool: Workers) -> None:
    background = threading.Thread(
        target=pool.run, args=(f"{HERE}:upper", [b"x"] * 20_000), kwargs={"wall": WALL, "background": True}
    )
    background.start()
    assert [b"Y"] == pool.run(f"{HERE}:upper", [b"y"], wall=WALL)
    background.join()


def test_closing_ends_the_processes_and_the_runs_under_way() -> None:
    workers = Workers(2)
    (answer,) = workers.run(f"{HERE}:pid", [b""], wall=WALL)
    results: list[list[bytes | None]] = []
    waiting = threading.Thread(target=lambda: results.append(workers.run(f"{HERE}:moody", [b"hang"] * 4, wall=WALL)))
    waiting.start()
    workers.close()
    waiting.join(10)
    assert [[None] * 4] == results
    assert answer is not None
    assert _gone(int(answer))
    assert [None] == workers.run(f"{HERE}:upper", [b"a"], wall=WALL)


def test_a_worker_does_not_run_in_the_current_directory(pool: Workers, tmp_path: Path) -> None:
    """P6: a module of the served repository is never imported."""
    (answer,) = pool.run(f"{HERE}:where", [b""], wall=WALL)
    assert answer is not None
    cwd, *path = answer.decode().split("\n")
    assert os.path.abspath(os.sep) == cwd
    assert "" not in path
    assert "." not in path


def test_a_workers_output_never_reaches_stdout_and_it_dies_with_its_parent(tmp_path: Path) -> None:
    """P5; and no orphan is left when the parent is killed outright."""
    script = (
        "import os, signal, sys\n"
        "from repo_provider.workers import Workers\n"
        "workers = Workers(1)\n"
        f"assert [b'PRINT'] == workers.run({HERE + ':moody'!r}, [b'print'], wall=30)\n"
        f"(pid,) = workers.run({HERE + ':pid'!r}, [b''], wall=30)\n"
        "sys.stderr.write(f'pid={pid.decode()}\\n')\n"
        "sys.stderr.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL if os.name == 'posix' else signal.SIGTERM)\n"
    )
    root = str(Path(__file__).resolve().parent.parent)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, timeout=60, check=False)
    assert b"" == done.stdout
    said = [line for line in done.stderr.decode().splitlines() if line.startswith("pid=")]
    assert 1 == len(said), done.stderr
    assert _gone(int(said[0][4:]))


def _gone(process: int) -> bool:
    until = monotonic() + 10
    while monotonic() < until:
        try:
            os.kill(process, 0)
            with open(f"/proc/{process}/stat", "rb") as stat:
                if stat.read().rsplit(b")", 1)[1].split()[0] == b"Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        sleep(0.01)
    return False


def test_a_worker_with_nothing_to_do_ends_and_a_new_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repo_provider.workers.IDLE_SECONDS", 0.05)
    workers = Workers(1)
    assert [b"A"] == workers.run(f"{HERE}:upper", [b"a"], wall=WALL)
    patience = monotonic() + WALL
    while workers.alive and monotonic() < patience:
        sleep(0.01)
    assert () == workers.alive
    assert [b"B"] == workers.run(f"{HERE}:upper", [b"b"], wall=WALL)
    workers.close()
