"""A layer of the wrapped model is never used.

## What it does
Looks for layers that a model's `__init__` makes and nothing in the project ever reads.

## Why is this bad
DistributedDataParallel waits for a gradient of every parameter. Those of an unused layer never
come: the second step raises `Expected to have finished reduction in the prior iteration`.

## Example
```python
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.auxiliary = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x)

model = DDP(Branched().to(device), device_ids=[local_rank])
```
```python
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(10, 10), nn.ReLU())
        self.shortcut = nn.Sequential(nn.Linear(10, 10), nn.ReLU())

    def forward(self, x):
        return self.main(x)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.blocks(x)

model = DDP(Deep().to(device), device_ids=[local_rank], find_unused_parameters=False)
```

```python
class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.spare = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x)

model = DDP(Counted().to(device), device_ids=[local_rank])
print(sum(p.numel() for p in model.parameters() if p.requires_grad))
```

## Use instead
Leave the layer out, or let the wrapper look for what is not used, which costs time.
```python
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.auxiliary = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x)

model = DDP(Branched().to(device), device_ids=[local_rank], find_unused_parameters=True)
```

## Also fine
Layers that are used from outside, by name, or all together.
```python
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.auxiliary = nn.Linear(10, 2)
        self.third = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x) + getattr(self, "third")(x)

model = DDP(Branched().to(device), device_ids=[local_rank])
extra = model.module.auxiliary(torch.zeros(1, 10, device=device))
```
```python
class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(10, 2)
        self.other = nn.Linear(10, 2)
        self.act = nn.ReLU()

    def forward(self, x):
        return sum(layer(x) for layer in self.children())

model = DDP(Summed().to(device), device_ids=[local_rank])
```

## References
https://docs.pytorch.org/docs/stable/notes/ddp.html#internal-design
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.forward_use import forward_of, is_plain, lists_layers, own_layers
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.model_structure import layers
from ddpify.understanding.values import UNKNOWN, Class, Instance, Params

_TOLERANT = ("find_unused_parameters", "static_graph")


@rule(
    "unused-parameters",
    group="wrapping",
    severity=Severity.CRASH,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Layers that no code reads."""
    reported: set[cst.CSTNode] = set()
    for wrap in script.wraps:
        if wrap.wrapper.type != DDP or _tolerates(wrap) or _freezes(script, wrap):
            continue
        for layer in (one for model in wrap.held for one in layers(model)):
            for node in _unused(script, layer):
                if node not in reported and script.owners.get(node) is script.module:
                    reported.add(node)
                    yield Finding(
                        node, "no forward uses this layer: DDP waits for its gradient and fails"
                    )


def _tolerates(wrap: Wrap) -> bool:
    given = wrap.wrapper.arguments
    off = all(given.get(name, UNKNOWN).constant() in (..., False) for name in _TOLERANT)
    unknown = any(name in given and given[name].constant() is ... for name in _TOLERANT)
    return not off or unknown or "**" in given


def _unused(script: Script, model: Instance) -> Iterator[cst.CSTNode]:
    """The places that make layers of which nothing is read."""
    if not isinstance(model.type, Class) or not is_plain(model.type):
        return
    forward = forward_of(model.type)
    if forward is None or lists_layers(script, forward):
        return
    for name in own_layers(script, model):
        places = script.mentions.get(name, ())
        if len(places) == 1 and isinstance(places[0], cst.Assign):
            yield places[0]


def _freezes(script: Script, wrap: Wrap) -> bool:
    """Whether something may set which of the model's parameters get gradients: to count these sets
    nothing, and another model's are its own.
    """
    own = {wrap.wrapper, *(layer for model in wrap.held for layer in layers(model))}
    return any(_may_be_of(script, one, own) for one in script.once(_set_to_learn))


def _set_to_learn(script: Script) -> list[cst.BaseExpression]:
    """What is told whether it gets gradients, by an attribute, a method or an argument."""
    placed = [x for x in script.mentions.get("requires_grad", ()) if isinstance(x, cst.Assign)]
    found = [
        target.target.value
        for one in placed
        for target in one.targets
        if isinstance(target.target, cst.Attribute)
    ]
    calls = script.method_calls("requires_grad_", everywhere=True)
    found += [one.func.value for one in calls if isinstance(one.func, cst.Attribute)]
    told = (
        one
        for structure in script.structures.values()
        for one in structure.all(cst.Call)
        if any(given.keyword and given.keyword.value == "requires_grad" for given in one.args)
    )
    return found + [one for one in told if not _is_a_tensor(script, one)]


def _is_a_tensor(script: Script, call: cst.Call) -> bool:
    """``torch.zeros(3, requires_grad=True)`` and ``nn.Parameter(x, requires_grad=False)``."""
    names = script.names(call.func)
    return bool(names) and all(name.startswith("torch.") for name in names)


def _may_be_of(script: Script, node: cst.BaseExpression, own: set[Instance]) -> bool:
    """Whether this may be one of the modules, or some of their parameters."""
    atoms = script.value(node).atoms
    return not atoms or any(
        one in own or (isinstance(one, Params) and one.owner in own) for one in atoms
    )
