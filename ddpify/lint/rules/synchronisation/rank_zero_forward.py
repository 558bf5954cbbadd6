"""One rank calls the wrapped model alone.

## What it does
Looks for calls of an FSDP object, or of a DDP object around a model with buffers, that run only
under a condition on the rank; of any DDP object where a loss is made from them. Also for a backward
that only some ranks run.

## Why is this bad
The wrapper's forward is a collective when the model has buffers (BatchNorm) or is sharded: rank 0
waits for ranks that have gone on, and the job hangs: a sharded one at the first validation, one
with buffers at a validation that no training step of the others follows, as the last one.

## Example
```python
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
def validate(network):
    with torch.no_grad():
        network(torch.zeros(1, 10))
if rank == 0:
    validate(normed)
```

```python
if rank == 0:
    for x, y in loader:
        criterion(model.forward(x), y).backward()
```

```python
class Trainer:
    def __init__(self, net):
        self.net = net.to(device)
        self.net = DDP(self.net, device_ids=[local_rank])

    def warm_up(self):
        for x, y in loader:
            criterion(self.net(x), y).backward()

trainer = Trainer(Net())
if rank == 0:
    trainer.warm_up()
```

## Use instead
```python
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
def validate(network):
    with torch.no_grad():
        network(torch.zeros(1, 10))
if rank == 0:
    validate(normed.module)
```

## Also fine
All ranks at once, and a model without buffers, of which nothing is sent without gradients.
```python
def validate(network):
    with torch.no_grad():
        network(torch.zeros(1, 10))
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
validate(normed)
if rank == 0:
    validate(model)
```
A call that fails before, since it lacks an argument.
```python
def validate(network, batches):
    with torch.no_grad():
        network(torch.zeros(1, 10))
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
if rank == 0:
    validate(normed)
```

## Fix safety
For DDP, `model(x)` without gradients becomes `model.module(x)`.

## References
https://github.com/pytorch/pytorch/issues/54059
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.answers import goes_back_in_other_branch, is_answered
from ddpify.lint.scripts.loss_inputs import reaches_loss
from ddpify.lint.scripts.model_layers import has_buffers
from ddpify.lint.scripts.resolved import is_resolved
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.wrapped_here import wrappers_here
from ddpify.understanding.libraries.distributed import DDP, is_wrapper
from ddpify.understanding.syntax import called_model, code_of
from ddpify.understanding.values import UNKNOWN, Instance


@rule(
    "rank-zero-forward",
    group="synchronisation",
    severity=Severity.HANG,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls of wrappers that only some ranks reach."""
    reported: set[cst.CSTNode] = set()
    for call in script.structure.all(cst.Call):
        if not _calls_wrapper(script, call) or not is_resolved(script, call.func):
            continue
        node = _guarded_at(script, call)
        if node is not None and not script.strict and is_answered(script, call, node):
            continue
        if node is not None and node not in reported:
            reported.add(node)
            sure = _is_surely_wrapped(script, called_model(call.func))
            yield Finding(
                node,
                f"only some ranks run the wrapped model: {_what_waits(script, call)} waits for the"
                " others, and this hangs",
                _fix(script, call) if node is call else None,
                confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
            )
    for node in script.facts.backwards:
        if script.owners.get(node) is script.module and _goes_back_alone(script, node):
            yield Finding(
                node,
                "only some ranks go backward: it averages the gradients and waits for the others,"
                " and this hangs",
            )


def _what_waits(script: Script, call: cst.Call) -> str:
    """Its forward, with shards or buffers; else the gradients of what comes out."""
    held = script.instances(called_model(call.func))
    wrappers = [one for one in held if is_wrapper(one)]
    if any(one.type != DDP for one in wrappers) or any(script.events(one, "shard") for one in held):
        return "its forward gathers the shards and"
    if any(map(_sends_buffers, wrappers)):
        return "its forward sends the buffers and"
    return "backward() averages the gradients and"


def _calls_wrapper(script: Script, call: cst.Call) -> bool:
    model = called_model(call.func)
    held = script.instances(model)
    if held and all(_waits_in_place(script, one, call) for one in held):
        return True
    if isinstance(model, cst.Attribute) and script.is_wrapped(model.value):
        return False  # what other methods do is not known
    return _wait(script, wrappers_here(script, model), call)


def _is_surely_wrapped(script: Script, model: cst.BaseExpression) -> bool:
    """Whether no option leaves the model unwrapped, as far as is seen."""
    return all(is_wrapper(one) or one in script.wrapped for one in script.instances(model))


def _wait(script: Script, wrappers: list[Instance], call: cst.Call) -> bool:
    """Whether any of the wrappers surely meets the other ranks in its forward, or in backward.

    With a group of its own, it meets the ranks of that group.
    """
    wrappers = [one for one in wrappers if script.strict or "process_group" not in one.arguments]
    if not wrappers:
        return False
    if script.strict or any(one.type != DDP or _sends_buffers(one) for one in wrappers):
        return True
    return not script.control.without_grad(call) and reaches_loss(script, call)


def _sends_buffers(wrapper: Instance) -> bool:
    """Whether forward sends rank 0's buffers: where there are any, which not all models have."""
    if wrapper.arguments.get("broadcast_buffers", UNKNOWN).constant() is False:
        return False
    held = wrapper.arguments.get("module", UNKNOWN).atoms
    return any(isinstance(one, Instance) and has_buffers(one) for one in held)


def _waits_in_place(script: Script, model: Instance, call: cst.Call) -> bool:
    """Whether a model that ddpify's runtime wrapped meets the other ranks in or after a call."""
    if not any(wrap.in_place and wrap.wrapper is model for wrap in script.wraps):
        return False
    return bool(script.events(model, "shard")) or not script.control.without_grad(call)


def _guarded_at(script: Script, call: cst.Call) -> cst.CSTNode | None:
    """The call itself, or the one call of its function, that a condition on the rank governs."""
    if script.control.rank_guards(call):
        return call
    function = script.structure.function(call)
    if function is None or function in script.control.spawned:
        return None
    callers = [s for s in script.control.callers(function) if _passes_wrapper(script, s.node)]
    if not callers or script.control.covers_all(callers):
        return None
    alone = [s for s in callers if script.control.on_some_ranks(s.node)]
    if len(alone) < len(callers):  # what is called elsewhere, too, may hold another model there
        sure = (s.node for s in alone if s.module is script.module)
        return next((node for node in sure if _hands_wrapper(script, node)), None)
    return alone[0].node if alone[0].module is script.module else call


def _hands_wrapper(script: Script, node: cst.CSTNode) -> bool:
    """Whether an argument is surely a wrapper whose forward meets the other ranks."""
    return isinstance(node, cst.Call) and any(
        held and all(is_wrapper(one) and _wait(script, [one], node) for one in held)
        for given in node.args
        for held in [script.instances(given.value)]
    )


def _passes_wrapper(script: Script, node: cst.CSTNode) -> bool:
    """Whether a call hands a wrapper over, or none of its arguments is a model."""
    if not isinstance(node, cst.Call):
        return False
    given = [script.value(a.value) for a in node.args]
    if any(is_wrapper(atom) or atom in script.wrapped for held in given for atom in held.atoms):
        return True
    return not any("module" in script.code(a.value, 200) for a in node.args)


def _fix(script: Script, call: cst.Call) -> Fix | None:
    if not script.is_ddp(call.func) or not script.control.without_grad(call):
        return None
    text = f"{code_of(call.func)}.module"
    return script.replace(call.func, text, "call the module inside, which needs no other rank")


def _goes_back_alone(script: Script, node: cst.CSTNode) -> bool:
    """Whether some ranks leave out a backward whose forward all of them have run."""
    alone = {guard.statement for guard in script.control.rank_guards(node)}
    loop = next(iter(script.structure.loops(node)), None)
    if not alone or loop is None or goes_back_in_other_branch(script, node):
        return False
    return any(
        isinstance(call, cst.Call)
        and _calls_wrapper(script, call)
        and not script.control.rank_guards(call)
        for call in script.structure.inside(loop.body, cst.Call)
    )
