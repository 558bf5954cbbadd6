"""Inputs or targets stay in host memory.

## What it does
Looks for batches of a `DataLoader` that go to the wrapped model, or to a loss beside its output,
without ever being moved, when the model is on a GPU.

## Why is this bad
The first batch raises `Expected all tensors to be on the same device`. DistributedDataParallel
moves the inputs of the model itself where it has `device_ids`; it never moves targets.

## Example
```python
for x, y in loader:
    x = x.to(device)
    criterion(model(x), y).backward()
```
```python
replica = DDP(net)
for x, y in loader:
    criterion(replica(x), y.to(device)).backward()
```

## Use instead
```python
for x, y in loader:
    x, y = x.to(device), y.to(device)
    criterion(model(x), y).backward()
```

## Also fine
Inputs of a wrapper with `device_ids`, and batches that something else may have moved.
```python
for x, y in loader:
    criterion(model(x), y.to(device)).backward()
```
```python
def to_gpu(batch):
    return [one.to(device) for one in batch]

for x, y in map(to_gpu, loader):
    criterion(model(x), y).backward()
```
```python
for batch in loader:
    x, y = to_gpu(batch)
    criterion(model(x), y).backward()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.cpu_tensors import accelerated, only_source
from ddpify.lint.scripts.host_batches import HostBatches
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries import losses
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.libraries.object_kinds import is_loss
from ddpify.understanding.syntax import argument

_DEFAULTS = ("torch.set_default_device", "torch.set_default_tensor_type")


@rule("input-not-moved", group="device", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Batches in host memory that meet what is on the GPU."""
    if not accelerated(script) or script.uses(*_DEFAULTS):
        return
    for loop in script.structure.all(cst.For):
        batches = HostBatches(script, loop)
        sure = Confidence.CERTAIN if batches.are_seen else Confidence.LIKELY
        for call in script.structure.below(loop.body) if batches.names else ():
            if isinstance(call, cst.Call):
                for given, what in _fails(script, call):
                    if batches.holds(given):
                        text = f"{script.code(given)} is in host memory, {what} on the GPU"
                        yield Finding(given, f"{text}: the first batch fails", confidence=sure)


def _fails(script: Script, call: cst.Call) -> Iterator[tuple[cst.BaseExpression, str]]:
    """What must be on the GPU in this call, and beside what."""
    if _moves_no_inputs(script, call.func):
        for given in call.args:
            yield given.value, "the model is"
    elif _is_loss(script, call.func):
        output, target = argument(call, "input", 0), argument(call, "target", 1)
        if output is not None and target is not None and _is_output(script, output.value):
            yield target.value, "the model's output is"


def _moves_no_inputs(script: Script, node: cst.BaseExpression) -> bool:
    """Whether this surely is a model past its wrapper, or wrapped without the number of a GPU."""
    wraps = {wrap.wrapper: wrap for wrap in script.wraps if wrap.wrapper.type == DDP}
    inner = {model for wrap in wraps.values() for model in wrap.held}
    held = script.value(node).atoms
    return bool(held) and all(
        one in inner or (one in wraps and _knows_no_device(wraps[one])) for one in held
    )


def _knows_no_device(wrap: Wrap) -> bool:
    return (
        not wrap.in_place
        and argument(wrap.call, "device_ids", 1) is None
        and not any(given.star for given in wrap.call.args)
    )


def _is_loss(script: Script, node: cst.BaseExpression) -> bool:
    made = script.instances(node)
    return (bool(made) and all(map(is_loss, made))) or any(
        losses.is_function(name) for name in script.names(node)
    )


def _is_wrapped_model(script: Script, node: cst.BaseExpression) -> bool:
    """Whether this is a wrapper, or, without a launcher, the model that it would wrap."""
    held = {model for wrap in script.wraps for model in (wrap.wrapper, *wrap.held)}
    atoms = script.value(node).atoms
    return script.is_wrapped(node) and all(one in held for one in atoms)


def _is_output(script: Script, node: cst.BaseExpression, depth: int = 3) -> bool:
    """Whether an expression surely is what a wrapped model gives, on its GPU."""
    if isinstance(node, cst.Call):
        return _is_wrapped_model(script, node.func)
    source = only_source(script, node) if depth else None
    return source is not None and _is_output(script, source, depth - 1)
