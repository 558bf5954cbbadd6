"""An optimizer steps parameters that belong to no wrapped model.

## What it does
Looks for optimizers over parameters of a module that is not wrapped, in a script that wraps
another.

## Why is this bad
Nobody averages the gradients of those parameters: a learnable criterion, a temperature or a
second network takes other values on each rank, without an error.

## Example
```python
head = nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(list(model.parameters()) + list(head.parameters()), lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    optimizer.step()
```

## Use instead
```python
head = DDP(nn.Linear(2, 2).to(device), device_ids=[local_rank])
optimizer = torch.optim.SGD(list(model.parameters()) + list(head.parameters()), lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    optimizer.step()
```

## Also fine
A criterion without parameters, and gradients that are averaged by hand.
```python
head = nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    for p in head.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
```

## When not to follow it
Where each rank holds its own shard of the parameters on purpose, as in PartialFC.

## References
https://github.com/KevinMusgrave/pytorch-metric-learning/issues/710
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.hand_averages import may_average_by_hand
from ddpify.lint.scripts.model_layers import (
    has_parameters_of_its_own,
    is_part_of,
    is_trainable,
)
from ddpify.lint.scripts.one_process import runs_alone
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.script_kinds import DISTRIBUTED
from ddpify.lint.scripts.set_by_rank import is_set_by_rank
from ddpify.lint.scripts.unreached import joins_no_group
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.libraries.runtime_names import INIT, WRAP
from ddpify.understanding.model_structure import layers
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Class, Instance, Params, deep_atoms

_OUTSIDE = (
    "is in no wrapped model: its gradients are not averaged and its parameters differ between ranks"
)


@rule(
    "parameters-outside-ddp",
    group="wrapping",
    severity=Severity.SILENT,
    applies="converted distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Optimizers over what no wrapper looks after."""
    if not (script.wraps or script.uses(INIT)) or script.once(may_average_by_hand):
        return
    if not _all_seen(script) and not script.strict:
        return  # what is wrapped is not seen: it may be this one
    covered = [model for wrap in script.wraps for model in wrap.held]
    for optimizer in script.facts.optimizers:
        call = optimizer.site
        if optimizer.module is not script.module or not isinstance(call, cst.Call):
            continue
        if _is_of_some(script, call):
            continue
        bare = _bare_parameter(script, call) if script.kind == DISTRIBUTED else None
        if bare is not None:
            message = f"{script.code(bare, 40)} {_OUTSIDE}"
            yield Finding(call, message, confidence=Confidence.LIKELY)
        for owner in _owners(optimizer) if bare is None else ():
            if not _outside(script, owner, covered) or _may_be_wrapped(script, owner, covered):
                continue
            if not _alone(script, call, owner, covered):
                yield Finding(call, f"{_name(owner)} {_OUTSIDE}")
    yield from _added_later(script)


def _added_later(script: Script) -> Iterator[Finding]:
    """Bare parameters that an optimizer gets in a further group."""
    for call in script.method_calls("add_param_group") if script.kind == DISTRIBUTED else ():
        assert isinstance(call.func, cst.Attribute)
        if any(one.role == "optimizer" for one in script.instances(call.func.value)):
            bare = _bare_parameter(script, call) if not _is_of_some(script, call) else None
            if bare is not None:
                message = f"{script.code(bare, 40)} {_OUTSIDE}"
                yield Finding(call, message, confidence=Confidence.LIKELY)


def _is_of_some(script: Script, optimizer: cst.Call) -> bool:
    """Whether some ranks alone make an optimizer, or each has parameters of its own on purpose."""
    control = script.control
    return (
        control.on_some_ranks(optimizer)
        or control.is_only_before_spawning(optimizer)
        or any(is_set_by_rank(control, one.value) for one in optimizer.args)
    )


def _bare_parameter(script: Script, optimizer: cst.Call) -> cst.CSTNode | None:
    """An ``nn.Parameter`` that is no attribute of a module, among what an optimizer gets."""
    given = argument(optimizer, "params", 0) or argument(optimizer, "param_group", 0)
    if given is None:
        return None
    made = [given.value]
    for one in script.flow.ancestry(given.value, script.module):
        if one.location is not None and one.location[0] in ("name", "attribute"):
            edges = script.flow.edges_into({one.location})
            made += [edge.value for edge in edges if edge.value is not None]
    return next((node for one in made for node in walk(one) if _is_parameter(script, node)), None)


def _is_parameter(script: Script, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call) or "torch.nn.Parameter" not in script.names(node.func):
        return False
    structure = script.structure_of(node)
    function = structure.function(node)
    owner = structure.class_of(function) if function is not None else None
    return owner is None or not any(_may_be_module(script, base.value) for base in owner.bases)


def _may_be_module(script: Script, base: cst.BaseExpression) -> bool:
    """Whether a class may be a model, whose attributes are its parameters."""
    held = script.value(base).atoms
    names = {name for one in held if isinstance(one, Class) for name in one.library_bases()}
    names |= script.names(base)
    return not held or any(name.startswith("torch.nn.") for name in names)


def _all_seen(script: Script) -> bool:
    """Whether it is known of each wrapper what it wraps."""
    in_place = script.calls(WRAP, everywhere=True)
    return all(wrap.held for wrap in script.wraps) and all(map(script.may_be_wrapped, in_place))


def _owners(optimizer: Instance) -> list[Instance]:
    found = {
        a.owner: None for a in deep_atoms(optimizer.arguments["params"]) if isinstance(a, Params)
    }
    return sorted(found, key=_name)


def _alone(script: Script, optimizer: cst.Call, owner: Instance, covered: list[Instance]) -> bool:
    """Whether a model is for a run without a group, beside one of its class that is wrapped."""
    same = any(_class(one) is _class(owner) for one in covered)
    function = script.structure.function(optimizer)
    callers = script.control.callers(function) if function is not None else []
    return same and (
        joins_no_group(script.control, owner.site)
        or any(runs_alone(script.control, one.node) for one in callers)
    )


def _may_be_wrapped(script: Script, owner: Instance, covered: list[Instance]) -> bool:
    """Whether the parameters are asked of a name that may also be a wrapped model."""
    return any(
        isinstance(call.func, cst.Attribute)
        and owner in (held := script.instances(call.func.value))
        and any(is_wrapper(one) or one in covered for one in held)
        for call in script.method_calls("parameters", "named_parameters", everywhere=True)
    )


def _class(model: Instance) -> object:
    return model.type if isinstance(model.type, str) else model.type.node


def _outside(script: Script, owner: Instance, covered: list[Instance]) -> bool:
    if is_wrapper(owner) or script.events(owner, "wrap", "shard"):
        return False
    if any(is_part_of(owner, model) for model in covered):
        return False
    if not script.events(owner, "call"):
        return False
    parts = [model for model in covered if is_part_of(model, owner)]
    if parts and not script.has_runtime:
        return False  # its other layers may or may not be used
    inside = {layer for part in parts for layer in layers(part)}
    return any(
        layer not in inside and (is_trainable(layer) or has_parameters_of_its_own(script, layer))
        for layer in layers(owner)
    )


def _name(model: Instance) -> str:
    kind = model.type if isinstance(model.type, str) else model.type.node.name.value
    return kind.rsplit(".", 1)[-1]
