"""A layer is put into a model that is wrapped already.

## What it does
Looks for layers and parameters that are assigned into a model after it went into
DistributedDataParallel.

## Why is this bad
The wrapper lists the parameters once, when it is made. It never averages the gradients of new
ones, and waits for those that are gone: the ranks drift apart, then the second step fails.

## Example
```python
model.module.l2 = nn.Linear(10, 5).to(device)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
net.l2 = nn.Sequential(nn.Linear(10, 5), nn.ReLU()).to(device)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
model.module.scale = nn.Parameter(torch.ones(1, device=device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
model.module.add_module("extra", nn.Linear(10, 2).to(device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
net = Net()
net.l2 = nn.Linear(10, 5)
model = DDP(net.to(device), device_ids=[local_rank])
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
Plain attributes, another model, and a change after the training.
```python
model.module.threshold = 0.5
other = Net().to(device)
other.l2 = nn.Linear(10, 5)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
model.module.l2 = nn.Identity()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.after_wrap import events_after, through_wrapper, training_follows
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.syntax import code_of

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_ADDING = (
    "add_module register_module register_parameter register_buffer resize_token_embeddings".split()
)


@rule(
    "module-mutated-after-wrap",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Layers that come after the wrap."""
    if not any(wrap.wrapper.type == DDP or wrap.in_place for wrap in script.wraps):
        return
    rewrapped = any(len(script.events(m, "wrap")) > 1 for wrap in script.wraps for m in wrap.held)
    for node in dict.fromkeys(_changes(script)):
        if rewrapped or _comes_before_a_wrap(script, node):
            continue
        if training_follows(script, node):
            yield Finding(node, _message(script, node))


def _comes_before_a_wrap(script: Script, node: cst.CSTNode) -> bool:
    """Whether a wrapper is made below a change, there or where both of their functions are called:
    it knows of what is changed.
    """
    changed = script.control.ways_to(node)
    wrapped = [place for wrap in script.wraps for place in script.control.ways_to(wrap.site.node)]
    return any(_comes_before(script, one, other) for one in changed for other in wrapped)


def _comes_before(script: Script, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether a call gets what another one gives, or stands below it in the same function."""
    structure = script.structure_of(one)
    if other in structure.up(one):
        return True
    below = structure.order[one] < structure.order.get(other, -1)
    return below and structure.function(one) is structure.function(other)


def _message(script: Script, node: cst.CSTNode) -> str:
    known = "the wrapper does not know of what comes after it: "
    if isinstance(node, cst.Call) and _adds(node) == "register_buffer":
        return f"{known}rank 0's buffer does not come to the other ranks"
    later = "" if script.has_runtime else ", and the second step fails"
    return f"{known}its gradients are not averaged{later}"


def _adds(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _changes(script: Script) -> Iterator[cst.CSTNode]:
    for wrap in script.wraps:
        for node in events_after(script, wrap, "change"):
            if script.owners.get(node) is script.module and _sets_layer(script, node):
                yield node
    for target in script.structure.all(cst.AssignTarget):
        if _is_inside(script, target.target) and _sets_layer(script, target.target):
            yield target.target
    for call in script.method_calls(*_ADDING):
        if _is_inside(script, call.func):
            yield call


def _is_inside(script: Script, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and through_wrapper(script, node.value) is not None


def _sets_layer(script: Script, node: cst.CSTNode) -> bool:
    """Whether an assignment to this target gives a model a layer or a parameter."""
    assign = next((a for a in script.structure.up(node) if isinstance(a, cst.Assign)), None)
    if assign is None or not isinstance(node, cst.Attribute):
        return False
    if code_of(assign.value) == code_of(node):
        return False  # ``layer.running_mean = layer.running_mean``
    # Of an attribute that is not known, all that is known is the model that has it.
    own = {x for wrap in script.wraps for x in (wrap.wrapper, *wrap.held)}
    own |= {*script.instances(node.value)}
    if any(is_model(one) and one not in own for one in script.instances(assign.value)):
        return True
    call = assign.value
    return isinstance(call, cst.Call) and bool(script.names(call.func) & _PARAMETERS)
