"""Only some ranks update what all must keep equal.

## What it does
Looks for `optimizer.step()`, `scaler.step(optimizer)`, `zero_grad()`, `scheduler.step()` and
`scaler.update()` under a condition on the rank, also in a function that only some ranks call, and
for gradients that only some ranks clip.

## Why is this bad
The ranks' parameters, learning rates or loss scales become different: they average gradients of
different models, without an error.

## Example
```python
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        schedule.step()
```

```python
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    if rank == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
```

## Use instead
```python
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    schedule.step()
```

## Also fine
An average of the weights that only rank 0 keeps, for its evaluation.
```python
average = torch.optim.swa_utils.AveragedModel(net)
if rank == 0:
    average.update_parameters(net)
```

## References
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.updates import updated

_UPDATES = ("step", "zero_grad", "update")
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


@rule(
    "rank-conditional-update",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Updates that not all ranks make."""
    backwards = [node for node in script.facts.backwards if node in script.owners]
    if backwards and all(map(script.control.on_some_ranks, backwards)):
        return  # the others do not train at all, so that the wrapper waits for them
    steps = {call: updated(script, call) for call in script.method_calls(*_UPDATES)}
    clips = {call: {"gradients"} for call in script.calls(*_CLIPS)}
    for call, kinds in {**steps, **clips}.items():
        if not kinds or not script.wraps or not _is_left_out(script, call):
            continue
        if _both_branches(script, call):
            continue
        yield Finding(
            call,
            f"only some ranks update the {min(kinds)}: the ranks' models drift apart",
        )


def _is_left_out(script: Script, call: cst.Call) -> bool:
    """Whether some ranks do not reach a call, here or where its function is called.

    What a function of rank 0 makes for itself, as a probe, is no other rank's.
    """
    if script.control.rank_guards(call):
        return True
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    made = [one.site for one in script.instances(owner)]
    return script.control.on_some_ranks(call) and not any(map(script.control.on_some_ranks, made))


def _both_branches(script: Script, call: cst.Call) -> bool:
    """Whether the other ranks do the same in their branch."""
    text = script.code(call, 500)
    for guard in script.control.rank_guards(call):
        if isinstance(guard.statement, cst.If):
            other = guard.statement.orelse if guard.positive else guard.statement.body
            calls = script.structure.inside(other, cst.Call) if other is not None else ()
            if any(script.code(one, 500) == text for one in calls):
                return True
    return False
