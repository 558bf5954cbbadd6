"""What is known of the models that are alive when an optimizer makes its first step."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from ddpify.verify.inside.fingerprint import is_divided

Setting = bool | int | float | str
_T = TypeVar("_T")


@dataclass
class Survey:
    """The models alive.

    Attributes:
        names: Name of each parameter, by its id.
        batch_norm: Whether a model normalises each rank's batch alone.
        buffers: Buffers of the models that hold a parameter of the optimizer, by name.
        layers: Layers of those models, by name.
        others: Models that hold no parameter of the optimizer, by the script's name for them.
    """

    names: dict[int, str] = field(default_factory=dict)
    batch_norm: bool = False
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    layers: dict[str, torch.nn.Module] = field(default_factory=dict)
    others: dict[str, torch.nn.Module] = field(default_factory=dict)

    def settings(self) -> dict[str, dict[str, Setting]]:
        """Each layer's class, and the numbers, texts and flags in its public attributes."""
        return {
            name: {**_settings(layer), "class": _class(layer)}
            for name, layer in self.layers.items()
        }

    def evaluating(self) -> list[str]:
        """The layers that are in evaluation mode."""
        return [name for name, layer in self.layers.items() if not layer.training]


def survey(parameters: list[torch.Tensor], folder: str) -> Survey:
    """Look at all models alive.

    Args:
        parameters: Those of the optimizer.
        folder: The script's folder: names in its files name the models.
    """
    modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in inner]
    optimized = {id(parameter): at for at, parameter in enumerate(parameters)}
    found = Survey()
    others: dict[int, torch.nn.Module] = {}
    trained: list[tuple[int, int, torch.nn.Module]] = []
    for root in roots:
        held = {id(parameter): _plain(name) for name, parameter in root.named_parameters()}
        found.names = {**held, **found.names}
        if optimized.keys() & held.keys():
            first = min(optimized[key] for key in held if key in optimized)
            trained.append((first, len(held), root))
        elif held and not any(map(is_divided, root.parameters())):
            others[id(root)] = root
    for *_, root in sorted(trained, key=lambda one: one[:2]):
        found.buffers |= _apart(found.buffers, root.named_buffers())
        found.layers |= _apart(found.layers, root.named_modules())
    plain = BatchNorm.forward
    found.batch_norm = any(getattr(type(item), "forward", None) is plain for item in modules)
    for name, value in named(folder):
        if id(value) in others:
            found.others[name] = others.pop(id(value))
    return found


def _settings(layer: torch.nn.Module) -> dict[str, Setting]:
    return {
        key: value
        for key, value in vars(layer).items()
        if isinstance(value, (bool, int, float, str))
        and not key.startswith("_")
        and key != "training"
    }


def _class(layer: torch.nn.Module) -> str:
    """A layer's class, without what makes it one for several ranks."""
    if isinstance(layer, BatchNorm):
        return "BatchNorm"
    return type(layer).__name__.removeprefix("FSDP")


def _apart(known: dict[str, _T], named: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """``named`` without the model itself and what is known. Of several models under one optimizer,
    the names of a later one that an earlier one has, too, are marked."""
    new: dict[str, _T] = {}
    values = {id(value) for value in known.values()}
    for name, value in named:
        if name and id(value) not in values:
            plain = _plain(name)
            while plain in known or plain in new:
                plain += "'"
            new[plain] = value
    return new


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers of a model, by name."""
    return {
        _plain(name): tensor for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }


def named(folder: str) -> Iterator[tuple[str, Any]]:
    """What the script's variables hold, and the attributes of the objects in them.

    Args:
        folder: The script's folder.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(folder):
            for name, value in list(frame.f_locals.items()):
                yield name, value
                if not _is_foreign(value, folder):
                    attributes = getattr(value, "__dict__", {})
                    yield from ((f"{name}.{key}", each) for key, each in [*attributes.items()])
        frame = frame.f_back


def _is_foreign(value: Any, folder: str) -> bool:
    """Whether its attributes are no variables of the script: a model, a class, a library."""
    if isinstance(value, ModuleType):
        return not str(getattr(value, "__file__", "")).startswith(folder)
    return isinstance(value, (torch.nn.Module, type))


def _plain(name: str) -> str:
    """``name`` without the prefixes of wrappers."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod")) or name
