"""The model is wrapped anew in each step.

## What it does
Looks for DistributedDataParallel made inside the loop that trains, around a model from outside it.

## Why is this bad
Every wrapper adds hooks to the same parameters, sends all of them from rank 0 and allocates new
buffers: memory and time grow with each step, and gradients may be averaged several times.

## Example
```python
for x, y in loader:
    wrapped = DDP(net, device_ids=[local_rank])
    criterion(wrapped(x), y).backward()
    optimizer.step()
```
```python
def loss_of(x, y):
    return criterion(DDP(net)(x), y)

for x, y in loader:
    loss_of(x, y).backward()
    optimizer.step()
```

## Use instead
```python
wrapped = DDP(net, device_ids=[local_rank])
for x, y in loader:
    criterion(wrapped(x), y).backward()
    optimizer.step()
```

## Also fine
A new model each time, as in cross-validation, and a wrap after layers were unfrozen.
```python
for fold in range(5):
    fresh = Net().to(device)
    wrapped = DDP(fresh, device_ids=[local_rank])
    for x, y in loader:
        criterion(wrapped(x), y).backward()
        optimizer.step()
```
```python
wrapped = DDP(net, device_ids=[local_rank])
for epoch in range(epochs):
    if epoch == 5:
        net.requires_grad_(True)
        wrapped = DDP(net, device_ids=[local_rank])
    for x, y in loader:
        criterion(wrapped(x), y).backward()
        optimizer.step()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.structure import walk


@rule("rewrapped-per-step", group="wrapping", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Wrappers in the loops right around a backward pass."""
    innermost = {
        loops[0]
        for node in script.facts.backwards
        if (loops := script.structure_of(node).loops(node))
    }
    for wrap in script.wraps:
        if wrap.site.module is not script.module or script.control.guards(wrap.call):
            continue
        loops = [loop for loop in script.control.around(wrap.call) if loop in innermost]
        if loops and all(_from_outside(script, wrap, loop) for loop in loops):
            yield Finding(
                wrap.call,
                "wraps in every step: wrap the whole model once, before the loop"
                if wrap.in_place
                else "wraps the same model in every step: hooks and memory pile up",
            )


def _from_outside(script: Script, wrap: Wrap, loop: cst.CSTNode) -> bool:
    """Whether what is wrapped surely was made before the loop."""
    inside = set(walk(loop))
    return bool(wrap.held) and not any(one.site in inside for one in wrap.held)
