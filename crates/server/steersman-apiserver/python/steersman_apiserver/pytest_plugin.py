"""Fixtures of pytest, which finds this module by the entry point ``pytest11``.

A server starts in milliseconds. So ``steersman_cluster`` starts one for each test, instead of removing what other tests
left behind: nothing is shared, and tests can run at the same time.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Iterator

import pytest

from .server import Server

#: The name of the marker with the arguments of a test's server.
MARKER = "steersman"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**arguments): arguments of the Server that the fixture steersman_cluster starts",
    )


class ServerFactory:
    """Starts servers, and stops all of them at the end of the session."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running

    def __call__(self, **arguments: Any) -> Server:
        """Starts a server with the arguments of :class:`Server`. It can be stopped before the end of the session."""
        return self._running.enter_context(Server(**arguments))


@pytest.fixture(scope="session")
def steersman_servers() -> Iterator[ServerFactory]:
    """A function that starts servers, for fixtures of a larger scope and for tests with several clusters."""
    with ExitStack() as running:
        yield ServerFactory(running)


@pytest.fixture
def steersman_cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running server for one test, with the arguments of the marker ``steersman``.

    The closest marker counts: one of a function replaces that of its class or module.
    """
    marker = request.node.get_closest_marker(MARKER)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"{request.node.nodeid}: the marker {MARKER} takes arguments with names only")
    arguments = dict(marker.kwargs) if marker is not None else {}
    with Server(**arguments) as server:
        yield server
