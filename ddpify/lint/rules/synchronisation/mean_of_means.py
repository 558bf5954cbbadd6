"""Ranks' means are averaged although they are over different counts.

## What it does
Looks for means over a count that depends on the data (valid tokens, masked samples), which are
added up over the ranks and divided by their number.

## Why is this bad
Each rank's mean weighs the same, whether it is over ten tokens or a thousand. The number that is
reported, or decided upon, is not the mean over all.

## Example
```python
hits = torch.zeros(1, device=device)
count = torch.zeros(1, device=device)
for x, y in loader:
    valid = y != 0
    hits += (model(x).argmax(1)[valid] == y[valid]).sum()
    count += valid.sum()
accuracy = hits / count
dist.all_reduce(accuracy)
accuracy /= world_size
```
```python
hits, count = 0, 0
for x, y in loader:
    valid = y != 0
    hits += (model(x).argmax(1)[valid] == y[valid]).sum().item()
    count += valid.sum().item()
accuracy = torch.tensor(hits / count, device=device)
dist.all_reduce(accuracy)
print(accuracy.item() / world_size)
```

## Use instead
```python
hits = torch.zeros(1, device=device)
count = torch.zeros(1, device=device)
for x, y in loader:
    valid = y != 0
    hits += (model(x).argmax(1)[valid] == y[valid]).sum()
    count += valid.sum()
dist.all_reduce(hits)
dist.all_reduce(count)
accuracy = hits / count
```

## Also fine
Counts that a `DistributedSampler` makes equal.
```python
hits = torch.zeros(1, device=device)
count = 0
for x, y in loader:
    hits += (model(x).argmax(1) == y).sum()
    count += y.size(0)
accuracy = hits / count
dist.all_reduce(accuracy)
accuracy /= world_size
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.divisions import divisions
from ddpify.lint.scripts.partial_reads import reduce_part
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.runtime_names import MEAN, SUM
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import LOCAL, TOTAL, WORLD


@rule(
    "mean-of-means",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Reductions of quotients whose denominators differ between ranks."""
    yield from _losses(script)
    yield from _mistaken(script)
    for call in script.calls("torch.distributed.all_reduce"):
        given = argument(call, "tensor", 0)
        if given is None:
            continue
        locations = script.flow.locations(given.value, script.module)
        if _is_quotient(script, locations) and _is_averaged(script, call, locations):
            yield Finding(
                call, "averages means over different counts: reduce the sum and the count instead"
            )


def _losses(script: Script) -> Iterator[Finding]:
    """Losses over parts of the batch, of which ddpify's runtime would weight each by its size."""
    dd = runtime(script) or "dd"
    for part in script.parts:
        if part.is_loss and part.remedy == "mean":
            yield Finding(
                part.node,
                "ranks' parts of a batch differ in size, and their gradients are averaged alike:"
                f" {dd}.mean() weights the loss",
                reduce_part(script.control, part),
            )


def _mistaken(script: Script) -> Iterator[Finding]:
    """Sums that ddpify's runtime is told to average, and means that it is told to add up."""
    dd = runtime(script) or "dd"
    for node, given in script.facts.reductions.reduced.items() if script.has_runtime else ():
        if script.owners.get(node) is not script.module or any(one.opaque for one in given):
            continue
        placements = {one.placement for one in given}
        names = script.names(node.func) if isinstance(node, cst.Call) else set()
        if names == {MEAN} and placements <= {Placement.SUM, Placement.COUNT}:
            yield Finding(node, f"averages sums over parts of the batch: {dd}.sum() adds them up")
        elif names == {SUM} and placements == {Placement.MEAN}:
            yield Finding(node, f"adds up means over parts of the batch: {dd}.mean() weights them")


def _is_quotient(script: Script, locations: set[Location]) -> bool:
    """Whether a value is divided by a count of this rank's own."""
    inside = {one for edge in script.flow.edges_into(locations) for one in walk(edge.node)}
    return any(
        node in inside
        and {LOCAL, TOTAL} & script.labels(bottom)
        and {LOCAL, TOTAL} & (script.labels(top) | _own(script, top))
        for node, top, bottom in divisions(script)
    )


def _own(script: Script, node: cst.BaseExpression) -> set[str]:
    """Labels of a name that is reduced later: what went into it."""
    return script.flow.sources(node, script.module)


def _is_averaged(script: Script, call: cst.Call, locations: set[Location]) -> bool:
    """Whether the sum over the ranks is divided by their number."""
    op = argument(call, "op", 1)
    if op is not None and "torch.distributed.ReduceOp.AVG" in script.names(op.value):
        return True
    return any(
        WORLD in script.labels(bottom) and script.flow.locations(top, script.module) & locations
        for _, top, bottom in divisions(script)
    )
