"""Two forwards of a wrapped model come before two separate backwards.

## What it does
Looks for two calls of one DistributedDataParallel object before the first of two `backward()`
calls on what comes out of them.

## Why is this bad
DDP prepares its reducer at each forward for one backward. The first backward uses it up, and the
gradients of the second are not averaged: ranks drift apart without an error.

## Example
```python
for x, y in loader:
    real = criterion(model(x), y)
    fake = criterion(model(x + 1), y)
    real.backward()
    fake.backward()
    optimizer.step()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        real = criterion(model(x), y)
        fake = criterion(model(x + 1), y)
        (real + fake).backward()
        optimizer.step()
```

## Also fine
```python
for x, y in loader:
    real = criterion(model(x), y)
    real.backward()
    fake = criterion(model(x + 1), y)
    fake.backward()
    optimizer.step()
```
```python
for x, y in loader:
    real = criterion(model(x), y)
    with torch.no_grad():
        other = criterion(model(x + 1), y)
    real.backward()
    optimizer.step()
```

## When not to follow it
Inside `no_sync()`, but for the last forward and backward.

## References
https://github.com/pytorch/pytorch/issues/47260
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk_here
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Instance


@rule(
    "forwards-then-separate-backwards",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """F F B B on one wrapper within one step."""
    for loop in script.structure.all(cst.For, cst.While):
        step = _step(script, loop)
        for wrapper in _wrappers(script, step):
            found = _unaveraged(script, wrapper, step)
            if found is not None:
                yield Finding(
                    found,
                    "the second backward after two forwards of one wrapped model: its gradients are"
                    " not averaged",
                )


def _step(script: Script, loop: cst.For | cst.While) -> list[cst.Call]:
    """The calls of one round, in order; only what surely runs one after another."""
    found = []
    for node in walk_here(loop.body):
        if not isinstance(node, cst.Call) or script.structure.loops(node)[:1] != [loop]:
            continue
        guards = _inner(script, node, loop)
        if not any(isinstance(g.statement, cst.If) and not g.left_early for g in guards):
            found.append(node)
    if sum(node in script.facts.backwards for node in found) < 2:
        return []
    return sorted(found, key=lambda n: script.positions.offsets(n)[1])


def _inner(script: Script, node: cst.CSTNode, loop: cst.CSTNode):  # type: ignore[no-untyped-def]
    order = script.structure.order
    return [g for g in script.control.guards(node) if order[g.statement] > order[loop]]


def _wrappers(script: Script, step: list[cst.Call]) -> list[Instance]:
    found: dict[Instance, None] = {}
    for call in step:
        if script.is_ddp(call.func) and len(script.instances(call.func)) == 1:
            found[script.instances(call.func)[0]] = None
    return list(found)


def _unaveraged(script: Script, wrapper: Instance, step: list[cst.Call]) -> cst.Call | None:
    pending: list[tuple[cst.Call, set[Location]]] = []
    two_waiting: list[tuple[cst.Call, set[Location]]] | None = None
    used: set[cst.Call] = set()
    for call in step:
        if script.instances(call.func) == [wrapper] and script.is_ddp(call.func):
            if not script.control.without_grad(call) and not _under_no_sync(script, call):
                pending.append((call, _made_of(script, call)))
        elif call in script.facts.backwards and isinstance(call.func, cst.Attribute):
            read = script.flow.locations(call.func.value, script.module)
            sources = {c for c, locations in pending if locations & read}
            if two_waiting is not None and sources and not sources & used and len(sources) == 1:
                return call
            if two_waiting is None and len(pending) >= 2 and len(sources) == 1:
                two_waiting, used = list(pending), sources
            else:
                pending = [(c, s) for c, s in pending if c not in sources]
    return None


def _made_of(script: Script, call: cst.Call) -> set[Location]:
    """All names that are made of a call's result, those that several calls set left out."""
    starts: set[Location] = set()
    for above in script.structure.up(call):
        starts |= {s for m in script.flow.edges if m.node is above for s in m.targets}
        if isinstance(above, cst.BaseStatement):
            break
    return script.flow.derived(starts)


def _under_no_sync(script: Script, call: cst.Call) -> bool:
    return any(
        isinstance(above, cst.With) and "no_sync" in script.code(above.items[0].item, 200)
        for above in script.structure.up(call)
    )
