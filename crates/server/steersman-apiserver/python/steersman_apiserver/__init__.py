"""A Kubernetes API server for tests, with planned faults and a log of requests.

:class:`Server` starts the program that this package contains. With pytest, the fixture ``steersman_cluster`` is a
running server for one test.
"""

from __future__ import annotations

from .control import ControlError
from .faults import Fault, Faults
from .program import program_path
from .requests import Request
from .server import Server, StartError

__all__ = [
    "ControlError",
    "Fault",
    "Faults",
    "Request",
    "Server",
    "StartError",
    "program_path",
]
