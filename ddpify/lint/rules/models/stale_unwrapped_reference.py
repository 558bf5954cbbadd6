"""The module is trained through a reference from before it was wrapped.

## What it does
Looks for a model that is wrapped, while the object from before the wrap computes the training's
forward and the wrapper is never called with gradients.

## Why is this bad
The wrapper that averages gradients exists but nobody goes through it: each rank trains a model of
its own, without an error.

## Example
```python
class Trainer:
    def __init__(self, module):
        self.module = module
    def fit(self):
        for x, y in loader:
            criterion(self.module(x), y).backward()
            optimizer.step()
raw = Net().to(device)
trainer = Trainer(raw)
raw = DDP(raw, device_ids=[local_rank])
trainer.fit()
```

```python
class Trainer:
    def __init__(self, model):
        self.model = model

    def epoch(self):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(self.model(x.to(device)), y.to(device)).backward()
            optimizer.step()


def make(name):
    models = {"net": Net, "linear": nn.Linear}
    return models[name](10, 2) if name == "linear" else models[name]()


chosen = make(os.environ["MODEL"]).to(device)
trainer = Trainer(chosen)
wrapped = DDP(chosen, device_ids=[local_rank])
trainer.epoch()
```

## Use instead
```python
class Trainer:
    def __init__(self, module):
        self.module = module
    def fit(self):
        for x, y in loader:
            criterion(self.module(x), y).backward()
            optimizer.step()
raw = DDP(Net().to(device), device_ids=[local_rank])
trainer = Trainer(raw)
trainer.fit()
```

## Also fine
The reference is used for its state alone.
```python
raw = Net().to(device)
ddp = DDP(raw, device_ids=[local_rank])
for x, y in loader:
    criterion(ddp(x), y).backward()
state = raw.state_dict()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.facts import Event
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.values import Instance

_DRIFTS = "gradients are not averaged and the ranks drift apart"
_IS_RAW = f"this is the model from before it was wrapped: {_DRIFTS}"
_IS_TRAINED_RAW = f"what is wrapped here is trained past its wrapper, in another file: {_DRIFTS}"


@rule(
    "stale-unwrapped-reference",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Training calls of what was wrapped, past its wrapper."""
    for wrap in script.wraps:
        held = [one for one in wrap.held if one is not wrap.wrapper]  # of ``self.x = DDP(self.x)``
        if wrap.wrapper.type != DDP:
            continue
        if any(map(script.control.records_graph, script.events(wrap.wrapper, "call"))):
            continue
        if not held:
            continue
        for event in _calls_after(script, wrap, held[0]):  # one choice has the same calls
            call = event.site.node
            here = event.site.module is script.module
            if not _is_said_here(script, wrap, here):
                continue
            if _only_raw(script, wrap, call):
                yield Finding(call if here else wrap.call, _IS_RAW if here else _IS_TRAINED_RAW)
                break


def _is_said_here(script: Script, wrap: Wrap, is_called_here: bool) -> bool:
    """Whether this is the file to say it in: where a run starts, or where the model is called."""
    entry = script.project.entry
    if script.module is entry:
        return is_called_here or wrap.site.module is entry
    return is_called_here and wrap.site.module is not entry


def _calls_after(script: Script, wrap: Wrap, raw: Instance) -> Iterator[Event]:
    """Calls with gradients that come after the wrap, in loops that train."""
    after = False
    for event in script.events(raw, "wrap", "call"):
        after = after or event.site.node is wrap.site.node
        trains = after and event.kind == "call" and script.control.records_graph(event)
        if trains and any(script.trains(loop) for loop in script.control.around(event.site.node)):
            yield event


def _only_raw(script: Script, wrap: Wrap, call: cst.CSTNode) -> bool:
    """Whether the called expression surely is the unwrapped object, not `.module` of a wrapper.

    There are several where a model is chosen among classes, or comes to the wrap on several ways:
    the call has the same choice then.
    """
    if not isinstance(call, cst.Call):
        return False
    if _is_its_own(script, call):
        return False  # how its method is reached tells
    node = call.func
    while isinstance(node, cst.Attribute):
        if node.attr.value == "module" and script.is_wrapped(node.value):
            return False
        node = node.value
    held = {
        model
        for one in script.wraps
        if one.site.node is wrap.site.node
        for model in one.held
        if model is not one.wrapper
    }
    return set(script.instances(call.func)) == held


def _is_its_own(script: Script, call: cst.Call) -> bool:
    """``self(x)`` in a method of the model."""
    structure = script.structure_of(call)
    function = structure.function(call)
    if function is None or structure.class_of(function) is None:
        return False
    first = [one.name.value for one in function.params.params[:1]]
    return isinstance(call.func, cst.Name) and call.func.value in first
