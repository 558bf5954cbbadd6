"""The loss is computed past the wrapped model's own call.

## What it does
Looks for `model.module(...)` and `model.module.method(...)` whose result reaches `backward()`,
also by another name, when the wrapped model itself is not called with gradients for the same
step of the optimizer, or its loss has gone backward before.

## Why is this bad
DistributedDataParallel prepares the averaging of gradients in its own `forward`. Past it, each
rank steps on its own gradients and the models drift apart, without an error.

## Example
```python
for x, y in loader:
    loss = criterion(model.module(x), y)
    loss.backward()
    optimizer.step()
```

What a helper takes out of the wrapper is past it, too.
```python
def unwrap(net):
    return net.module if isinstance(net, DDP) else net

inner = unwrap(model)
for x, y in loader:
    criterion(inner(x), y).backward()
    optimizer.step()
```

What goes backward after the wrapper's own loss, which has averaged already.
```python
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    aux = criterion(model.module(-x), y)
    aux.backward()
    optimizer.step()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
```

## Also fine
Evaluation without gradients, and use beside a call of the wrapped model, in one loss with it or
before it.
```python
inner = model.module if hasattr(model, "module") else model
with torch.no_grad():
    inner(torch.zeros(1, 10))
for x, y in loader:
    loss = criterion(model(x), y) + model.module.penalty()
    loss.backward()
```
```python
for x, y in loader:
    optimizer.zero_grad()
    model.module.penalty().backward()
    criterion(model(x), y).backward()
    optimizer.step()
```
The gradients of a model that another one's step leaves unused.
```python
maker = DDP(nn.Linear(10, 10).to(device), device_ids=[local_rank])
steps = torch.optim.SGD(maker.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    steps.zero_grad()
    criterion(model.module(maker(x)), y).backward()
    steps.step()
```

## Fix safety
`model.module(x)` becomes `model(x)`; unsafe, since it changes the training for the better.

## References
https://docs.pytorch.org/docs/stable/notes/ddp.html#internal-design
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.after_wrap import are_alternatives
from ddpify.lint.scripts.loss_inputs import reaches_loss
from ddpify.lint.scripts.model_layers import is_part_of
from ddpify.lint.scripts.resolved import is_resolved
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.separate_losses import are_averaged_together
from ddpify.lint.scripts.unwrapped import module_of, taken_out, takes_out, wrapper_of
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import read_as
from ddpify.understanding.values import UNKNOWN, Instance, Params, deep_atoms

_HARMLESS = frozenset(
    "state_dict load_state_dict parameters named_parameters train eval to cuda cpu zero_grad"
    " modules children named_modules named_children buffers named_buffers apply requires_grad_"
    " register_forward_hook half float save_pretrained no_sync share_memory extra_repr".split()
)


@rule(
    "forward-bypass",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls past a wrapper that a loss comes from."""
    last: dict[object, Finding] = {}
    for call in script.structure.all(cst.Call):
        if _is_harmless(call.func):
            continue
        for target in taken_out(script, call.func):
            if _is_bypass(script, call, target):
                # What comes before it in its function may prepare targets, without gradients.
                function = script.structure.function(call)
                last[function, code_of(target)] = _finding(script, call, target)
    yield from last.values()


def _is_bypass(script: Script, call: cst.Call, target: cst.BaseExpression) -> bool:
    """Whether a loss comes from a call of what is in a wrapper, and none from the wrapper's own."""
    wrapped = wrapper_of(target)
    if not is_resolved(script, wrapped) or script.control.without_grad(call):
        return False
    wrappers = [a for a in script.instances(wrapped) if is_wrapper(a)]
    if _is_a_name(script, call.func) and _is_the_model(script, call.func, wrappers):
        return False  # which is the reference from before the wrap: another rule's
    if not (script.strict or _may_be_trained(script, wrappers)):
        return False
    if any(_called_with_gradients(script, one, call) for one in wrappers):
        return False
    return reaches_loss(script, call) and not _is_detached(script, call)


def _is_another(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a name is set to what is taken out of a wrapper that has a name of its own."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    given = (edge.value for edge in script.flow.edges_into(script.control.locations(node)))
    taken = (one for one in given if one is not None and takes_out(one))
    return any(not wrapper_of(one).deep_equals(node) for one in taken)


def _is_a_name(script: Script, node: cst.BaseExpression) -> bool:
    """Whether something is held by a name: not taken out of the wrapper there, by a function or a
    property either, or of a wrapper of another name where this one is set.
    """
    if module_of(node) is not None or isinstance(node, cst.Call) or _is_another(script, node):
        return False
    return not (isinstance(node, cst.Attribute) and any(read_as(script.facts, node)))


def _is_the_model(script: Script, node: cst.BaseExpression, wrappers: list[Instance]) -> bool:
    held = {one for wrap in script.wraps if wrap.wrapper in wrappers for one in wrap.held}
    return bool(held) and {*script.instances(node)} == held


def _finding(script: Script, call: cst.Call, target: cst.BaseExpression) -> Finding:
    text = "the loss is computed past the wrapped model's own call: gradients are not averaged"
    fix = _fix(script, call, target)
    return Finding(call, f"{text} and the ranks drift apart", fix)


def _may_be_trained(script: Script, wrappers: list[Instance]) -> bool:
    """Whether any optimizer gets parameters of one of these, or what it gets is not seen."""
    models = [*wrappers, *(one for wrap in script.wraps if wrap.wrapper in wrappers
                           for one in wrap.held)]  # fmt: skip
    owners = {
        atom.owner
        for optimizer in script.facts.optimizers
        for atom in deep_atoms(optimizer.arguments.get("params", UNKNOWN))
        if isinstance(atom, Params)
    }
    return not owners or any(
        one is model or is_part_of(one, model) or is_part_of(model, one)
        for one in owners
        for model in models
    )


def _is_detached(script: Script, call: cst.Call) -> bool:
    """Whether no gradient comes back through a call's result."""
    above = script.structure.parents.get(call)
    return isinstance(above, cst.Attribute) and above.attr.value in ("detach", "data")


def _is_harmless(func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Attribute) and func.attr.value in _HARMLESS


def _called_with_gradients(script: Script, wrapper: Instance, bypass: cst.Call) -> bool:
    """Whether a loss comes from the wrapper's own call, too, in the same training: in an
    evaluation none does.
    """
    return any(
        script.control.records_graph(event)
        and isinstance(event.site.node, cst.Call)
        and event.site.node is not bypass
        and module_of(event.site.node.func) is None
        and script.is_wrapped(event.site.node.func)
        and not _is_method(script, event.site.node.func)
        and _is_beside(script, event.site.node, bypass)
        and not are_alternatives(script, event.site.node, bypass)
        and reaches_loss(script, event.site.node)
        and are_averaged_together(script, wrapper, event.site.node, bypass)
        for event in script.events(wrapper, "call")
    )


def _is_method(script: Script, func: cst.BaseExpression) -> bool:
    """``model.penalty`` of a model that may be wrapped, or not: it is no call of the wrapper."""
    return isinstance(func, cst.Attribute) and script.is_wrapped(func.value)


def _is_beside(script: Script, one: cst.Call, other: cst.Call) -> bool:
    """Whether two calls stand in one function, or in loops of one training."""
    functions = {script.structure_of(x).function(x) for x in (one, other)}
    around = [set(script.control.around(x)) for x in (one, other)]
    return len(functions) == 1 or not around[0].isdisjoint(around[1])


def _fix(script: Script, call: cst.Call, target: cst.BaseExpression) -> Fix | None:
    if call.func is not target:
        return None
    return script.replace(
        target, code_of(wrapper_of(target)), "call the wrapped model", Applicability.UNSAFE
    )
