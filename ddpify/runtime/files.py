"""Files that several ranks would otherwise write, or fetch, at the same time."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import torch
from torch.serialization import default_restore_location

from ddpify.runtime.dtensor import anything_is_sharded
from ddpify.runtime.gathering import gathered
from ddpify.runtime.process import barrier, device, is_main, local_rank, world_size

_torch_save = torch.save


@contextlib.contextmanager
def local_main_first() -> Iterator[None]:
    """Run the body on the first rank of each node, and then on the others.

    What it downloads or prepares so is there once, complete, when the other ranks look for it.
    A collective: every rank enters.
    """
    if local_rank() != 0:
        barrier()
    yield
    if local_rank() == 0:
        barrier()


@contextlib.contextmanager
def main_saves() -> Iterator[None]:
    """Inside, torch.save is save(), also in code of other modules: rank 0 writes for all.

    Ranks must come to the same calls of torch.save in the body.
    """
    plain = torch.save
    if world_size() > 1:
        torch.save = save
    try:
        yield
    finally:
        torch.save = plain


def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """torch.save by rank 0 alone; when it returns, on any rank, the file is there, complete.

    A file named by its path appears in one step, so that a run that is interrupted leaves the
    former file; a file object is written to as it is. What is sharded is written whole, on the
    CPU, as one process would. A collective: every rank calls it.

    Raises OSError on rank 0 where a file named by its path cannot be written.
    """
    if world_size() == 1:
        _torch_save(obj, f, *args, **kwargs)
        return
    if anything_is_sharded():
        obj = gathered(obj)
    if is_main():
        if isinstance(f, str | os.PathLike):
            _save_in_one_step(obj, os.path.realpath(f), args, kwargs)
        else:
            _torch_save(obj, f, *args, **kwargs)
    barrier()


def load(f: Any, **kwargs: Any) -> Any:
    """torch.load, with this rank's own accelerator in place of the one that saved.

    What was saved on the CPU comes back there; so does everything where no accelerator is.
    ``kwargs`` are torch.load's, without ``map_location``. No communication.
    """
    return torch.load(f, map_location=_to_own_accelerator, **kwargs)


def _to_own_accelerator(storage: Any, location: str) -> Any:
    if location == "cpu":
        return storage
    return default_restore_location(storage, str(device()))  # type: ignore[no-untyped-call]


def _save_in_one_step(obj: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    # In a folder of its own, the draft has the target's name, which torch writes into the archive.
    place, name = os.path.split(target)
    folder = os.path.join(place, f".saving-{name}")
    shutil.rmtree(folder, ignore_errors=True)  # a process that was killed while it saved left it
    os.mkdir(folder)
    try:
        draft = os.path.join(folder, name)
        try:
            _torch_save(obj, draft, *args, **kwargs)
        except RuntimeError:
            _raise_if_full(draft, target)
            raise
        with open(draft, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(draft, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _raise_if_full(draft: str, target: str) -> None:
    """Raise OSError where no more can be written: torch's own writer does not say why it failed."""
    try:
        with open(draft, "ab") as file:
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno is not None:
            there = "the former file is as it was" if os.path.exists(target) else "nothing is there"
            raise OSError(error.errno, f"{error.strerror}; {there}", target) from None
