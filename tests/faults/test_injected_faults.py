"""A real process with a real store, to which things happen: killed, starved, refused, damaged, six at once."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from msgspec.structs import replace

from repo_provider.protocol import ContextQuery, ContextQueryResult
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.connect import HANDSHAKE
from tests.faults import fault
from tests.faults.injection import (
    BRANCHES,
    LONG,
    QUESTIONS,
    SECONDS,
    UNPRIVILEGED,
    Place,
    chance,
    honest,
    kill,
    nothing_written,
    orphans,
    rounds,
    serving,
    spawned,
)
from tests.spec import requirement

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("harbour")) as made:
        yield made


@pytest.fixture
def place(harbour: Place, tmp_path: Path) -> Place:
    """The same repository for all, as the last one left it; each with a store of its own."""
    harbour.store = tmp_path / "stores"
    return harbour


# --- killed ----------------------------------------------------------------------------------------------------


@fault(62)
@requirement("P6", "P7")
def test_killed_at_any_point_of_indexing_it_loses_nothing(place: Place) -> None:
    for number in range(rounds(2)):
        at = chance("kill", number)
        for name in at.sample(range(len(place.names)), 6):
            place.edit(name, number)
        with nothing_written(place.path):
            host = spawned(place.command("--deadline", "0"))
            for message in (HANDSHAKE, *QUESTIONS):
                host.send(message)
            sleep(at.uniform(0.1, 1.8))
            kill(host)
            assert [] == orphans(host)
        if number % 4 == 3:
            place.holds()
    place.holds()


# --- starved ---------------------------------------------------------------------------------------------------

SHORT = {
    "of files": "resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
    "of files for workers": "resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14))",
    "of disk": "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "of disk after a while": "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))",
    "of memory": "resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))",
    "of memory for workers": "resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))",
    "of threads": UNPRIVILEGED + "resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))",
}


@fault(60, 116)
@requirement("P5", "P7")
@pytest.mark.parametrize("of", SHORT if LONG else ["of files", "of disk after a while", "of memory", "of threads"])
def test_short_of_anything_it_answers_less_or_not_but_never_wrongly(place: Place, of: str) -> None:
    """Root is not counted by the limit on processes, so that one is tried as nobody with root's right to read."""
    if UNPRIVILEGED in SHORT[of] and (os.getuid() or platform.machine() != "x86_64"):
        pytest.skip("only root can become a user who has no processes yet")
    with serving(place, "--deadline", "0", limits=SHORT[of]) as host:
        for question, expected in zip(QUESTIONS, place.expected(), strict=True):
            assert honest(host.ask(question), expected)
    place.holds()


@requirement("P5")
def test_a_shortage_that_passes_leaves_no_trace(place: Place) -> None:
    for number in range(rounds(2)):
        place.edit(number % 40, number)
        with serving(place, "--deadline", "0") as host:
            host.ask(QUESTIONS[0])  # what is loaded by halves cannot be loaded again
            few = chance("few", number).randrange(5, 24)
            _, most = resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, (few, most))
            for question, expected in zip(QUESTIONS, place.expected(), strict=True):
                assert honest(host.ask(question), expected)
            resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, (most, most))
            assert place.expected() == place.answers(host)


# --- damaged ---------------------------------------------------------------------------------------------------


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def cut_short(data: bytes, at: int) -> bytes:
    return data[:at]


def zeroed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(len(data) - at)


def grown(data: bytes, at: int) -> bytes:
    return data + data[:at]


@fault(57)
@requirement("P7")
@pytest.mark.parametrize("damage", [flipped, cut_short, zeroed, grown] if LONG else [flipped, cut_short])
def test_damage_anywhere_in_its_store_changes_no_answer(place: Place, damage: Callable[[bytes, int], bytes]) -> None:
    asked = ContextQuery("harbour master berths a ship", 8, 4096)
    settings = Settings(str(place.path), store=str(place.store), workers=1)
    expected = _asked(replace(settings, store=None), asked)
    for number in range(rounds(1)):
        at = chance(damage.__name__, number)
        assert expected == _asked(settings, asked)
        for file in sorted(place.store.rglob("*")):
            if file.is_file() and (data := file.read_bytes()):
                file.write_bytes(damage(data, at.randrange(len(data))))
                assert expected == _asked(settings, asked), file.name


def _asked(settings: Settings, asked: ContextQuery) -> ContextQueryResult:
    provider = Provider(settings)
    try:
        return provider.query(asked)
    finally:
        provider.close()


# --- at once ---------------------------------------------------------------------------------------------------


@fault(114)
@requirement("P1", "P7")
def test_many_processes_on_one_store_agree_whatever_happens_meanwhile(place: Place) -> None:
    hosts = [spawned(place.command("--deadline", "0")) for _ in range(6 if LONG else 3)]
    for host in hosts:
        host.ask(HANDSHAKE)
    until, turn = monotonic() + SECONDS, 0
    while turn < 3 or monotonic() < until:
        place.made.set_head(BRANCHES[turn % len(BRANCHES)])
        place.edit(turn % len(place.names), turn)
        for host in hosts:
            for question in QUESTIONS:
                host.send(question)
        expected = place.expected()
        for host in hosts:
            replies = {reply["id"]: reply["result"] for _ in QUESTIONS if (reply := host.receive())}
            assert expected == [replies[question["id"]] for question in QUESTIONS]
        turn += 1
    for host in hosts:
        assert [] == host.close()
        assert [] == orphans(host)
    place.made.set_head(BRANCHES[0])
    place.holds()
