"""Checkpoints that every rank writes its own part of, by torch.distributed.checkpoint."""

import functools
import os
import shutil
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ddpify.runtime.optimizers import empty_state, load_named_state, named_state
from ddpify.runtime.process import barrier, is_main, world_size

_under_way: list["Saving"] = []


class Saving:
    """A checkpoint that is being written while training goes on."""

    def __init__(self, written: "Future[Any] | None", draft: str, target: str) -> None:
        self._written, self._draft, self._target = written, draft, target

    def wait(self) -> None:
        """Until the checkpoint is there, complete, on every rank. A collective."""
        if self in _under_way:
            _under_way.remove(self)
            if self._written is not None:
                self._written.result()
            barrier()
            if is_main():
                _put_in_place(self._draft, self._target)
            barrier()


def save_sharded(objects: dict[str, Any], folder: str | os.PathLike[str]) -> Saving:
    """Write models, optimizers and other state to a folder, each rank its own part.

    objects: by name, models, optimizers of these models, whatever else has a ``state_dict()``,
    and plain values. Their states are copied to the CPU before this returns, and written while
    training goes on: ``wait()`` on what is returned, or the next call, or ``load_sharded``,
    waits for that. A folder that is there already is replaced when the new one is complete.
    A collective, as is waiting.
    """
    from torch.distributed.checkpoint.state_dict_saver import async_save, save

    wait_for_saves()
    target = os.path.realpath(folder)
    draft = _draft_of(target)
    if is_main():
        shutil.rmtree(draft, ignore_errors=True)
        os.makedirs(draft)
    barrier()
    state = {name: _state_of(value, objects) for name, value in objects.items()}
    written: Any = None
    if world_size() == 1:
        save(state, checkpoint_id=draft, no_dist=True)
    else:
        written = async_save(state, checkpoint_id=draft, process_group=_own_group())
    saving = Saving(written, draft, target)
    _under_way.append(saving)
    if written is None:
        saving.wait()
    return saving


def load_sharded(objects: dict[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what save_sharded wrote, at any number of ranks, into objects of the same names.

    objects: as there; models, optimizers and whatever has ``load_state_dict`` are changed in
    place. Returns the plain values. A collective.

    Raises FileNotFoundError where the folder holds no complete checkpoint. The format holds
    pickled data: read only what you trust.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    wait_for_saves()
    target = os.path.realpath(folder)
    if is_main():
        _take_back(target)
    barrier()
    reader = FileSystemReader(target)
    contents = reader.read_metadata().state_dict_metadata
    state = {name: _to_read(name, value, objects, contents) for name, value in objects.items()}
    load(
        state,
        storage_reader=reader,
        no_dist=world_size() == 1,
        process_group=_own_group() if world_size() > 1 else None,
    )
    for name, value in objects.items():
        _load(value, state[name], objects)
    return {name: state[name] for name, value in objects.items() if _is_plain(value)}


def wait_for_saves() -> None:
    """Until every checkpoint under way is complete. A collective where there is one."""
    for saving in list(_under_way):
        saving.wait()


@functools.cache
def _own_group() -> Any:
    """A group of the CPU's own: its collectives run beside those of the training."""
    return dist.new_group(backend="gloo")


def _draft_of(target: str) -> str:
    return os.path.join(os.path.dirname(target), f".saving-{os.path.basename(target)}")


def _former(draft: str) -> str:
    """Where the former checkpoint is while the new one takes its place."""
    return f"{draft}.former"


def _take_back(target: str) -> None:
    """Give the former checkpoint its name back, where a process was killed between two names."""
    former = _former(_draft_of(target))
    if os.path.exists(former) and not os.path.exists(target):
        os.rename(former, target)


def _put_in_place(draft: str, target: str) -> None:
    former = _former(draft)
    shutil.rmtree(former, ignore_errors=True)
    if os.path.exists(target):
        os.rename(target, former)
    os.rename(draft, target)
    shutil.rmtree(former, ignore_errors=True)


def _is_plain(value: Any) -> bool:
    return not hasattr(value, "state_dict")


def _state_of(value: Any, objects: dict[str, Any]) -> Any:
    if isinstance(value, torch.optim.Optimizer):
        return named_state(value, _model_of(value, objects))
    return value if _is_plain(value) else value.state_dict()


def _to_read(name: str, value: Any, objects: dict[str, Any], contents: dict[str, Any]) -> Any:
    """What the checkpoint is read into."""
    if isinstance(value, torch.optim.Optimizer):
        return empty_state(value, _model_of(value, objects), f"{name}.state.", contents)
    return _state_of(value, objects)


def _load(value: Any, state: Any, objects: dict[str, Any]) -> None:
    if isinstance(value, torch.optim.Optimizer):
        load_named_state(value, _model_of(value, objects), state)
    elif not _is_plain(value):
        value.load_state_dict(state)


def _model_of(optimizer: torch.optim.Optimizer, objects: dict[str, Any]) -> nn.Module:
    """The model among ``objects`` that an optimizer steps."""
    stepped = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for value in objects.values():
        if isinstance(value, nn.Module) and stepped <= set(value.parameters()):
            return value
    raise ValueError("save an optimizer together with the one model whose parameters it steps")
