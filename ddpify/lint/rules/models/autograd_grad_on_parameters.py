"""Gradients are taken past the wrapper.

## What it does
Looks for `torch.autograd.grad` with respect to the parameters of a wrapped model.

## Why is this bad
DistributedDataParallel averages gradients in hooks that `backward()` runs. `autograd.grad` runs
none: each rank gets the gradient of its own samples, and steps by it.

## Example
```python
for x, y in loader:
    loss = criterion(model(x), y)
    gradients = torch.autograd.grad(loss, model.parameters())
    for p, g in zip(model.parameters(), gradients):
        p.data.sub_(0.1 * g)
```
```python
weights = list(model.parameters())
def step(x, y):
    return torch.autograd.grad(criterion(model(x), y), weights)
for x, y in loader:
    step(x, y)
```

## Use instead
```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
Gradients with respect to the input, and gradients that are averaged by hand.
```python
for x, y in loader:
    x.requires_grad_()
    slope, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (criterion(model(x), y) + slope.norm()).backward()
```
```python
for x, y in loader:
    gradients = torch.autograd.grad(criterion(model(x), y), model.parameters())
    for g in gradients:
        dist.all_reduce(g)
```

## When not to follow it
In inner loops that each rank is meant to run for itself, as in meta-learning.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP, REDUCING
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Params, deep_atoms


@rule(
    "autograd-grad-on-parameters",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Gradients of wrapped parameters that nothing reduces."""
    if script.uses(*REDUCING):
        return
    wrapped = {
        model for w in script.wraps if w.wrapper.type == DDP for model in (w.wrapper, *w.held)
    }
    for call in script.calls("torch.autograd.grad"):
        given = argument(call, "inputs", 1)
        held = script.value(given.value) if given is not None else None
        owners = [a.owner for a in deep_atoms(held) if isinstance(a, Params)] if held else []
        if owners and wrapped.issuperset(owners):
            yield Finding(call, "takes this rank's own gradient: autograd.grad averages nothing")
