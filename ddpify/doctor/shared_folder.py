"""The working folder: the same files on all nodes, or each node its own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch.distributed as dist

from ddpify.doctor.findings import Finding, note, warning
from ddpify.doctor.mounts import file_system

AREA = "files"


def check_folder(rank: int, hosts: Sequence[str]) -> Iterator[Finding]:
    """Rank 0 writes a file, and all ranks look for it. All ranks must call it."""
    path, reason = _written() if rank == 0 else (None, "")
    said = [(str(path or ""), reason)]
    dist.broadcast_object_list(said, 0)
    name, reason = said[0]
    seen = [False] * len(hosts)
    dist.all_gather_object(seen, bool(name) and _sees(Path(name)))
    if path is not None:
        path.unlink()
    yield from judged(str(Path(name).parent) if name else "", reason, seen, hosts)


def _written() -> tuple[Path | None, str]:
    path = Path.cwd() / f".ddpify-doctor-{secrets.token_hex(8)}"
    try:
        path.write_text("")
    except OSError as failure:
        return None, f"{path.parent}: {failure.strerror}"
    return path, ""


def _sees(path: Path) -> bool:
    """Listing the folder asks a network file system anew, where a look-up may be remembered."""
    try:
        return path.name in os.listdir(path.parent)
    except OSError:
        return False


def judged(
    folder: str, reason: str, seen: Sequence[bool], hosts: Sequence[str]
) -> Iterator[Finding]:
    """What follows from who sees the file. ``reason``: why rank 0 could not write it, if so."""
    if reason:
        remedy = "start in a folder that rank 0 may write to: checkpoints and logs go there"
        yield warning(AREA, f"rank 0 cannot write to its working folder, {reason}", remedy)
        return
    blind = list(dict.fromkeys(h for h, sees in zip(hosts, seen, strict=True) if not sees))
    if blind:
        message = f"{folder} of rank 0 is not seen on {', '.join(blind)}"
        remedy = (
            "start in a folder of a shared file system, or have the script and its data on every "
            "node and snapshots on storage that all nodes reach"
        )
        yield warning(AREA, message, remedy)
    elif len(set(hosts)) > 1:
        yield note(AREA, f"{folder} is the same on all nodes ({file_system(Path(folder))})")
