"""Gradients are clipped while they are scaled, or before they are averaged.

## What it does
Looks for `clip_grad_norm_` between `scaler.scale(loss).backward()` and `scaler.step(optimizer)`
without `scaler.unscale_(optimizer)`, and for clipping inside `no_sync()`.

## Why is this bad
The scaled gradients are some 65536 times too large: clipping by norm 1 makes every step tiny, and
the size depends on the scale, not on the gradient. Inside `no_sync()` each rank clips its own part
by its own norm.

## Example
```python
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```
```python single
scaler = torch.cuda.amp.GradScaler()
def update(x, y):
    scaler.scale(criterion(model(x), y)).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
for x, y in loader:
    update(x, y)
```
```python
for x, y in loader:
    with model.no_sync():
        criterion(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```

## Also fine
Clipping where nothing is scaled.
```python
for x, y in loader:
    criterion(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
```
```python
scaler = torch.amp.GradScaler("cuda", enabled=False)
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```
```python
scaler = torch.amp.GradScaler("cuda")
def finish():
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    finish()
```

## Fix safety
Unsafe: it makes the steps larger, as they are meant to be.

## References
https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import before
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import UNKNOWN, Instance

_CLIPS = tuple(
    f"torch.nn.utils.{path}{name}"
    for path in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_")
)


@rule(
    "clip-before-unscale-or-in-no-sync",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="single distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Clipping at the wrong moment."""
    unscaling = list(script.method_calls("unscale_", "unscale", everywhere=True))
    for call in script.calls(*_CLIPS):
        if _in_no_sync(script, call):
            yield Finding(call, "each rank clips its own part of the gradient by its own norm")
            continue
        step = _scaled_step(script, call)
        if any(_may_come_first(script, one, call) for one in unscaling):
            continue
        if step is not None:
            yield Finding(
                call,
                "clips gradients that are still multiplied by the loss scale: every step is far too"
                " small",
                _fix(script, call, step),
                confidence=_confidence(script, step),
            )


def _may_come_first(script: Script, unscale: cst.Call, clip: cst.Call) -> bool:
    """Whether gradients may be unscaled before they are clipped: not below it in its function."""
    structure = script.structure_of(unscale)
    if structure is not script.structure_of(clip):
        return True
    same = structure.function(unscale) is structure.function(clip)
    return not same or structure.order[unscale] < structure.order[clip]


def _in_no_sync(script: Script, call: cst.Call) -> bool:
    return any(
        isinstance(above, cst.With)
        and isinstance(item.item, cst.Call)
        and isinstance(item.item.func, cst.Attribute)
        and item.item.func.attr.value == "no_sync"
        and script.is_ddp(item.item.func.value)
        for above in script.structure.up(call)
        for item in (above.items if isinstance(above, cst.With) else ())
    )


def _scaled_step(script: Script, clip: cst.Call) -> cst.Call | None:
    """The step of a scaler below the clipping, in the same function, on the same paths."""
    structure = script.structure
    for call in script.method_calls("step"):
        assert isinstance(call.func, cst.Attribute)
        held = script.instances(call.func.value)
        below = structure.order[call] > structure.order[clip]
        if not below or structure.function(call) is not structure.function(clip):
            continue
        if held and all(map(_scales, held)) and _same_paths(script, clip, call):
            return call
    return None


def _scales(one: Instance) -> bool:
    """Whether an object is a scaler that is not switched off for good."""
    if not isinstance(one.type, str) or not one.type.endswith("amp.GradScaler"):
        return False
    return one.arguments.get("enabled", UNKNOWN).constant() is not False


def _confidence(script: Script, step: cst.Call) -> Confidence:
    """An option may switch a scaler off."""
    assert isinstance(step.func, cst.Attribute)
    sure = all(
        "enabled" not in one.arguments or one.arguments["enabled"].constant() is True
        for one in script.instances(step.func.value)
    )
    return Confidence.CERTAIN if sure else Confidence.LIKELY


def _same_paths(script: Script, clip: cst.Call, step: cst.Call) -> bool:
    """Whether the step follows wherever the clipping is done, on this branch of each condition."""
    ours = {(g.statement, g.positive) for g in script.control.guards(clip)}
    return all((g.statement, g.positive) in ours for g in script.control.guards(step))


def _fix(script: Script, clip: cst.Call, step: cst.Call) -> Fix | None:
    """Unscale just before the clipping."""
    given = argument(step, "optimizer", 0)
    if given is None or not isinstance(step.func, cst.Attribute):
        return None
    code = f"{code_of(step.func.value)}.unscale_({code_of(given.value)})"
    edit = before(script, clip, code)
    title = "unscale the gradients first"
    return Fix(title, (edit,), Applicability.UNSAFE) if edit is not None else None
