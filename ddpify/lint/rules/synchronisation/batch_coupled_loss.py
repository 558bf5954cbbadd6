"""The loss compares the samples of a batch with each other.

## What it does
Looks for losses that multiply, subtract or sort the samples of a batch against each other: in-batch
negatives, `z @ z.t()`, rankings.

## Why is this bad
Each rank compares its own samples only. With N ranks a sample meets N times fewer others: it is
another loss, with fewer negatives, and no error says so.

## Example
```python
for x, y in loader:
    z = F.normalize(model(x), dim=1)
    loss = criterion(z @ z.t() / 0.1, torch.arange(len(x), device=device))
    loss.backward()
    optimizer.step()
```
```python single
for x, y in loader:
    a, b = model(x), model(x.flip(1))
    similarity = torch.matmul(a, b.t())
    loss = F.cross_entropy(similarity, torch.arange(len(x)))
    loss.backward()
    optimizer.step()
```

## Use instead
```python
import torch.distributed.nn
for x, y in loader:
    z = F.normalize(model(x), dim=1)
    everyone = torch.cat(torch.distributed.nn.all_gather(z))
    labels = torch.arange(len(x), device=device) + rank * len(x)
    loss = criterion(z @ everyone.t() / 0.1, labels)
    loss.backward()
    optimizer.step()
```

## Also fine
Products with weights, of the parts of each sample, and samples in another arrangement.
```python
weight = torch.ones(2, 2, device=device)
for x, y in loader:
    z = model(x)
    first, second = torch.cat([z, z.flip(1)]).chunk(2)
    loss = criterion(first @ weight.t(), y) + (second * second).mean()
    loss.backward()
    optimizer.step()
```

## When not to follow it
Where it is meant that samples are compared within one GPU's batch, as some recipes do.

## References
https://github.com/HobbitLong/SupContrast/issues/26
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.loss_inputs import reaches_loss
from ddpify.lint.scripts.mixing import mixes_samples
from ddpify.lint.scripts.script import Script
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import wrapped_forwards
from ddpify.understanding.taint.sources import SANITIZED

_GATHERS = (
    "torch.distributed.all_gather",
    "torch.distributed.all_gather_into_tensor",
    "torch.distributed.all_gather_single",
    "torch.distributed.nn.",
)


@rule(
    "batch-coupled-loss",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Places where samples of one batch first meet, on the way to a loss."""
    if not script.wraps or script.once(_may_gather_for_a_loss):
        return
    order = script.structure.order
    met = (node for node in script.facts.values if node in order and mixes_samples(script, node))
    for node in sorted(met, key=order.__getitem__):
        if script.control.without_grad(node) or _picks_rows(script, node):
            continue
        if _only_evaluates(script, node) or _is_of_all_ranks(script, node):
            continue
        if reaches_loss(script, node):
            yield Finding(
                node,
                "mixes samples of a batch with each other: each rank does so with its own alone",
            )
            return


def _may_gather_for_a_loss(script: Script) -> bool:
    """Whether ranks gather what they have where they train: for a loss, as far as is seen. What an
    evaluation gathers comes to none.
    """
    if not script.uses(*_GATHERS):
        return False
    loops = [
        loop
        for structure in script.structures.values()
        for loop in structure.all(cst.For)
        if script.loaders_in(loop.iter) and script.trains(loop.body)
    ]
    done = [one for loop in loops for one in _done_in(script, loop.body)]
    return not loops or any(name.startswith(_GATHERS) for one in done for name in script.names(one))


def _done_in(script: Script, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a block calls, also in the forwards of wrapped models."""
    for one in script.reached(body):
        if isinstance(one, cst.Call):
            yield one.func
            for function in wrapped_forwards(script.facts, one):
                inner = script.reached(function.node)
                yield from (x.func for x in inner if isinstance(x, cst.Call))


def _only_evaluates(script: Script, node: cst.CSTNode) -> bool:
    """Whether a loop through batches, whose function trains nothing, is around a node.

    A score that is kept may come to the settings of a later training, and is no part of its loss.
    """
    structure = script.structure_of(node)
    function = structure.function(node)
    return (
        function is not None
        and not script.trains(function.body)
        and any(
            isinstance(one, cst.For) and script.loaders_in(one.iter)
            for one in structure.loops(node)
        )
    )


def _is_of_all_ranks(script: Script, node: cst.CSTNode) -> bool:
    """Whether what meets was gathered by a function with a backward of the project's own."""
    if not isinstance(node, cst.BaseExpression):
        return False
    module = script.owners.get(node, script.module)
    return any(one.label == SANITIZED for one in script.flow.ancestry(node, module))


def _picks_rows(script: Script, node: cst.CSTNode) -> bool:
    """Whether it is made of rows picked by an index: ``x[0]`` may be a whole view of the batch."""
    return any(
        d.placement is Placement.ROWS for inner in walk(node) for d in script.value(inner).data
    )
