"""A server as a child process."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Dict, List, Optional, Sequence, Type, Union

from .control import Control
from .faults import Faults
from .program import program_path
from .requests import Request

#: A path of a file or a folder.
AnyPath = Union[str, "os.PathLike[str]"]

#: The time that a server gets to stop after SIGTERM, in seconds. Then it is killed.
STOP_TIMEOUT = 10


class StartError(Exception):
    """The program ended, or did not listen in time. The message has the last lines that it printed."""


class Server:
    """A Kubernetes API server in a process of its own. Two servers share nothing.

    As a context manager it runs during its block; otherwise :meth:`start` and :meth:`stop` do the same.
    The server listens on a free port of the loopback address. It stops at the end of Python at the latest.
    """

    def __init__(
        self,
        *,
        crds: Sequence[AnyPath] = (),
        manifests: Sequence[AnyPath] = (),
        play: Optional[str] = None,
        rbac: bool = False,
        data_dir: Optional[AnyPath] = None,
        arguments: Sequence[str] = (),
        program: Optional[AnyPath] = None,
        start_timeout: float = 30,
    ) -> None:
        """Describes a server; nothing runs yet.

        :param crds: files and folders of definitions to install at the start.
        :param manifests: files and folders of objects to create at the start.
        :param play: ``"workloads"`` plays controllers, scheduler and kubelets, ``"controllers"`` the garbage collector
            and the namespace controller, which is the default, ``"nothing"`` neither.
        :param rbac: whether Roles and bindings decide. The user of the kubeconfig may do everything.
        :param data_dir: a folder to load objects from. It has every write before the write is answered.
        :param arguments: further flags of the program.
        :param program: another program than the one in this package.
        :param start_timeout: the time in which the server must listen, in seconds.
        """
        self._flags = _flags(crds, manifests, play, rbac, data_dir)
        self._flags += arguments
        self._program = program
        self._start_timeout = start_timeout
        self._folder: Optional[Path] = None
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._control: Optional[Control] = None
        self._end: Optional[weakref.finalize[..., Server]] = None

    def start(self) -> Server:
        """Starts the server and waits until it listens. Returns the server itself.

        :raises StartError: if the program ends or does not listen in time.
        :raises RuntimeError: if the server runs already.
        """
        if self._process is not None:
            raise RuntimeError("the server runs already; stop it first, or make another Server")
        program = os.fspath(self._program or program_path())
        folder = Path(tempfile.mkdtemp(prefix="steersman-"))
        self._folder = folder
        try:
            with open(folder / "log", "wb") as log:
                self._process = subprocess.Popen(
                    [program, "--port=0", f"--kubeconfig={folder / 'kubeconfig'}", *self._flags],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            self._end = weakref.finalize(self, _end, os.getpid(), self._process, folder)
            self._wait(folder / "log")
            self._control = Control(folder / "kubeconfig")
        except BaseException:
            self.stop()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self

    def _wait(self, log: Path) -> None:
        """Waits for the first line of the program, which it prints when it listens."""
        process = self._process
        assert process is not None and process.stdout is not None
        if _first_line(process.stdout, time.monotonic() + self._start_timeout):
            return
        status = _ended(process)
        if status is None:
            problem = f"did not listen within {self._start_timeout} s"
        else:
            problem = f"ended with status {status}"
        printed = log.read_text(errors="replace").strip()
        raise StartError(f"the API server {problem}: {printed or 'it printed nothing'}")

    def stop(self) -> None:
        """Stops the server, and removes its kubeconfig. A server that does not run is no error."""
        end, self._end = self._end, None
        self._process = self._folder = self._control = None
        if end is not None:
            end()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Server {self._control.url}>" if self._control else "<Server, stopped>"

    def _running(self) -> Control:
        if self._control is None:
            raise RuntimeError("the server does not run; start it, or use it in a `with` block")
        return self._control

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig. Its user may do everything."""
        self._running()
        assert self._folder is not None
        return self._folder / "kubeconfig"

    @property
    def url(self) -> str:
        """The address, for example ``https://127.0.0.1:40123``."""
        return self._running().url

    @property
    def pid(self) -> int:
        """The number of the process."""
        self._running()
        assert self._process is not None
        return self._process.pid

    @property
    def faults(self) -> Faults:
        """The planned faults."""
        return Faults(self._running())

    def requests(
        self,
        *,
        verb: Optional[str] = None,
        resource: Optional[str] = None,
        namespace: Optional[str] = None,
        name: Optional[str] = None,
        user: Optional[str] = None,
        user_agent: Optional[str] = None,
        limit: int = 1_000_000,
    ) -> List[Request]:
        """Returns the requests that fit all given conditions, oldest first.

        :param user_agent: a part of the header ``User-Agent``.
        :param limit: the largest number of requests to return; the newest are kept.
        """
        given = {
            "verb": verb,
            "resource": resource,
            "namespace": namespace,
            "name": name,
            "user": user,
            "userAgent": user_agent,
            "limit": limit,
        }
        parameters = {key: value for key, value in given.items() if value is not None}
        records = self._running().send("GET", "requests", parameters)["items"]
        return [Request.read(record) for record in records]

    def clear_requests(self) -> None:
        """Empties the log of requests."""
        self._running().send("DELETE", "requests")

    def watches(self, do: str, resource: str = "*") -> int:
        """Ends or changes open watches of a resource, and returns their number.

        :param do: ``cut``, ``break``, ``silence``, ``resume`` or ``expire``.
        """
        done = self._running().send("POST", "watches", {"do": do, "resource": resource})
        return int(done["switched"])

    def compact(self) -> None:
        """Forgets past revisions: a watch that resumes from one of them gets 410."""
        self._running().send("POST", "compact")

    def restart(self, *, history: str = "kept", away_millis: int = 0) -> None:
        """Simulates a restart of the server: connections break, and objects stay.

        :param history: whether past revisions are ``kept`` or ``lost``.
        :param away_millis: the time during which the port is closed, in milliseconds.
        """
        parameters: Dict[str, Any] = {"history": history}
        if away_millis:
            parameters["awayMillis"] = away_millis
        self._running().send("POST", "restart", parameters)


def _end(owner: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Ends a process and removes its folder, unless a fork of its owner ends."""
    if os.getpid() != owner:
        return
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)


def _flags(
    crds: Sequence[AnyPath],
    manifests: Sequence[AnyPath],
    play: Optional[str],
    rbac: bool,
    data_dir: Optional[AnyPath],
) -> List[str]:
    """Returns the flags of the program."""
    flags = [f"--crds={os.fspath(path)}" for path in _several("crds", crds)]
    flags += [f"--manifests={os.fspath(path)}" for path in _several("manifests", manifests)]
    if play is not None:
        flags.append(f"--play={play}")
    if rbac:
        flags.append("--rbac")
    if data_dir is not None:
        flags.append(f"--data-dir={os.fspath(data_dir)}")
    return flags


def _several(name: str, paths: Sequence[AnyPath]) -> Sequence[AnyPath]:
    """Refuses a single path, which Python would take as a sequence of letters."""
    if isinstance(paths, (str, os.PathLike)):
        raise TypeError(f"{name} is a single path; write a list of paths: {name}=[{os.fspath(paths)!r}]")
    return paths


def _first_line(stdout: IO[bytes], deadline: float) -> bool:
    """Waits for a whole line. Returns whether there is one; ``False`` at the deadline, or at the end of the output."""
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while b"\n" not in read:
            if not selector.select(max(0, deadline - time.monotonic())):
                return False
            part = os.read(stdout.fileno(), 4096)
            if not part:
                return False
            read += part
    return True


def _ended(process: subprocess.Popen[bytes]) -> Optional[int]:
    """Returns the exit status of a process, which may end a moment after its output; ``None`` while it runs."""
    try:
        return process.wait(1)
    except subprocess.TimeoutExpired:
        return None
