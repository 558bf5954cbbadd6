"""A rank's own sum is divided by the length of all of the data.

## What it does
Looks for a total over a loader that is split among the ranks, divided by `len(loader.dataset)`.

## Why is this bad
Each rank adds up its part only: with N ranks the result is about an Nth of the true value, and
what is printed as accuracy or loss is wrong.

## Example
```python
correct = 0
for x, y in loader:
    correct += (model(x).argmax(1) == y).sum().item()
accuracy = correct / len(loader.dataset)
```

## Use instead
```python
correct = torch.zeros(1, device=device)
for x, y in loader:
    correct += (model(x).argmax(1) == y).sum()
dist.all_reduce(correct)
accuracy = correct.item() / len(loader.dataset)
```

## Also fine
Every rank goes through all of the data.
```python
whole = DataLoader(dataset, 32)
correct = 0
for x, y in whole:
    correct += (model(x).argmax(1) == y).sum().item()
accuracy = correct / len(whole.dataset)
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
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unseen_code import UnseenCode
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.sources import LENGTH, TOTAL, WORLD
from ddpify.understanding.values import UNKNOWN


@rule(
    "len-dataset-as-local-denominator",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Divisions of a rank's own total by the length of the data set."""
    unseen = UnseenCode(script)
    for node, top, bottom in divisions(script):
        if TOTAL not in script.labels(top) or _is_summed_then(script, node):
            continue
        if unseen.may_be_reduced(top) and not script.strict:
            continue
        if _is_scaled_up(script, node):
            continue
        if _is_whole_length(script, bottom):
            yield Finding(
                node,
                f"{script.code(top, 30)} counts this rank's part only, {script.code(bottom, 40)}"
                " all of the data: the result is too small",
            )


def _is_scaled_up(script: Script, node: cst.CSTNode) -> bool:
    """``total / len(dataset) * world_size``: a mean over what this rank has seen."""
    for above in script.structure.up(node):
        if not isinstance(above, cst.BinaryOperation):
            return False
        if isinstance(above.operator, cst.Multiply) and any(
            WORLD in script.labels(side) for side in (above.left, above.right)
        ):
            return True
    return False


def _is_summed_then(script: Script, node: cst.CSTNode) -> bool:
    """Whether a collective gets the quotient: the sum of all ranks' is right."""
    for above in script.structure.up(node):
        if any({*edge.targets} & script.flow.sanitized for edge in script.flow.edges_at(above)):
            return True
        if isinstance(above, cst.BaseStatement):
            break
    return False


def _is_whole_length(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is the length of a split loader's data set, or a name for it."""
    if any(_means_whole(script, one) for one in script.flow.made_of.of(node, script.module)):
        return True
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    locations = script.flow.locations(node, script.module)
    sources = [m.source for m in script.flow.edges if locations & set(m.targets)]
    return bool(sources) and all(any(_means_whole(script, d) for d in s) for s in sources)


def _means_whole(script: Script, one: Dependency) -> bool:
    if one.label != LENGTH or one.node is None:
        return False
    if isinstance(one.node, cst.Attribute) and one.node.attr.value == "dataset":
        loaders = script.loaders_in(one.node.value)
        return bool(loaders) and all(script.is_sharded(loader) for loader in loaders)
    held = script.value(one.node).atoms
    sharded = [x for x in script.facts.loaders if script.is_sharded(x)]
    return any(a in x.arguments.get("dataset", UNKNOWN).atoms for x in sharded for a in held)
