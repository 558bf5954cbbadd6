"""Gradients are sent after every micro-batch of a window.

## What it does
Looks for gradient accumulation (several backward passes for one step of the optimizer) under
DistributedDataParallel without `no_sync()`.

## Why is this bad
The wrapper averages the gradients over all ranks in each backward pass. Only the last one of a
window needs it: the others cost time, and change nothing in the result.

## Example
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```
```python
def update(step):
    if step % 8 == 7:
        optimizer.step()
        optimizer.zero_grad()

for step, (x, y) in enumerate(loader):
    (criterion(model(x), y) / 8).backward()
    update(step)
```

## Use instead
```python
for step, (x, y) in enumerate(loader):
    last = (step + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (criterion(model(x), y) / 4).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
```

## Also fine
A step for each backward, logging now and then, and the switch that `no_sync` sets.
```python
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    if step % 10 == 0:
        print(step)
```
```python
for step, (x, y) in enumerate(loader):
    model.require_backward_grad_sync = (step + 1) % 4 == 0
    (criterion(model(x), y) / 4).backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

## When not to follow it
Where memory is short: under `no_sync` some set-ups keep a second copy of the gradients.

## Fix safety
Unsafe: other code of the loop may need gradients that are averaged in each round. Offered where the
loop can tell at its head whether this round steps.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.gradient_accumulation import Window, condition, windows
from ddpify.lint.scripts.repairs import at_head_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of

_SWITCHES = ("no_sync", "require_backward_grad_sync", "set_requires_gradient_sync",
             "no_backward_sync")  # fmt: skip


@rule(
    "accumulation-without-no-sync",
    group="performance",
    severity=Severity.SLOW,
    applies="converted distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Windows whose every backward is averaged."""
    if not any(wrap.wrapper.type == DDP for wrap in script.wraps):
        return
    if any(word in file.source.text for file in script.project.files for word in _SWITCHES):
        return
    for window in windows(script):
        yield Finding(
            window.backward,
            "gradients go over the network in each backward; only the last before the step needs"
            " that: use no_sync() for the others",
            _fix(script, window),
            confidence=_certainty(script, window),
        )


def _certainty(script: Script, window: Window) -> Confidence:
    """A window may have a length of 1, by its default or by a configuration that is not seen."""
    lengths = [
        one.right
        for one in walk(condition(script, window.guard))
        if isinstance(one, cst.BinaryOperation) and isinstance(one.operator, cst.Modulo)
    ]
    unsure = any(_may_be_one(script, node) for node in lengths)
    return Confidence.POSSIBLE if unsure else Confidence.CERTAIN


def _may_be_one(script: Script, node: cst.BaseExpression, depth: int = 4) -> bool:
    """``1``, what nothing in sight sets to anything else, or what a file gives: ``cfg.train.k``."""
    if isinstance(node, cst.Integer):
        return int(node.evaluated_value) == 1
    if isinstance(node, cst.Subscript):
        return script.value(node).constant() is ...
    if not isinstance(node, (cst.Name, cst.Attribute)) or depth == 0:
        return False
    edges = script.flow.edges_into(script.control.locations(node))
    if not edges:
        return isinstance(node, cst.Attribute) and script.value(node).constant() is ...
    return all(one.value is not None and _may_be_one(script, one.value, depth - 1) for one in edges)


def _fix(script: Script, window: Window) -> Fix | None:
    """Set the switch of ``no_sync()`` at the head of the round, by the test for the step."""
    test = condition(script, window.guard)
    models = {
        code_of(one.func)
        for one in script.structure.inside(window.loop.body, cst.Call)
        if script.is_ddp(one.func)
    }
    if len(models) != 1 or script.structure.loops(window.guard.statement)[:1] != [window.loop]:
        return None
    if _changes(window) & {one.value for one in walk(test) if isinstance(one, cst.Name)}:
        return None
    if any(isinstance(one, cst.NamedExpr) for one in walk(test)):
        return None
    line = f"{models.pop()}.require_backward_grad_sync = {code_of(test)}"
    edit = at_head_of(script, window.loop.body, line)
    title = "average the gradients in the last round of a window alone"
    return Fix(title, (edit,), Applicability.UNSAFE) if edit is not None else None


def _changes(window: Window) -> set[str]:
    """The names that a round sets: at its head, they still hold what the last one left."""
    targets: list[cst.BaseExpression] = []
    for node in walk(window.loop.body):
        if isinstance(node, cst.Assign):
            targets += [one.target for one in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For)):
            targets.append(node.target)
    return {one.value for target in targets for one in walk(target) if isinstance(one, cst.Name)}
