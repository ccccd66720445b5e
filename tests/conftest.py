"""What every test may use: the `connect` fixture, `--update` for golden files, Hypothesis without chance."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.connect import FAKE, WAYS, Connection, Served

settings.register_profile("steady", derandomize=True, database=None, deadline=None, max_examples=100)
settings.register_profile(
    "deep", database=None, deadline=None, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden files with what the code gives now")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requirement(*ids): the rules of tests/spec.py that a test shows")
    config.addinivalue_line("markers", "fault(*numbers): the rows of tests/faults that a test shows")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture(params=WAYS)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Connection]]:
    """`connect(served=FAKE)` starts a conversation; the test runs once for every way there is to have one.

    At its end a test has taken every reply, and a process has left with status 0.
    """
    opened: list[Connection] = []

    def start(served: Served = FAKE) -> Connection:
        connection = WAYS[request.param](served)
        opened.append(connection)
        return connection

    yield start
    for connection in opened:
        assert [] == connection.close()
