"""Each rank sets its learning rate by its own metric.

## What it does
Looks for `ReduceLROnPlateau.step(metric)` and for learning rates that are set by hand or given to
an optimizer, with a value that only this rank has seen, or the rank itself; also for what else an
optimizer or a scheduler is made with by the rank.

## Why is this bad
Ranks see different numbers, lower the rate at different steps, and then step differently with
equal gradients: the models drift apart without an error.

## Example
```python
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
total = 0.0
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    total += loss.item()
plateau.step(total)
```

```python
own = torch.optim.SGD(model.parameters(), lr=0.1 * (rank + 1))
for x, y in loader:
    criterion(model(x), y).backward()
    own.step()
```

```python
settings = {"lr": 0.1 / (rank + 1), "momentum": 0.9}
own = torch.optim.SGD(model.parameters(), **settings)
scheduler = torch.optim.lr_scheduler.StepLR(own, 1, gamma=0.9)
```

```python
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9 ** (epoch + rank))
```

## Use instead
```python
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
total = torch.zeros(1, device=device)
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    total += loss.detach()
dist.all_reduce(total)
plateau.step(total.item() / world_size)
```

## Also fine
```python
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
whole = DataLoader(dataset, 32)
score = 0.0
for x, y in whole:
    score += criterion(model(x), y).item()
plateau.step(score)
```
```python
own = torch.optim.SGD(model.parameters(), lr=0.1 * world_size)
scheduler = torch.optim.lr_scheduler.LambdaLR(own, lambda epoch: min(1, epoch / world_size))
```

## References
https://github.com/lucidrains/DALLE-pytorch/issues/268
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.hand_averages import steps_together
from ddpify.lint.scripts.rates import is_rate
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.told_steps import told_numbers
from ddpify.lint.scripts.unsharded_totals import is_own
from ddpify.lint.scripts.updates import updated
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK


@rule(
    "rank-local-learning-rate",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Learning rates that follow a rank's own numbers."""
    text = "each rank sets its learning rate by its own {}: the models drift apart"
    for call in script.method_calls("step"):
        assert isinstance(call.func, cst.Attribute)
        plateau = any(
            one.kind.endswith("ReduceLROnPlateau") for one in script.instances(call.func.value)
        )
        if plateau and call.args and is_own(script, call.args[0].value):
            yield Finding(call.args[0], text.format(script.code(call.args[0].value, 40)))
        for rate in _told_by_rank(script, call):
            yield Finding(rate, text.format(script.code(rate, 40)))
    for rate in told_numbers(script) if steps_together(script) else ():
        if script.labels(rate) & ANY_RANK:
            yield Finding(rate, text.format(script.code(rate, 40)))
    for assign in script.structure.all(cst.Assign, cst.AugAssign):
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else assign.target
        if is_rate(script, target) and (
            _is_own_but_for_group(script, target, assign.value)
            or (steps_together(script) and script.labels(assign.value) & ANY_RANK)
        ):
            yield Finding(assign.value, text.format(script.code(assign.value, 40)))


def _told_by_rank(script: Script, call: cst.Call) -> list[cst.BaseExpression]:
    """The numbers with its rank in them by which a rank steps a schedule: ``plan.step(rank)``."""
    given = [one.value for one in call.args if script.labels(one.value) & ANY_RANK]
    stepped = bool(given) and "learning rate" in updated(script, call)
    return given if stepped and steps_together(script) else []


def _is_own_but_for_group(
    script: Script, target: cst.BaseAssignTargetExpression, node: cst.BaseExpression
) -> bool:
    """Whether a rank's own number goes in, other than by an entry of the same group.

    ``group["lr"] = rates[i] * group["base_lr"]``: what a group holds is not told apart.
    """
    group = code_of(cst.ensure_type(target, cst.Subscript).value)
    parts = [
        one
        for one in walk(node)
        if isinstance(one, (cst.Name, cst.Attribute, cst.Call))
        and not any(isinstance(x, cst.Name) and x.value == group for x in walk(one))
    ]
    return is_own(script, node) and any(is_own(script, one) for one in parts)
