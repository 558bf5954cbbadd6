"""The repeated blocks of a model: units of sharding and of activation checkpointing."""

import collections
from collections.abc import Iterator, Sequence

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def repeated_blocks(
    model: nn.Module, kinds: Sequence[type[nn.Module]] | None = None
) -> list[nn.Module]:
    """The model's blocks, in order: layers of layers whose class occurs more than once in it.

    Of blocks within blocks the outermost are taken, but not one that itself holds a stack of
    blocks, as an encoder does. ``kinds`` names the blocks' classes instead. The model itself is
    none. A block that shares parameters with the rest of the model is left out: tied weights
    must be sharded together.
    """
    if kinds is None:
        layered = [m for m in _inside(model) if _is_layered(m) and _computes(m)]
        counts = collections.Counter(type(module) for module in layered)
        chosen = {m for m in layered if counts[type(m)] > 1 and not _holds_a_stack(m)}
    else:
        chosen = {module for module in _inside(model) if isinstance(module, tuple(kinds))}
    tied = _tied_parameters(model)
    return [block for block in _outermost(model, chosen) if not _shares(block, tied)]


def has_batch_norm(module: nn.Module) -> bool:
    """Whether a batch normalisation layer is inside."""
    return any(isinstance(layer, _BatchNorm) for layer in module.modules())


def _inside(model: nn.Module) -> Iterator[nn.Module]:
    return (module for module in model.modules() if module is not model)


def _is_layered(module: nn.Module) -> bool:
    """Whether a module has parameters, and layers of its own."""
    return any(True for _ in module.children()) and any(True for _ in module.parameters())


def _computes(module: nn.Module) -> bool:
    """Whether a module is called as a layer is: no mere container or parametrization."""
    own = type(module)
    return own.forward is not nn.Module.forward and not own.__module__.startswith("torch.nn.utils")


def _holds_a_stack(module: nn.Module) -> bool:
    for inner in module.modules():
        if isinstance(inner, _CONTAINERS):
            counts = collections.Counter(type(m) for m in inner.children() if _is_layered(m))
            if any(count > 1 for count in counts.values()):
                return True
    return False


def _outermost(module: nn.Module, chosen: set[nn.Module]) -> Iterator[nn.Module]:
    seen: set[nn.Module] = set()

    def walk(parent: nn.Module) -> Iterator[nn.Module]:
        for child in parent.children():
            if child in seen:
                continue
            seen.add(child)
            if child in chosen:
                yield child
            else:
                yield from walk(child)

    return walk(module)


def _tied_parameters(model: nn.Module) -> dict[nn.Parameter, int]:
    """How many modules hold each of the parameters that more than one holds."""
    holders = collections.Counter(p for m in model.modules() for p in m.parameters(recurse=False))
    return {parameter: count for parameter, count in holders.items() if count > 1}


def _shares(block: nn.Module, tied: dict[nn.Parameter, int]) -> bool:
    own = collections.Counter(p for m in block.modules() for p in m.parameters(recurse=False))
    return any(own[parameter] not in (0, count) for parameter, count in tied.items())
