"""Parameters are frozen or unfrozen after DistributedDataParallel wrapped them.

## What it does
Looks for `requires_grad` set on parameters of a model after its wrap, when it is not wrapped
anew afterwards.

## Why is this bad
DDP looks at `requires_grad` once, when it is made. What is unfrozen later is never averaged, so
ranks drift apart without an error; what is frozen later fails at the next step, since DDP waits
for its gradient.

## Example
```python
base = Net().to(device)
for name, p in base.named_parameters():
    if name.startswith("l1"):
        p.requires_grad = False
ddp = DDP(base, device_ids=[local_rank])
tuned = torch.optim.SGD(ddp.parameters(), lr=0.1)
for epoch in range(epochs):
    if epoch == 5:
        for p in base.parameters():
            p.requires_grad = True
    for x, y in loader:
        criterion(ddp(x), y).backward()
```

A package makes the optimizer.
```python
from timm.optim import create_optimizer_v2
base = Net().to(device)
for p in base.parameters():
    p.requires_grad = False
ddp = DDP(base, device_ids=[local_rank])
tuned = create_optimizer_v2(base, opt="sgd", lr=0.1)
for p in base.parameters():
    p.requires_grad = True
for x, y in loader:
    criterion(ddp(x), y).backward()
```

Either of two wrappers, as an option says.
```python
base = Net().to(device)
for p in base.l1.parameters():
    p.requires_grad = False
if args.gpu is not None:
    base = DDP(base, device_ids=[local_rank])
    for p in base.parameters():
        p.requires_grad = True
else:
    base = DDP(base)
tuned = torch.optim.SGD(base.parameters(), lr=0.1)
for x, y in loader:
    criterion(base(x), y).backward()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    if epoch == 5:
        for p in net.parameters():
            p.requires_grad = True
        model = DDP(net, device_ids=[local_rank])
    for x, y in loader:
        criterion(model(x), y).backward()
```

## Also fine
Freezing before the wrap, freezing where the wrapper may look for unused parameters, switching on
what nothing has switched off, and switching off and on again around a step of another network.
```python
base = Net().to(device)
for p in base.l1.parameters():
    p.requires_grad = False
ddp = DDP(base, device_ids=[local_rank])
```
```python
base = Net().to(device)
if args.gpu is not None:
    ddp = DDP(base, device_ids=[local_rank], find_unused_parameters=True)
else:
    ddp = DDP(base)
for p in base.l1.parameters():
    p.requires_grad = False
tuned = torch.optim.SGD(ddp.parameters(), lr=0.1)
for x, y in loader:
    criterion(ddp(x), y).backward()
```
```python
for x, y in loader:
    for p in model.parameters():
        p.requires_grad = False
    for p in model.parameters():
        p.requires_grad = True
    criterion(model(x), y).backward()
```

## References
https://github.com/Lightning-AI/pytorch-lightning/issues/20340
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.after_wrap import events_after, training_follows
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import UNKNOWN

_QUESTIONS = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)  # such as `epoch > 3`


@rule(
    "requires-grad-changed-after-wrap",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Changes of requires_grad after the wrap."""
    for wrap in script.wraps:
        if wrap.wrapper.type != DDP or not _is_optimised(script, wrap):
            continue
        changes = [n for n in events_after(script, wrap, "change") if _direction(n, script)]
        if not changes or _switches(script, changes) or _change_nothing(script, changes):
            continue
        node = min(changes, key=lambda one: _direction(one, script) != "False")
        if _direction(node, script) == "False" and _may_look_for_unused(script, wrap):
            continue  # what is frozen is one of the parameters without a gradient
        if script.owners.get(node) is script.module and training_follows(script, node):
            yield Finding(
                node,
                "changed after the model was wrapped: what is unfrozen now is never averaged,"
                " what is frozen now fails",
            )


def _switches(script: Script, changes: list[cst.CSTNode]) -> bool:
    """Whether parameters are switched off and on again, around another network's step."""
    if len({_direction(node, script) for node in changes}) < 2:
        return False
    loops = (loop for node in changes for loop in script.control.around(node))
    return any(map(script.trains, loops)) or all(
        _is_undone(script, one, changes) for one in changes
    )


def _is_undone(script: Script, change: cst.CSTNode, changes: list[cst.CSTNode]) -> bool:
    """Whether a step that code out of sight calls sets requires_grad back in the same call.

    A function with a training loop of its own is no step: it trains with some parts, then others.
    """
    step = script.structure_of(change).function(change)
    if step is None or step in script.control.spawned or script.control.callers(step):
        return False
    guards = script.control.branches(change)
    directions = {
        _direction(one, script)
        for one in changes
        if script.structure_of(one).function(one) is step and script.control.branches(one) == guards
    }
    return len(directions) > 1 and script.trains(step) and not _has_training_loop(script, step)


def _has_training_loop(script: Script, function: cst.CSTNode) -> bool:
    """Whether any loop that a function comes to makes steps."""
    return any(
        isinstance(one, (cst.For, cst.While)) and script.trains(one)
        for one in script.reached(function)
    )


def _change_nothing(script: Script, changes: list[cst.CSTNode]) -> bool:
    """Whether all are switched on, and nothing in sight switches any parameter off."""
    on = all(_direction(node, script) == "True" for node in changes)
    files = script.structures.values()
    return on and not script.strict and not any(_may_freeze(script, one) for one in files)


def _may_freeze(script: Script, structure: Structure) -> bool:
    """Whether a file sets requires_grad to anything but True."""
    return any(
        not _is_true(script, one.value)
        for one in structure.all(cst.Assign)
        for target in one.targets
        if isinstance(target.target, cst.Attribute) and target.target.attr.value == "requires_grad"
    ) or any(
        bool(one.args) and not _is_true(script, one.args[0].value)
        for one in structure.all(cst.Call)
        if isinstance(one.func, cst.Attribute) and one.func.attr.value == "requires_grad_"
    )


def _may_look_for_unused(script: Script, wrap: Wrap) -> bool:
    """Whether a wrapper, or another one that may be its model's instead, asks for them."""
    given = [
        one.wrapper.arguments.get("find_unused_parameters", UNKNOWN)
        for one in script.wraps
        if one is wrap or not set(one.held).isdisjoint(wrap.held)
    ]
    return any(one.constant() is True for one in given)


def _is_true(script: Script, node: cst.BaseExpression) -> bool:
    return code_of(node) == "True" or script.value(node).constant() is True


def _is_optimised(script: Script, wrap: Wrap) -> bool:
    """Whether an optimizer has its parameters: a teacher is frozen for good.

    Code that is not seen may have made the optimizer of a model that it was given.
    """
    models = (wrap.wrapper, *wrap.held)
    if any(script.events(model, "optimize") for model in models):
        return True
    trained = any(map(script.control.records_graph, script.events(wrap.wrapper, "call")))
    return trained and any(script.events(model, "given") for model in models)


def _asked(script: Script, given: cst.BaseExpression) -> str:
    """The question whose answer each call gives a parameter: ``set_trainable(part, epoch > 2)``."""
    if not isinstance(given, cst.Name):
        return ""
    edges = script.flow.edges_into(script.control.locations(given))
    asked = [one.value for one in edges if one.passes and isinstance(one.value, _QUESTIONS)]
    return code_of(asked[0]) if asked and len(asked) == len(edges) else ""


def _direction(node: cst.CSTNode, script: Script) -> str | None:
    """What requires_grad is set to: True, False, or another expression; None: it is not set."""
    structure = script.structure_of(node)
    above = structure.parents.get(node)
    if isinstance(above, cst.Call) and above.func is node:
        node = above  # ``p.requires_grad_(False)`` of a parameter
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value != "requires_grad_":
            return None
        return code_of(node.args[0].value) if node.args else "True"
    if isinstance(node, cst.Attribute) and node.attr.value == "requires_grad":
        assign = next((n for n in structure.up(node) if isinstance(n, cst.Assign)), None)
        if assign is not None and isinstance(assign.value, _QUESTIONS):
            return code_of(assign.value)
        if assign is not None and (asked := _asked(script, assign.value)):
            return asked
        if assign is None or not script.value(assign.value).atoms:
            return None
        constant = script.value(assign.value).constant()
        return None if constant is ... else str(constant)
    return None
