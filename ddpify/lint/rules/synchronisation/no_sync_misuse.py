"""`no_sync()` covers half of a forward and backward pass.

## What it does
Looks for `with model.no_sync():` around the forward pass alone, around the backward pass alone, or
around the optimizer's step as well.

## Why is this bad
The wrapper decides in the forward pass whether the backward that follows is averaged. Around the
forward alone, the backward outside is not averaged although it looks so, and the ranks drift
apart. Around the backward alone, nothing is saved. With the step inside, each rank steps on its
own gradients.

## Example
```python
for x, y in loader:
    with model.no_sync():
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```
```python
for x, y in loader:
    loss = criterion(model(x), y)
    with model.no_sync():
        loss.backward()
```
```python
for x, y in loader:
    with model.no_sync():
        criterion(model(x), y).backward()
        optimizer.step()
```

## Use instead
```python
for step, (x, y) in enumerate(loader):
    last = (step + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        criterion(model(x), y).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
```

## Also fine
Two parts of one window, the last of them outside.
```python
for (x, y), (x2, y2) in zip(loader, loader):
    with model.no_sync():
        criterion(model(x), y).backward()
    criterion(model(x2), y2).backward()
    optimizer.step()
    optimizer.zero_grad()
```
```python
def step(x, y):
    criterion(model(x), y).backward()
for x, y in loader:
    with model.no_sync():
        step(x, y)
```

```python
for step, (x, y) in enumerate(loader):
    if (step + 1) % 4 == 0:
        loss = criterion(model(x), y)
    else:
        with model.no_sync():
            loss = criterion(model(x), y)
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.changing import may_change
from ddpify.lint.scripts.hand_averages import may_average_by_hand
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.wrapped_here import wrappers_here
from ddpify.understanding.libraries.distributed import DDP

_FORWARD = "the backward outside is not averaged: the wrapper decides that in the forward"
_BACKWARD = "saves nothing: the wrapper decided in the forward, outside, that this is averaged"
_ALL = "no backward is outside, where gradients are averaged: the ranks drift apart"
_STEP = "the optimizer steps on this rank's own gradients: the ranks drift apart"


@rule("no-sync-misuse", group="synchronisation", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Blocks without synchronisation that hold too little, or too much."""
    for block in script.structure.all(cst.With):
        for item in block.items:
            sometimes = isinstance(item.item, cst.IfExp)
            wrapper = _silenced(script, item.item)
            if wrapper is not None:
                message = _judge(script, block, wrapper, sometimes)
                if message is not None:
                    yield Finding(item, message)


def _silenced(script: Script, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The wrapper of ``wrapper.no_sync()``, also in ``nullcontext() if last else ...``."""
    if isinstance(node, cst.IfExp):
        return _silenced(script, node.body) or _silenced(script, node.orelse)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    if node.func.attr.value != "no_sync":
        return None
    wrappers = wrappers_here(script, node.func.value)
    return node.func.value if wrappers and all(one.type == DDP for one in wrappers) else None


def _judge(
    script: Script, block: cst.With, wrapper: cst.BaseExpression, sometimes: bool
) -> str | None:
    inside = list(script.reached(block.body))
    backward = any(node in script.facts.backwards for node in inside)
    forward = any(_runs(script, node, wrapper) for node in inside)
    in_window = any(may_change(script, guard.test, block) for guard in script.control.guards(block))
    if forward and not backward:
        meant = in_window or script.control.without_grad(block.body)
        return None if meant else _FORWARD  # under a condition: of all but the last of a window
    if backward and not forward:
        return _BACKWARD
    if sometimes or not backward:
        return None
    if any(_steps(script, node) for node in inside):
        return _STEP
    return _ALL if not in_window and _holds_all(script, block, inside) else None


def _holds_all(script: Script, block: cst.With, inside: list[cst.CSTNode]) -> bool:
    """Whether no backward is outside, a step follows, and nothing averages gradients otherwise."""
    if not script.facts.backwards.keys() <= {*inside} or may_average_by_hand(script):
        return False
    loops = script.control.around(block)
    return any(_steps(script, node) for loop in loops for node in script.reached(loop))


def _runs(script: Script, node: cst.CSTNode, wrapper: cst.BaseExpression) -> bool:
    """Whether a node calls the wrapper, or something unknown that may."""
    if not isinstance(node, cst.Call):
        return False
    held = script.value(node.func).atoms
    unknown = not held and isinstance(node.func, cst.Name)
    return unknown or any(atom in held for atom in script.value(wrapper).atoms)


def _steps(script: Script, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    optimizers = [one for one in script.instances(node.func.value) if one.role == "optimizer"]
    return node.func.attr.value == "step" and bool(optimizers)
