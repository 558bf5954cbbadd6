"""The server of ``warm``: a process that has imported torch, and is forked."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import json
import multiprocessing.process
import os
import platform
import runpy
import signal
import socket
import sys
import tempfile
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

from ddpify.verify.launch.forking import share_with_forks
from tests import warm
from tests.leaving import leave

PRELOADED = (
    "numpy",
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.run",
)
LARGEST = 1 << 20

_CLONE_NUMBER = {"x86_64": 56, "aarch64": 220}
_NETWORK = 0x40000000
_NAMESPACES = {"net": _NETWORK, "uts": 0x4000000, "mnt": 0x20000}
_PARENT, _CHILD_CLEARTID, _CHILD_SETTID = 0x8000, 0x200000, 0x1000000

_interpreters_path: list[str] = []


def main() -> None:
    """Serve at the socket whose descriptor the command line gives."""
    end = socket.socket(fileno=int(sys.argv[1]))
    own = (os.getcwd(), str(warm.ROOT))
    _interpreters_path.extend(entry for entry in sys.path if entry not in own)
    for name in PRELOADED:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share_with_forks()
    serve(end)


def serve(end: socket.socket) -> NoReturn:
    """Fork what is asked for, until nobody is left to ask."""
    end.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(end, LARGEST, 32)
        if not message:
            os._exit(0)
        pid = _fork_a_sibling()
        if pid == 0:
            end.close()
            _become(warm.Call(**json.loads(message)), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        end.send(str(pid).encode())


def _fork_a_sibling() -> int:
    """``os.fork``, but the child's parent is that of this process."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_ulong
    start = libc.pthread_self()
    # glibc keeps the thread's id there, and lets the kernel write a fork's own.
    place = list((ctypes.c_int * 256).from_address(start)).index(os.getpid())
    thread = ctypes.c_void_p(start + 4 * place)
    flags = ctypes.c_ulong(_PARENT | _CHILD_CLEARTID | _CHILD_SETTID | signal.SIGCHLD)
    last = (thread, None) if platform.machine() == "x86_64" else (None, thread)
    pid = int(libc.syscall(_CLONE_NUMBER[platform.machine()], flags, None, None, *last))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return pid


def _become(call: warm.Call, descriptors: list[int]) -> NoReturn:
    """Be the process that was asked for."""
    try:
        if call.session:
            os.setsid()
        elif call.group != -1:
            os.setpgid(0, call.group)
        if call.namespaces:
            _enter(Path("/run/netns", call.namespaces))
        own = _serve_own_children()
        _install(descriptors, [0, 1, 2, *call.passed], own)
        os.environ.clear()
        os.environ.update(call.environment)
        os.chdir(call.folder)
        _renew(set(call.options) | {name for name, value in call.environment.items() if value})
        _run(call.words)
    finally:
        os._exit(120)


def _enter(place: Path) -> None:
    """Go into a network namespace, or into those of a process that are not the own ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = {place: _NETWORK}
    if place.is_dir():
        own = Path("/proc/self/ns")
        others = (name for name in _NAMESPACES if not (place / name).samefile(own / name))
        kinds = {place / name: _NAMESPACES[name] for name in others}
    for file, kind in kinds.items():
        with file.open() as namespace:
            if libc.setns(namespace.fileno(), kind):
                raise OSError(ctypes.get_errno(), "setns")


def _serve_own_children() -> socket.socket:
    """A server for what this process starts, made before it has done anything."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        own.close()
        serve(other)
    other.close()
    server = warm.Server(own, os.environ)
    warm.use(server)
    return own


def _install(descriptors: list[int], places: list[int], kept: socket.socket) -> None:
    """Put descriptors into their places, and close all others but the socket's."""
    above = max(places) + 1
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD, above) for one in descriptors]
    end = fcntl.fcntl(kept.fileno(), fcntl.F_DUPFD_CLOEXEC, above)
    for one, place in zip(moved, places, strict=True):
        os.dup2(one, place)
    kept.detach()
    kept.__init__(fileno=end)  # type: ignore[misc]
    for one in map(int, os.listdir("/proc/self/fd")):
        if one not in (*places, end):
            with contextlib.suppress(OSError):  # the listing's own
                os.close(one)


def _renew(options: set[str]) -> None:
    """Set up what a new interpreter does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unbuffered = "PYTHONUNBUFFERED" in options
    sys.stdout.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)  # type: ignore[union-attr]
    sys.stderr.reconfigure(write_through=unbuffered)  # type: ignore[union-attr]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in options
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    tempfile.tempdir = None  # TMPDIR may be another
    sys.modules["numpy"].random.seed()


def _run(words: list[str]) -> NoReturn:
    """Run what Python's command line names, and end as Python does."""
    main = _new_main(words)
    status = 0
    try:
        _execute(words, main)
    except SystemExit as end:
        status = _status(end.code)
    except BaseException as error:
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        below = error.__traceback__
        for _ in range(2):  # this function and the next
            below = below and below.tb_next
        sys.excepthook(type(error), error.with_traceback(below), below)
    leave(main, status)


def _new_main(words: list[str]) -> dict[str, Any]:
    """Set up the path, the arguments and ``__main__``, whose names are returned."""
    kind, *rest = words
    script = kind not in ("-c", "-m")
    first = str(Path(kind).parent.resolve()) if script else "" if kind == "-c" else os.getcwd()
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = list(dict.fromkeys([first, *named, *_interpreters_path]))
    sys.argv[:] = words if script else [kind, *rest[1:]]
    for name in list(sys.modules):
        if name.partition(".")[0] in ("ddpify", "tests"):  # the process finds its own
            del sys.modules[name]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __spec__=None)
    return main.__dict__


def _execute(words: list[str], main: dict[str, Any]) -> None:
    kind, *rest = words
    if kind == "-m":
        sys.modules.pop(rest[0], None)
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif kind == "-c":
        exec(compile(rest[0], "<string>", "exec"), main)
    else:
        main.update(__file__=kind, __loader__=SourceFileLoader("__main__", kind))
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main)


def _status(code: object) -> int:
    """The exit status that an argument of ``sys.exit`` gives."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
