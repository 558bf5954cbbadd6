"""Some ranks load or change weights of a model that is wrapped already.

## What it does
Looks for `load_state_dict`, and for changes of parameters' values, under a condition on the rank
after the model was wrapped, and for random initialisation after the wrap without a common seed.

## Why is this bad
DistributedDataParallel sends rank 0's parameters to the others once, when it is made. What changes
on one rank later stays there: the ranks train different models, and average their gradients.

## Example
```python
if rank == 0:
    model.module.load_state_dict(torch.load(path, map_location=device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
def restore():
    net.load_state_dict(torch.load(path, map_location=device))
if rank == 0:
    restore()
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
def initialise(layer):
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
model.module.apply(initialise)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    if rank == 0:
        for p in model.parameters():
            p.data.clamp_(-1, 1)
```

## Use instead
```python
model.module.load_state_dict(torch.load(path, map_location=device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    for p in model.parameters():
        p.data.clamp_(-1, 1)
```

## Also fine
Rank 0 alone, before the wrap: the wrapper sends it to all. And an initialisation with one seed.
```python
fresh = Net().to(device)
if rank == 0:
    fresh.load_state_dict(torch.load(path, map_location=device))
model = DDP(fresh, device_ids=[local_rank])
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
def initialise(layer):
    if isinstance(layer, nn.Linear):
        nn.init.zeros_(layer.bias)
model.module.apply(initialise)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
if rank == 0:
    model.module.load_state_dict(torch.load(path, map_location=device))
for p in model.parameters():
    dist.broadcast(p.data, 0)
```
```python
average = copy.deepcopy(net)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    if rank == 0:
        for kept, p in zip(average.parameters(), model.parameters()):
            kept.data.mul_(0.99).add_(p.data, alpha=0.01)
```
```python
if rank == 0:
    torch.save(model.module.state_dict(), path)
dist.barrier()
if rank != 0:
    model.module.load_state_dict(torch.load(path, map_location=device))
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.after_wrap import (
    events_after,
    is_after,
    is_in_training,
    through_wrapper,
    training_follows,
)
from ddpify.lint.scripts.changed_parameters import sends_parameters, sets_parameters
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import agreed
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.values import Function

_FIXED = ("zeros_", "ones_", "constant_", "eye_", "dirac_", "calculate_gain")


@rule(
    "rank-dependent-state-after-wrap",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Loads and changes on some ranks, and random starts on each, after the wrap."""
    if sends_parameters(script):
        return
    text = (
        "only some ranks {} these weights: the others go on with their own, and nothing sends them"
    )
    wraps = [wrap for wrap in script.wraps if wrap.wrapper.type == DDP]
    for wrap in wraps:
        for node in dict.fromkeys(events_after(script, wrap, "load")):
            if _is_of_some(script, node) and not _is_kept_from_first(script, node):
                yield Finding(node, text.format("load"))
    for node in sets_parameters(script, wraps):
        if any(is_after(script, wrap, node) for wrap in wraps) and _is_of_some(script, node):
            yield Finding(node, text.format("change"))
    for call in script.method_calls("apply"):
        if _reaches_layers(script, call) and _starts_anew(script, call):
            yield Finding(call, "each rank draws weights of its own: nothing sends them any more")


def _is_of_some(script: Script, node: cst.CSTNode) -> bool:
    """Whether only some ranks come to a place of this file, and training follows."""
    return (
        script.owners.get(node) is script.module
        and script.control.on_some_ranks(node)
        and training_follows(script, node)
    )


def _reaches_layers(script: Script, call: cst.Call) -> bool:
    """``wrapper.module.apply(f)``, and ``wrapper.apply(f)``, which goes through the same layers."""
    if through_wrapper(script, call.func) is not None:
        return True
    return isinstance(call.func, cst.Attribute) and script.is_ddp(call.func.value)


def _is_kept_from_first(script: Script, node: cst.CSTNode) -> bool:
    """Whether rank 0, which has saved them, is the one that does not load: ``if rank != 0:``."""
    return not script.strict and any(
        _is_negated(guard.test) == guard.positive for guard in script.control.rank_guards(node)
    )


def _is_negated(test: cst.BaseExpression) -> bool:
    """``rank != 0``, ``rank > 0``, ``not is_main``."""
    if isinstance(test, cst.Comparison):
        operators = (cst.NotEqual, cst.GreaterThan)
        return isinstance(test.comparisons[0].operator, operators)
    return isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)


def _starts_anew(script: Script, call: cst.Call) -> bool:
    """Whether a function that is applied to all layers draws their weights."""
    if agreed(script, "torch") or not is_in_training(script, call):
        return False
    functions = [a for one in call.args for a in script.value(one.value).of(Function)]
    return any(
        name.startswith("torch.nn.init.") and not name.endswith(_FIXED)
        for function in functions
        for node in script.reached(function.node)
        if isinstance(node, cst.Call)
        for name in script.names(node.func)
    )
