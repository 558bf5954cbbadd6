"""A training loader gives every rank all of the data.

## What it does
Looks for a `DataLoader` whose batches reach `backward()` and whose sampler knows nothing of ranks.

## Why is this bad
DistributedDataParallel averages gradients; it does not split the input. Without a sampler that
splits the data, each epoch costs as much as on one GPU, and with equal seeds all ranks train on
the same batches.

## Example
```python
loader = DataLoader(dataset, 32, shuffle=True)
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

```python bare
import multiprocessing
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def train(rank, world_size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DistributedDataParallel(torch.nn.Linear(10, 2).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.zeros(100, 10))
    workers = multiprocessing.cpu_count() // world_size
    for (x,) in DataLoader(data, 32, shuffle=True, num_workers=workers):
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(2,), nprocs=2)
```

## Use instead
```python
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, 32, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Also fine
A data set that is split by hand, and a sampler that is there only when the run is distributed.
```python
own = torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size))
for x, y in DataLoader(own, 32, shuffle=True):
    criterion(model(x), y).backward()
```
```python
sampler = DistributedSampler(dataset) if dist.is_initialized() else None
loader = DataLoader(dataset, 32, shuffle=sampler is None, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
```

## Fix safety
Unsafe: the global batch grows with the ranks. Offered for a loader of PyTorch where the process
group surely exists, and for one that ddpify's runtime can split.

## When not to follow it
Where every rank is meant to draw its own data, as in self-play.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.added_samplers import sampler_for
from ddpify.lint.scripts.after_wrap import through_wrapper
from ddpify.lint.scripts.datasets import (
    chooses,
    datasets,
    is_iterable,
    knows_its_rank,
    may_be_split,
    samplers,
    speaks_of_ranks,
)
from ddpify.lint.scripts.gone_through import expressions_of, in_place_of, loaders_of
from ddpify.lint.scripts.hand_averages import steps_together
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.resolved import goes_through_resolved
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import apart
from ddpify.understanding.libraries.runtime_names import REPLICATE
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import called_model, code_of, parameters
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, draws
from ddpify.understanding.values import UNKNOWN, Class, Instance


@rule(
    "missing-distributed-sampler",
    group="data",
    severity=Severity.SILENT,
    applies="converted distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Training loaders that are not split among the ranks."""
    for loader in script.training_loaders:
        place = _place(script, loader)
        if not isinstance(loader.site, cst.Call) or place is None:
            continue
        if loader.module is script.module and _is_of_a_part(script, loader.site):
            continue
        if script.control.is_only_before_spawning(loader.site):
            continue
        if script.has_runtime:
            if place is loader.site and not script.may_be_sharded(loader):
                yield _not_shared(script, loader.site)
        elif not steps_together(script) or not script.updates or script.may_be_sharded(loader):
            continue
        elif not _cannot_be_split(loader) and not _is_split_elsewhere(script, loader):
            fix = sampler_for(script, loader.site) if place is loader.site else None
            sure = _confidence(script, loader)
            yield Finding(place, _message(loader), fix, confidence=sure)


def _message(loader: Instance) -> str:
    what = "no sampler splits it" if not samplers(loader) else "the sampler does not split it"
    return f"every rank trains on all of the data: {what}"


def _confidence(script: Script, loader: Instance) -> Confidence:
    """Code that is not seen makes the data set, or ranks draw from it by seeds of their own."""
    unsure = may_be_split(script, loader) or _draws_apart(script, loader)
    return Confidence.LIKELY if unsure else Confidence.CERTAIN


def _place(script: Script, loader: Instance) -> cst.CSTNode | None:
    """The node in this file to report; None where another file has it.

    That is where the loader is made. If a run starts with another file, which has a loop that
    trains on it, that loop is reported. A file that wraps a model and has such a loop is reported
    when it is linted by itself.
    """
    entry = script.project.entry
    if loader.module is not entry:
        for file in (entry, *_wrapping(script)):
            loop = _loop_in(script, file, loader)
            if loop is not None:
                return loop if script.module is entry is file else None
    return loader.site if loader.module is script.module else None


def _wrapping(script: Script) -> set[ModuleFile]:
    """The files that wrap models."""
    return {wrap.site.module for wrap in script.wraps}


def _loop_in(script: Script, file: ModuleFile, loader: Instance) -> cst.BaseExpression | None:
    """What a training loop of a file goes over, where that is a loader."""
    loops = (
        one.iter
        for one in script.structures[file].all(cst.For)
        if loader in loaders_of(script, one)
        and any(inner in script.facts.backwards for inner in walk(one.body))
    )
    return next(loops, None)


def _is_split_elsewhere(script: Script, loader: Instance) -> bool:
    """Whether the data set knows its rank or draws, or each rank takes a part of what comes."""
    if any(knows_its_rank(script, one) or _makes_up(script, one) for one in datasets(loader)):
        return True
    spoken = any(speaks_of_ranks(script, one) for one in datasets(loader))
    unsure = spoken or _is_called_otherwise(script, loader)
    if not script.strict and (unsure or not _surely_trains(script, loader)):
        return True
    over = [
        (loop, loaders)
        for structure in script.structures.values()
        for loop in structure.all(cst.For)
        for loaders in [in_place_of(script, loop, loader)]
        if any(one.site is loader.site for one in loaders)
    ]
    training = [(loop, loaders) for loop, loaders in over if script.trains(loop)]
    if over and not training:
        return True  # the model's code is the same for evaluation: it mixes the batches
    mixed = isinstance(loader.type, Class) and "__iter__" in loader.type.scope.names
    return bool(training or mixed) and not any(  # what passes through its code is all loaders'
        loader in loaders
        and not any(map(script.may_be_sharded, loaders))
        and not _takes_parts(script, loop)
        for loop, loaders in training
    )


def _is_called_otherwise(script: Script, loader: Instance) -> bool:
    """Whether a call of the function that makes a loader names an argument that it does not have.

    What is called there may be another function, which splits the data.
    """
    function = script.structure_of(loader.site).function(loader.site)
    if function is None or function.params.star_kwarg is not None:
        return False
    known = {one.name.value for one in parameters(function)}
    return any(
        given.keyword is not None and given.keyword.value not in known
        for site in script.facts.callers.get(function, ())
        if isinstance(site.node, cst.Call)
        and any(one.node is function for one in called(script.facts, site.node))
        for given in site.node.args
    )


def _surely_trains(script: Script, loader: Instance) -> bool:
    """Whether a loop over this loader alone reaches ``backward()``, after a call of a model whose
    gradients are averaged.

    A function that trains and evaluates gets both loaders.
    """
    return any(
        _are_one(script, loader, in_place_of(script, loop, loader))
        and all(goes_through_resolved(script, one) for one in expressions_of(script, loop))
        and any(one in script.facts.backwards for one in script.reached(loop.body))
        and (script.has_fsdp or _calls_wrapped(script, loop))
        for structure in script.structures.values()
        for loop in structure.all(cst.For)
    )


def _are_one(script: Script, loader: Instance, others: list[Instance]) -> bool:
    """Whether a loop goes through a loader, or through what a branch gives its name instead."""
    if loader not in others:
        return False
    kept = [_kept_as(script, one.site) for one in others]
    return {one.site for one in others} == {loader.site} or bool(frozenset.intersection(*kept))


def _kept_as(script: Script, made: cst.CSTNode) -> frozenset[Location]:
    """The names to which a loader is given where it is made."""
    edges = (
        edge for above in script.structure_of(made).up(made) for edge in script.flow.edges_at(above)
    )
    return frozenset(x for edge in edges if edge.value is made for x in edge.targets)


def _calls_wrapped(script: Script, loop: cst.For) -> bool:
    """Whether a loop calls a wrapped model, or past its wrapper what that holds."""
    held = {model for wrap in script.wraps for model in wrap.held}
    return any(
        script.may_be_wrapped(model)
        or through_wrapper(script, model) is not None
        or not held.isdisjoint(script.instances(model))
        for one in script.reached(loop.body)
        if isinstance(one, cst.Call)
        for model in [called_model(one.func)]
    )


def _draws_apart(script: Script, loader: Instance) -> bool:
    """Whether a loader draws at random and ranks have seeds of their own: on purpose, perhaps."""
    shuffled = loader.arguments.get("shuffle", UNKNOWN).constant() is True
    random = any(one.type == "torch.utils.data.RandomSampler" for one in samplers(loader))
    return (shuffled or random) and apart(script, "torch")


def _takes_parts(script: Script, loop: cst.For) -> bool:
    """Whether each rank takes batches or samples of its own from what it goes over."""
    for node in walk(loop.body):
        if node in script.facts.backwards and any(
            script.control.asks_rank(guard.test) for guard in script.control.guards(node)
        ):
            return True
        if isinstance(node, cst.Subscript) and any(
            script.labels(one) & ANY_RANK
            for element in node.slice
            for one in walk(element)
            if isinstance(one, (cst.Name, cst.Attribute, cst.Call))
        ):
            return True
    return False


def _makes_up(script: Script, dataset: Instance) -> bool:
    """Whether a class of the project draws its samples at random: each rank has its own."""
    if not isinstance(dataset.type, Class):
        return False
    for method in walk(dataset.type.node.body):
        if isinstance(method, cst.FunctionDef) and method.name.value == "__getitem__":
            read = {one.value for one in walk(method.body) if isinstance(one, cst.Name)}
            calls = [one for one in walk(method.body) if isinstance(one, cst.Call)]
            index = [p.name.value for p in method.params.params[1:2]]
            return any(draws(n) for c in calls for n in script.names(c.func)) and not (
                read & {*index}
            )
    return False


def _is_of_a_part(script: Script, call: cst.Call) -> bool:
    """Whether the process that starts the ranks makes one loader for each of them, in a loop."""
    in_loop = bool(script.structure.loops(call)) or any(
        isinstance(above, cst.ListComp) for above in script.structure.up(call)
    )
    return in_loop and script.control.is_only_before_spawning(call)


def _not_shared(script: Script, call: cst.Call) -> Finding:
    """A loader that ddpify's runtime would split, whatever its sampler or data set."""
    dd = runtime(script)
    fix = None
    if dd is not None and not script.names(call.func) & {REPLICATE}:
        text = f"{dd}.shard({code_of(call)})"
        fix = script.replace(call, text, "split its batches among the ranks", Applicability.UNSAFE)
    message = f"every rank trains on all of the data: {dd or 'dd'}.shard() splits its batches"
    return Finding(call, message, fix)


def _cannot_be_split(loader: Instance) -> bool:
    """Whether the data set yields by itself, or a sampler chooses: other rules' work."""
    return any(map(is_iterable, datasets(loader))) or any(map(chooses, samplers(loader)))
