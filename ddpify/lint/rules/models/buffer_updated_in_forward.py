"""A buffer follows one rank's samples.

## What it does
Looks for modules whose `forward` updates a registered buffer from its input, without a collective:
an EMA codebook, a centre, a queue, running statistics.

## Why is this bad
Each rank updates the buffer from its own slice of the batch. Before the next forward,
DistributedDataParallel overwrites all of them with rank 0's: the samples of the others never
count.

## Example
```python
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.register_buffer("centre", torch.zeros(10))

    def forward(self, x):
        self.centre = 0.9 * self.centre + 0.1 * x.mean(0)
        return self.l1(x - self.centre)

model = DDP(Centred().to(device), device_ids=[local_rank])
```
```python
class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("embed", torch.randn(10, 4))

    def update(self, flat, onehot):
        self.embed.data.mul_(0.99).add_(flat.t() @ onehot, alpha=0.01)

    def forward(self, x):
        onehot = F.one_hot((x @ self.embed).argmax(-1), 4).float()
        if self.training:
            self.update(x, onehot)
        return onehot @ self.embed.t()

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.quantise = Codebook()

    def forward(self, x):
        return self.quantise(self.l1(x))

model = DDP(Outer().to(device), device_ids=[local_rank])
```

## Use instead
```python
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.register_buffer("centre", torch.zeros(10))

    def forward(self, x):
        mean = x.detach().mean(0)
        dist.all_reduce(mean)
        self.centre = 0.9 * self.centre + 0.1 * mean / world_size
        return self.l1(x - self.centre)

model = DDP(Centred().to(device), device_ids=[local_rank])
```

## Also fine
Counters, tables that depend on the shape alone, and what is computed from the parameters.
```python
class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("mask", torch.zeros(0, 0))
        self.register_buffer("norm", torch.zeros(1))

    def forward(self, x):
        self.steps += 1
        if self.mask.shape[0] != x.shape[0]:
            self.mask = torch.ones(x.shape[0], x.size(1))
        self.norm.copy_(self.l1.weight.norm())
        return self.l1(x)

model = DDP(Counted().to(device), device_ids=[local_rank])
```

## References
https://github.com/lucidrains/vector-quantize-pytorch/pull/17
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.batching import in_place_writes
from ddpify.understanding.model_structure import layers
from ddpify.understanding.syntax import parameters
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Class, Function


@rule(
    "buffer-updated-in-forward",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Updates of buffers from the rows of a batch."""
    reported: set[cst.CSTNode] = set()
    for model in (model for wrap in script.wraps for model in wrap.held):
        for layer in layers(model):
            if not isinstance(layer.type, Class) or layer.type.node in reported:
                continue
            reported.add(layer.type.node)
            node = _update(script, layer.type)
            if node is not None and script.owners.get(node) is script.module:
                yield Finding(
                    node,
                    "each rank updates this buffer from its own samples, and rank 0's"
                    " overwrites the others",
                )


def _update(script: Script, kind: Class) -> cst.CSTNode | None:
    """The place where a class's forward updates one of its buffers from its input."""
    found = kind.find("forward")
    functions = list(found.of(Function)) if found is not None else []
    buffers = _buffers(script, kind)
    for function in functions if buffers else ():
        assert isinstance(function, Function)
        if script.collectives(function.node) or not isinstance(function.node, cst.FunctionDef):
            return None
        reached = script.reached(function.node)
        writes = [node for node in reached if _writes(script, kind, node, buffers)]
        rows = script.flow.derived(_given(function.node)) if writes else set[Location]()
        for node in writes:
            sources = in_place_writes.sources(node)
            owner = script.owners[node]
            if any(script.flow.locations(source, owner) & rows for source in sources):
                return node
    return None


def _given(function: cst.FunctionDef) -> set[Location]:
    """The slots of a forward's arguments, itself excepted."""
    return {("name", function, one.name.value) for one in parameters(function)[1:]}


def _buffers(script: Script, kind: Class) -> set[str]:
    """The names under which a class registers buffers."""
    found = set()
    for call in script.structure_of(kind.node).inside(kind.node, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "register_buffer":
            name = script.value(call.args[0].value).constant() if call.args else ...
            if isinstance(name, str):
                found.add(name)
    return found


def _writes(script: Script, kind: Class, node: cst.CSTNode, buffers: set[str]) -> bool:
    """Whether a statement or call changes a buffer of an object of the class."""
    return any(_attribute_of(script, kind, one) in buffers for one in in_place_writes.targets(node))


def _attribute_of(script: Script, kind: Class, node: cst.BaseExpression) -> str | None:
    """The attribute of an object of the class through which a target is reached."""
    for holder in in_place_writes.holders(node):
        owners = script.instances(holder.value) if isinstance(holder, cst.Attribute) else ()
        if any(one.type is kind for one in owners):
            return holder.attr.value  # type: ignore[union-attr]
    return None
