"""Batches that are drawn by hand are the same on every rank.

## What it does
Looks for training batches made by indexing with random numbers, when the seed is the same on all
ranks, and for loops over slices of the data that no rank takes part of.

## Why is this bad
All ranks compute the same gradients, whose average is the gradient of one: the run costs N GPUs
and trains like one.

## Example
```python
torch.manual_seed(1337)
data = torch.arange(1000)
for step in range(100):
    ix = torch.randint(len(data) - 8, (32,))
    x = torch.stack([data[i : i + 8] for i in ix])
    model(x).mean().backward()
    optimizer.step()
```

## Use instead
```python
torch.manual_seed(1337 + rank)
data = torch.arange(1000)
for step in range(100):
    ix = torch.randint(len(data) - 8, (32,))
    x = torch.stack([data[i : i + 8] for i in ix])
    model(x).mean().backward()
    optimizer.step()
```

## Also fine
A slice that depends on the rank, and training on all of the data at once.
```python
data = torch.arange(1000)
for i in range(rank * 32, 1000, world_size * 32):
    model(data[i : i + 32]).mean().backward()
```
```python
data = torch.arange(1000)
for step in range(100):
    model(data).mean().backward()
    optimizer.step()
```

## When not to follow it
Where all ranks compute the same on purpose.

## References
https://github.com/karpathy/nanoGPT/blob/master/train.py (seed_offset)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import differs, seeds
from ddpify.understanding.libraries.runtime_names import INIT
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.sources import ANY_RANK, RANDOM, WORLD

_APART = ANY_RANK | {WORLD}


@rule(
    "manual-batches-same-on-all-ranks",
    group="data",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Hand-made batches that do not depend on the rank."""
    if not script.wraps or script.training_loaders:
        return
    for loop in _training_loops(script):
        yield from _random_batches(script, loop)
        yield from _slices(script, loop)


def _training_loops(script: Script) -> list[cst.For | cst.While]:
    """The loops of this file right around a backward pass."""
    found: dict[cst.For | cst.While, None] = {}
    for node in script.facts.backwards:
        loops = script.structure_of(node).loops(node)
        if loops and script.owners.get(loops[0]) is script.module:
            found[loops[0]] = None
    return list(found)


def _random_batches(script: Script, loop: cst.For | cst.While) -> Iterator[Finding]:
    found = seeds(script)
    if any(differs(script, one) for one in found) or not (found or script.uses(INIT)):
        return
    for node in script.reached(loop):
        if isinstance(node, cst.Subscript) and script.owners.get(node) is script.module:
            labels = {x for one in node.slice for x in _labels(script, one.slice)}
            if RANDOM in labels and not labels & _APART and _feeds_model(script, loop, node):
                yield Finding(node, f"all ranks draw the same batches: {_why(script)}")
                return


def _why(script: Script) -> str:
    dd = runtime(script)
    return f"{dd}.shard_batch() splits them" if dd else "the seed is the same on each"


def _remedy(script: Script) -> str:
    dd = runtime(script)
    return f": {dd}.shard_batch() splits them" if dd else ""


def _labels(script: Script, part: cst.BaseSlice) -> set[str]:
    parts = [part.value] if isinstance(part, cst.Index) else [part.lower, part.upper]  # type: ignore[attr-defined]
    module = script.module
    return {x for one in parts if one is not None for x in script.flow.sources(one, module)}


def _slices(script: Script, loop: cst.For | cst.While) -> Iterator[Finding]:
    """``for i in range(0, n, size): x = data[i:i + size]``."""
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name):
        return
    if "builtins.range" not in script.names(getattr(loop.iter, "func", loop.iter)):
        return
    if script.flow.sources(loop.iter, script.module) & _APART:
        return
    for node in script.structure.inside(loop.body, cst.Subscript):
        first = node.slice[0].slice
        if not isinstance(first, cst.Slice) or first.lower is None or first.upper is None:
            continue
        plain = isinstance(first.lower, cst.Name) and first.lower.value == loop.target.value
        labels = {x for e in (first.lower, first.upper, node.value) for x in
                  script.flow.sources(e, script.module)}  # fmt: skip
        if plain and not labels & _APART and _feeds_model(script, loop, node):
            yield Finding(
                node, f"every rank trains on the same slices of the data{_remedy(script)}"
            )
            return


def _read(edge: FlowEdge) -> cst.CSTNode:
    """What a move takes its value from: of a loop, what it goes over."""
    return edge.node.iter if isinstance(edge.node, (cst.For, cst.CompFor)) else edge.node


def _feeds_model(script: Script, loop: cst.For | cst.While, node: cst.Subscript) -> bool:
    """Whether a loop calls a wrapped model on all that is made of the slice."""
    locations = {
        location
        for edge in script.flow.edges
        if script.owners.get(edge.node) is script.module
        if any(part is node for part in script.structure.inside(_read(edge), cst.Subscript))
        for location in edge.targets
    }
    reached = script.flow.derived(locations)
    for call in _model_calls(script, loop):
        for argument in call.args:
            inside = any(p is node for p in script.structure.inside(argument, cst.Subscript))
            taken = inside or script.flow.locations(argument.value, script.module) & reached
            if taken and not script.value(argument.value).data:
                return True
    return False


def _model_calls(script: Script, loop: cst.For | cst.While) -> list[cst.Call]:
    """The calls of wrapped models in a training loop, or in what it calls where it has none."""
    calls = [call for call in script.structure.all(cst.Call) if script.may_be_wrapped(call.func)]
    return [call for call in calls if script.module.holds(loop, call)] or calls
