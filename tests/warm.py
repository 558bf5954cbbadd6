"""Processes of Python that start with torch imported: forks, in place of new interpreters.

Importing torch takes seconds of a processor, and a test with torchrun does it in every process.
Within ``warm_processes``, ``subprocess.Popen`` with this interpreter asks a server, which has
imported torch and done nothing else, for a fork. So do spawned processes of multiprocessing. The
fork is a child of the caller (CLONE_PARENT), with the folder, environment, descriptors, session and
arguments that a new process would have; what it starts itself is made in the same way. What only a
new interpreter can do is left to one: another seed for hashes, options of Python, code that runs
before the script.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import multiprocessing.util
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

SUPPORTED = sys.platform == "linux" and hasattr(os, "pidfd_open")
ROOT = Path(__file__).parents[1]

T = TypeVar("T")

_READ_AT_THE_START = re.compile(
    "PYTHON|LD_|TORCH_(?!NCCL|DISABLE_SHARE)|OMP_(?!NUM_THREADS)|KMP_|MKL_"
)
_EMULATED = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
_OPTIONS = {"-u": "PYTHONUNBUFFERED", "-B": "PYTHONDONTWRITEBYTECODE"}
_OWN = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
_INSTEAD = ("sitecustomize.py", "torch.py")

_popen: Any = subprocess.Popen
_execute = _popen._execute_child
_parameters = inspect.signature(_execute)
_util: Any = multiprocessing.util
_spawn = _util.spawnv_passfds
_execve = os.execve
_server: Server | None = None


@dataclass(frozen=True)
class Call:
    """A process to be.

    Attributes:
        words: The command line after the interpreter, without its options.
        options: Those, as the variables that stand for them.
        namespaces: The network namespace, by its name for ``ip netns exec``, or the folder of all
            of a process; empty for the caller's.
        environment: All variables.
        folder: The working folder.
        passed: Descriptors that it has, besides the standard three.
        session: Whether it begins a session.
        group: The process group that it joins; -1 for the caller's.
    """

    words: list[str]
    options: list[str]
    namespaces: str
    environment: dict[str, str]
    folder: str
    passed: list[int]
    session: bool = False
    group: int = -1


class Server:
    """The caller's end of a server.

    Attributes:
        end: The socket to ask it by.
        environment: The variables that it was started with.
    """

    def __init__(self, end: socket.socket, environment: Mapping[str, str]) -> None:
        self.end, self.environment = end, dict(environment)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        assert end.recv(64) == b"ready", "the server of warm processes did not start"

    def serves(self, call: Call) -> bool:
        """Whether a fork is what a new interpreter would be."""
        if self._owner != os.getpid():  # a fork of the caller, whose children they would not be
            return False
        given, here = call.environment, self.environment
        for name in given.keys() | here.keys():
            if _READ_AT_THE_START.match(name) and name not in _EMULATED:
                own = name in _OWN and name not in given
                if given.get(name) != here.get(name) and not own:
                    return False
        path = given.get("PYTHONPATH", "").split(os.pathsep)
        return not any(Path(entry, name).exists() for entry in path for name in _INSTEAD)

    def fork(self, call: Call, streams: list[int]) -> int:
        """The process id of a new child of this process, with these standard streams."""
        message = json.dumps(asdict(call)).encode()
        with self._lock:
            socket.send_fds(self.end, [message], [*streams, *call.passed])
            return int(self.end.recv(64))


@contextlib.contextmanager
def warm_server() -> Iterator[Server | None]:
    """A server of this process; None where there can be none."""
    if not SUPPORTED:
        yield None
        return
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, **_OWN}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_worker", str(other.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[other.fileno()],
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    other.close()
    yield Server(own, environment)
    own.close()
    process.wait()


@contextlib.contextmanager
def warm_processes(server: Server | None) -> Iterator[None]:
    """Let processes of this interpreter be forks of a server."""
    before = _server
    use(server)
    yield
    use(before)


@contextlib.contextmanager
def started_warm(server: Server | None, context: AbstractContextManager[T]) -> Iterator[T]:
    """Enter ``context`` with warm processes, and go on without."""
    with contextlib.ExitStack() as stack:
        with warm_processes(server):
            entered = stack.enter_context(context)
        yield entered


def use(server: Server | None) -> None:
    """Ask this server from now on; none where it is None."""
    global _server
    _server = server
    _popen._execute_child = _start if server else _execute
    _util.spawnv_passfds = _start_spawned if server else _spawn
    os.execve = _replace if server else _execve  # type: ignore[assignment]


def _start(popen: Any, *given: Any) -> None:
    """``Popen._execute_child``, by the server where it can."""
    options = _parameters.bind(popen, *given).arguments
    call = None if options["shell"] or options["preexec_fn"] else _call(options)
    if _server is None or call is None or not _server.serves(call):
        _execute(popen, *given)
        return
    ends = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    popen.pid = _server.fork(call, [i if end == -1 else end for i, end in enumerate(ends)])
    popen._child_created = True
    names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    popen._close_pipe_fds(*(options[name] for name in names))


def _call(options: Mapping[str, Any]) -> Call | None:
    """What ``Popen`` is to start, where that is this interpreter."""
    arguments, environment = options["args"], options["env"]
    if isinstance(arguments, (str, bytes, os.PathLike)) or not options["close_fds"]:
        return None
    split = split_command(list(map(os.fsdecode, arguments)))
    return split and Call(
        *split,
        environment=dict(os.environ if environment is None else environment),
        folder=os.fsdecode(options["cwd"] or os.getcwd()),
        passed=sorted(options["pass_fds"]),
        session=bool(options["start_new_session"]),
        group=options.get("process_group", -1),
    )


def _start_spawned(path: bytes, arguments: Sequence[Any], passed: Sequence[int]) -> int:
    """``multiprocessing.util.spawnv_passfds``, by the server where it can."""
    split = split_command(list(map(os.fsdecode, arguments)))
    if _server and split:
        call = Call(*split, dict(os.environ), os.getcwd(), sorted(passed))
        if _server.serves(call):
            return _server.fork(call, [0, 1, 2])
    return int(_spawn(path, arguments, passed))


def _replace(path: str, arguments: list[str], environment: Mapping[str, str]) -> NoReturn:
    """``os.execve``, by the server where it can: this process stays until its successor ends."""
    split = split_command(arguments)
    if _server and split:
        call = Call(*split, dict(environment), os.getcwd(), [])
        if _server.serves(call):
            _, status = os.waitpid(_server.fork(call, [0, 1, 2]), 0)
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
    _execve(path, arguments, environment)


def split_command(words: list[str]) -> tuple[list[str], list[str], str] | None:
    """The words after the interpreter, the variables for its options, and its network."""
    network = ""
    if words[:3] == ["ip", "netns", "exec"]:
        network, words = words[3], words[4:]
    if words[0] != sys.executable:
        return None
    rest, options = words[1:], []
    while rest and rest[0] in _OPTIONS:
        options.append(_OPTIONS[rest.pop(0)])
    plain = rest and (rest[0] in ("-c", "-m") or rest[0].endswith(".py"))
    return (rest, options, network) if plain else None
