"""Where a training goes through a loader again and again: the places at which a round begins."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.own_samplers import is_told_the_epoch
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import splits
from ddpify.understanding.values import UNKNOWN, Instance

Loop = cst.For | cst.While
_BATCHES = "torch.utils.data.BatchSampler"


def samplers_of(loader: Instance) -> Iterator[Instance]:
    """What splits a loader's samples, also inside PyTorch's own batch sampler, and what orders them
    by the epoch that it is told.
    """
    for atom in loader.arguments.get("sampler", UNKNOWN).atoms:
        if isinstance(atom, Instance) and (splits(atom) or is_told_the_epoch(atom)):
            yield atom
    for batches in loader.arguments.get("batch_sampler", UNKNOWN).atoms:
        if isinstance(batches, Instance) and is_told_the_epoch(batches):
            yield batches
        if not isinstance(batches, Instance) or batches.type != _BATCHES:
            continue
        held = [*batches.arguments.get("sampler", UNKNOWN).atoms]
        held += batches.arguments.get("0", UNKNOWN).atoms
        yield from (one for one in held if isinstance(one, Instance) and splits(one))


def rounds(script: Script, sampler: Instance) -> tuple[cst.For | cst.Call, Loop] | None:
    """Where a training starts to go through the sampler's loader, and the loop around that.

    A loop over it, in the training or in a generator that the training reads from, or ``iter()``;
    rather one over this loader alone than a helper's, which goes over any.
    """
    found: list[tuple[int, cst.For | cst.Call, Loop]] = []
    for one, begun in _begun(script):
        loaders = script.loaders_in(begun)
        if not any(sampler in samplers_of(loader) for loader in loaders):
            continue
        outer = [loop for loop in script.control.around(one) if not _once(script, loop)]
        if outer and _feeds_training(script, one, outer[0]):
            found.append((len(loaders), one, outer[0]))
    best = min(found, key=lambda one: one[0], default=None)
    return best[1:] if best is not None else None


def _begun(script: Script) -> Iterator[tuple[cst.For | cst.Call, cst.BaseExpression]]:
    """What loops go through, and ``loader`` of ``it = iter(loader)``: more than one batch."""
    for structure in script.structures.values():
        yield from ((loop, loop.iter) for loop in structure.all(cst.For))
    for call in script.calls("builtins.iter", everywhere=True):
        kept = script.structure_of(call).parents.get(call)
        if isinstance(kept, cst.Assign) and len(call.args) == 1:
            yield call, call.args[0].value


def _feeds_training(script: Script, node: cst.For | cst.Call, outer: Loop) -> bool:
    if isinstance(node, cst.Call):
        return script.trains(outer)
    if script.trains(node):
        return True
    structure = script.structure_of(node)
    function = structure.function(node)
    if function is None or function not in structure.generators:
        return False
    given = script.flow.derived([("result", function)])
    return any(
        script.flow.locations(read, script.owners[read]) & given and script.trains(loop)
        for read in _reads(script)
        for loop in script.control.around(read)
    )


def _reads(script: Script) -> Iterator[cst.BaseExpression]:
    """What ``next()`` takes from, and what loops go through."""
    for call in script.calls("builtins.next", everywhere=True):
        yield from (one.value for one in call.args[:1])
    for structure in script.structures.values():
        yield from (loop.iter for loop in structure.all(cst.For))


def _once(script: Script, loop: Loop) -> bool:
    """``for _ in range(1)``, also by a name that is nothing else."""
    call = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(call, cst.Call) or "builtins.range" not in script.names(call.func):
        return False
    return [script.value(one.value).constant() for one in call.args] == [1]
