"""Values of options, checked before they are written into a file that others run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from ddpify.errors import DdpifyError, ExitCode

_SLURM_TIME = re.compile(r"\d+|\d+:[0-5]?\d(:[0-5]?\d)?|\d+-\d{1,2}(:[0-5]?\d){0,2}|UNLIMITED")
_DURATION = re.compile(r"(\d+)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9_.,:@/+=*\[\]-]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_INTERFACES = re.compile(r"[\^=]?[A-Za-z0-9_.,:-]+")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")


def usage(message: str, remedy: str) -> DdpifyError:
    """An error of the command line: exit code 2."""
    return DdpifyError(message, remedy=remedy, exit_code=ExitCode.USAGE)


def slurm_time(text: str) -> str:
    """A time limit as sbatch takes it; "" for none."""
    if text and not _SLURM_TIME.fullmatch(text):
        remedy = "write minutes, HH:MM:SS, or DAYS-HH:MM:SS, as in --time 24:00:00"
        raise usage(f"not a time limit: {text!r}", remedy)
    return text


def slurm_seconds(text: str) -> int | None:
    """Seconds of a time limit that :func:`slurm_time` takes; None where there is no limit."""
    if not text or not text.strip("0:-") or text == "UNLIMITED":
        return None
    days, dash, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    # After days come hours first; without them minutes, unless all three are there.
    first = 3600 if dash or len(parts) == 3 else 60
    total: int = sum(part * first // int(60**place) for place, part in enumerate(parts))
    return int(days or 0) * 86400 + total


def seconds(option: str, text: str) -> int | None:
    """Seconds of a duration such as 90, 30m, 12h or 2d; None for ""."""
    found = _DURATION.fullmatch(text)
    if not text:
        return None
    if found is None or int(found[1]) == 0:
        raise usage(f"not a duration: {option} {text!r}", f"write it as in {option} 12h")
    return int(found[1]) * _SECONDS[found[2]]


def word(option: str, text: str) -> str:
    """What goes into a line of its own, or a YAML value, without quotes; "" for none."""
    if text and not _WORD.fullmatch(text):
        raise usage(f"cannot use {option} {text!r}", f"give {option} a single word")
    return text


def interfaces(text: str) -> str:
    """Names of network interfaces as NCCL takes them: prefixes, "=" exact, "^" all but these."""
    if text and not _INTERFACES.fullmatch(text):
        raise usage(f"no network interface: {text!r}", "write it as in --interface eth0")
    return text


def host(option: str, text: str) -> str:
    """A node's name or IPv4 address; "" for none."""
    if text and not _HOST.fullmatch(text):
        remedy = f"{option} takes names and IPv4 addresses, as in node1 or 10.0.0.2"
        raise usage(f"not a host: {text!r}", f"{remedy}; --port sets the port")
    return text


def hosts(text: str) -> tuple[str, ...]:
    """Names or addresses of nodes, from a list with commas; each once."""
    found = tuple(part.strip() for part in text.split(",")) if text else ()
    for one in found:
        host("--hosts", one or " ")
    if len(set(found)) < len(found):
        raise usage(f"a host is named twice in {text!r}", "name each node once")
    return found


def variables(given: Iterable[str]) -> dict[str, str]:
    """Environment variables from NAME=VALUE."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise usage(f"not a variable: {text!r}", "write it as in --env NAME=VALUE")
        found[name] = value
    return found


def processes(text: str) -> int:
    """Processes on a node; 0 for "auto", one a GPU."""
    if text in ("auto", "gpu"):
        return 0
    if not text.isdecimal() or not int(text):
        remedy = "use a number, or auto for one a GPU of the node"
        raise usage(f"not a number of processes: --gpus-per-node {text}", remedy)
    return int(text)


def setup(given: Iterable[str]) -> tuple[str, ...]:
    """Shell commands, each whole: an open quote would take in the rest of the file."""
    for line in given:
        try:
            shlex.split(line)
        except ValueError as failure:
            raise usage(f"--setup {line!r}: {failure}", "give one whole shell command") from None
    return tuple(given)


def counts(text: str) -> tuple[int, int]:
    """The fewest and the most nodes, from "4" or "2:4"."""
    least, _, most = text.partition(":")
    try:
        low, high = int(least), int(most or least)
    except ValueError:
        low, high = 0, 0
    if not 1 <= low <= high or text.endswith(":"):
        raise usage(
            f"not a number of nodes: {text!r}", "write --nodes 4, or --nodes 2:4 for a range"
        )
    return low, high


def volumes(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Claims of persistent volumes and where they are mounted, from CLAIM:/PATH."""
    found = []
    for text in given:
        claim, _, path = text.partition(":")
        if not _CLAIM.fullmatch(claim) or not path.startswith("/"):
            raise usage(f"not a volume: {text!r}", "write it as in --volume my-claim:/checkpoints")
        found.append((claim, path))
    return tuple(found)


def resource(text: str) -> tuple[str, int] | None:
    """A device of Kubernetes and how many of it, from NAME or NAME=COUNT; None for ""."""
    if not text:
        return None
    name, _, count = text.partition("=")
    if not _RESOURCE.fullmatch(name) or not (count or "1").isdecimal():
        raise usage(
            f"not a resource: {text!r}", "write it as in --rdma rdma/hca_shared_devices_a=1"
        )
    return name, int(count or "1")
