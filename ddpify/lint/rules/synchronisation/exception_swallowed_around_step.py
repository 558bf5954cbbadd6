"""A rank that fails in a step goes on with the next, and the others wait for it.

## What it does
Looks for `try` around a backward pass of a wrapped model, or an optimizer's step, whose handler
neither raises nor ends the process.

## Why is this bad
The rank that caught the error skips its part of the all-reduce. The others wait for it, or pair
it with the next step's.

## Example
```python
for x, y in loader:
    try:
        criterion(model(x), y).backward()
        optimizer.step()
    except RuntimeError:
        torch.cuda.empty_cache()
        continue
```

A function that makes one step goes on where it returns.
```python
def train_step(x, y):
    try:
        criterion(model(x), y).backward()
        optimizer.step()
    except RuntimeError as error:
        if "out of memory" in str(error):
            return None
        raise
for x, y in loader:
    train_step(x, y)
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
```

## Also fine
```python
for x, y in loader:
    try:
        criterion(model(x), y).backward()
    except RuntimeError:
        print("failed at", x.shape)
        raise
try:
    for x, y in loader:
        criterion(model(x), y).backward()
except KeyboardInterrupt:
    print("stopped")
```

What rank 0 trains by itself.
```python
def probe():
    small = Net()
    adam = torch.optim.Adam(small.parameters())
    for x, y in DataLoader(dataset, 32):
        criterion(small(x), y).backward()
        adam.step()

for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        try:
            probe()
        except RuntimeError as error:
            print(error)
```
A handler that makes the backward pass itself.
```python
for x, y in loader:
    loss = criterion(model(x), y)
    try:
        loss.backward()
    except RuntimeError:
        loss.mean().backward()
    optimizer.step()
```

## References
https://docs.pytorch.org/docs/stable/elastic/errors.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.hand_averages import steps_together
from ddpify.lint.scripts.handlers import catches, stops, suppresses
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.updates import updated
from ddpify.lint.scripts.ways_out import leaves_out_steps
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import LOCAL

_WAIT = "a rank that fails here goes on alone: the others wait for its gradients"
_DRIFT = "a rank that fails here goes on without the step of the others: the models drift apart"


@rule(
    "exception-swallowed-around-step",
    group="synchronisation",
    severity=Severity.HANG,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Handlers inside training loops that let a rank go on alone."""
    if not steps_together(script):
        return
    for attempt in script.structure.all(cst.Try, cst.With):
        loops = script.control.around(attempt)
        if not any(script.trains(one) and _steps(script, one) for one in loops):
            continue
        if script.control.rank_guards(attempt):
            continue  # no other rank is in this step
        if not (_is_of_a_step(script, attempt.body) or _is_about_batch(script, attempt.body)):
            continue
        trains, updates = script.trains(attempt.body), _updates(script, attempt.body)
        sure = Confidence.LIKELY if _averages(script, loops[0]) else Confidence.POSSIBLE
        for handler in _swallowing(script, attempt):
            if trains or updates or _leaves_out_steps(script, handler):
                drifts = updates and not trains
                yield Finding(handler, _DRIFT if drifts else _WAIT, confidence=sure)


def _swallowing(script: Script, attempt: cst.Try | cst.With) -> Iterator[cst.CSTNode]:
    """The handlers behind which a rank goes on; ``contextlib.suppress()`` has none."""
    if isinstance(attempt, cst.With):
        yield from (one.item for one in attempt.items if suppresses(script, one.item))
        return
    for handler in attempt.handlers:
        if catches(handler) and not stops(script, attempt, handler):
            yield handler


def _is_of_a_step(script: Script, body: cst.CSTNode) -> bool:
    return script.trains(body) or _forwards(script, body) or _updates(script, body)


def _is_about_batch(script: Script, body: cst.CSTNode) -> bool:
    """Whether a block makes something of a rank's own samples, which may fail on it alone."""
    return any(
        isinstance(one, cst.Call) and any(LOCAL in script.labels(x.value) for x in one.args)
        for one in walk(body)
    )


def _leaves_out_steps(script: Script, handler: cst.CSTNode) -> bool:
    return any(
        isinstance(one, cst.Continue) and leaves_out_steps(script, one) for one in walk(handler)
    )


def _updates(script: Script, body: cst.CSTNode) -> bool:
    """Whether a block makes an optimizer's step, after a ``backward()`` outside of it."""
    return any(
        isinstance(one, cst.Call) and "optimizer" in updated(script, one) for one in walk(body)
    )


def _forwards(script: Script, body: cst.CSTNode) -> bool:
    """Whether a block calls a wrapped model with a graph, whose ``backward()`` comes later."""
    return any(
        isinstance(one, cst.Call)
        and script.is_wrapped(one.func)
        and not script.control.without_grad(one)
        for one in walk(body)
    )


def _averages(script: Script, loop: cst.For | cst.While) -> bool:
    """Whether a loop calls a wrapped model: the gradients of another one are a rank's own."""
    return any(
        isinstance(one, cst.Call)
        and (script.is_wrapped(one.func) or script.may_be_wrapped(one.func))
        for one in script.reached(loop.body)
    )


def _steps(script: Script, loop: cst.CSTNode) -> bool:
    """Whether a loop takes optimizer steps: other backward passes measure something."""
    return any(
        isinstance(one, cst.Call)
        and isinstance(one.func, cst.Attribute)
        and one.func.attr.value == "step"
        for one in script.reached(loop)
    )
