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
from ddpify.lint.scripts.left_to_launches import is_off_in_all
from ddpify.lint.scripts.repairs import before
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import UNKNOWN, Instance

_CLIPS = tuple(
    f"torch.nn.utils.{path}{name}"
    for path in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_")
) + tuple(
    f"timm.utils.{path}{name}"
    for path in ("", "clip_grad.", "agc.")
    for name in ("dispatch_clip_grad", "adaptive_clip_grad")
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
    clips = [*script.calls(*_CLIPS, everywhere=True), *_by_hand(script)]
    for call in clips:
        if call in script.structure.order and _in_no_sync(script, call):
            yield Finding(call, "each rank clips its own part of the gradient by its own norm")
            continue
        for place in _done_at(script, call):
            step = _scaled_step(script, place)
            if step is None or any(_may_come_first(script, one, place, call) for one in unscaling):
                continue
            yield Finding(
                place,
                "clips gradients that are still multiplied by the loss scale: every step is far too"
                " small",
                _fix(script, place, step),
                confidence=_confidence(script, step),
            )


def _by_hand(script: Script) -> Iterator[cst.Call]:
    """``p.grad.clamp_(-1, 1)``, also of its ``data``."""
    for call in script.method_calls("clamp_", "clip_", everywhere=True):
        assert isinstance(call.func, cst.Attribute)
        if any(isinstance(x, cst.Attribute) and x.attr.value == "grad" for x in walk(call.func)):
            yield call


def _done_at(script: Script, clip: cst.Call, depth: int = 2) -> Iterator[cst.Call]:
    """Where the file clips, itself or by a function of the project, in a function that steps."""
    structure = script.structure_of(clip)
    if structure is script.structure and _scaled_step(script, clip) is not None:
        yield clip
        return
    function = structure.function(clip)
    for site in script.control.callers(function) if function is not None and depth else ():
        if isinstance(site.node, cst.Call):
            yield from _done_at(script, site.node, depth - 1)


def _may_come_first(script: Script, unscale: cst.Call, place: cst.Call, clip: cst.Call) -> bool:
    """Whether gradients may be unscaled before they are clipped: not below it in its function."""
    structure = script.structure_of(unscale)
    if structure is not script.structure_of(place):
        return True
    function = structure.function(unscale)
    if function is script.structure_of(clip).function(clip) and clip is not place:
        return structure.order[unscale] < structure.order[clip]
    return function is not structure.function(place) or (
        structure.order[unscale] < structure.order[place]
    )


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
    steps = []
    for call in script.method_calls("step"):
        assert isinstance(call.func, cst.Attribute)
        held = script.instances(call.func.value)
        below = structure.order[call] > structure.order[clip]
        same = below and structure.function(call) is structure.function(clip)
        if same and held and all(map(_scales, held)):
            steps.append(call)
    ours = {(one.statement, one.positive) for one in script.control.guards(clip)}
    # A condition with a step in both of its branches excludes none.
    sides = {(g.statement, g.positive) for one in steps for g in script.control.guards(one)}
    for call in steps:
        theirs = {(one.statement, one.positive) for one in script.control.guards(call)} - ours
        if all((statement, not positive) in sides for statement, positive in theirs):
            return call
    return None


def _scales(one: Instance) -> bool:
    """Whether an object is a scaler that is not switched off for good."""
    if not isinstance(one.type, str) or not one.type.endswith("amp.GradScaler"):
        return False
    return one.arguments.get("enabled", UNKNOWN).constant() is not False


def _confidence(script: Script, step: cst.Call) -> Confidence:
    """An option may switch a scaler off, which no command and no configuration then switches on."""
    assert isinstance(step.func, cst.Attribute)
    scalers = script.instances(step.func.value)
    if scalers and all(_is_never_on(script, one) for one in scalers):
        return Confidence.POSSIBLE
    sure = all(
        "enabled" not in one.arguments or one.arguments["enabled"].constant() is True
        for one in scalers
    )
    return Confidence.CERTAIN if sure else Confidence.LIKELY


def _is_never_on(script: Script, scaler: Instance) -> bool:
    given = argument(scaler.site, "enabled") if isinstance(scaler.site, cst.Call) else None
    return given is not None and is_off_in_all(script, given.value)


def _fix(script: Script, clip: cst.Call, step: cst.Call) -> Fix | None:
    """Unscale just before the clipping."""
    given = argument(step, "optimizer", 0)
    if given is None or not isinstance(step.func, cst.Attribute):
        return None
    code = f"{code_of(step.func.value)}.unscale_({code_of(given.value)})"
    edit = before(script, clip, code)
    title = "unscale the gradients first"
    return Fix(title, (edit,), Applicability.UNSAFE) if edit is not None else None
