"""The last batches of an epoch fill no window, and go into the next epoch's first step.

## What it does
Looks for gradient accumulation in epochs whose step waits for every k-th batch, with nothing that
steps, or clears the gradients, at the end of an epoch.

## Why is this bad
Where the number of a rank's batches is no multiple of k, what is left over is added to the first
window of the next epoch, whose step is then too large, and lost after the last. With N ranks each
has N times fewer batches, so that a length that divided no longer does.

## Example
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
```
```python
def train_epoch():
    model.train()
    for i, (x, y) in enumerate(loader, 1):
        loss = criterion(model(x), y) / 8
        loss.backward()
        if i % 8 == 0:
            optimizer.step()
            model.zero_grad()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    train_epoch()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (step + 1) % 4 == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
```

## Also fine
Gradients that are cleared at the start of each epoch, a last step after it, and a count that goes
on through all epochs.
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    optimizer.zero_grad()
    for step, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
```
```python
step = 0
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        (criterion(model(x), y) / 4).backward()
        step += 1
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
```
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
```

## References
https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.gradient_accumulation import Window, condition, windows
from ddpify.lint.scripts.script import Script
from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import LENGTH

_ENDS = ("step", "zero_grad")


@rule(
    "accumulation-window",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Windows that an epoch's end cuts off."""
    if script.has_runtime:
        return  # its windows are those of one process
    for window in windows(script):
        epochs = [loop for loop in script.control.around(window.loop) if loop is not window.loop]
        counted = _counts_anew(script, window)
        if not script.wraps or not epochs or not counted or _knows_the_end(script, window):
            continue
        if not _ends_cleanly(script, window, epochs):
            yield Finding(
                window.guard.test,
                "batches that fill no window go into the next epoch's first step, or are lost",
            )


def _counts_anew(script: Script, window: Window) -> bool:
    """Whether the test is on an `enumerate` of this loop, over a loader."""
    loop = window.loop
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Tuple):
        return False
    if not isinstance(loop.iter, cst.Call) or not script.loaders_in(loop.iter):
        return False
    first = set(target_names(loop.target.elements[0].value))
    names = {
        node.value for node in walk(condition(script, window.guard)) if isinstance(node, cst.Name)
    }
    return "builtins.enumerate" in script.names(loop.iter.func) and bool(first & names)


def _knows_the_end(script: Script, window: Window) -> bool:
    """Whether the test also asks for the last batch."""
    test = condition(script, window.guard)
    return isinstance(test, cst.BooleanOperation) or LENGTH in script.flow.sources(
        test, script.owners[test]
    )


def _ends_cleanly(script: Script, window: Window, epochs: list[cst.For | cst.While]) -> bool:
    """Whether an epoch steps, or clears the gradients, outside the loop over batches."""
    inside = set(script.reached(window.loop))
    return any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in _ENDS
        and node not in inside
        and not _schedules(script, node)
        for epoch in epochs
        for node in script.reached(epoch.body)
    )


def _schedules(script: Script, call: cst.Call) -> bool:
    """Whether this is the step of a learning rate."""
    assert isinstance(call.func, cst.Attribute)
    held = script.instances(call.func.value)
    return bool(held) and all(
        isinstance(one.type, str) and "lr_scheduler" in one.type for one in held
    )
