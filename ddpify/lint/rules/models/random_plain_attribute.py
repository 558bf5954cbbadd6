"""A random tensor of the model is another one on each rank.

## What it does
Looks for modules that keep a random tensor as a plain attribute, neither parameter nor buffer, and
use it in `forward`, without a common seed.

## Why is this bad
DistributedDataParallel sends rank 0's parameters and buffers to all when it is made. A plain tensor
is neither: each rank has its own, and the ranks train different functions. It is missing from
checkpoints as well.

## Example
```python
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.projection = torch.randn(10, 10)

    def forward(self, x):
        return self.l1(x @ self.projection.to(x.device))

model = DDP(Projected().to(device), device_ids=[local_rank])
```
```python
class Features(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.frequencies = scale * torch.rand(10, device=device)

    def forward(self, x):
        return torch.sin(x * self.frequencies)

model = DDP(nn.Sequential(Features(3.0), nn.Linear(10, 2)).to(device), device_ids=[local_rank])
```

## Use instead
```python
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.register_buffer("projection", torch.randn(10, 10))

    def forward(self, x):
        return self.l1(x @ self.projection)

model = DDP(Projected().to(device), device_ids=[local_rank])
```

## Also fine
A parameter, a tensor that is not used in forward, and a common seed.
```python
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(10, 2))
        self.example = torch.rand(1, 10)

    def forward(self, x):
        return x @ self.weight

model = DDP(Projected().to(device), device_ids=[local_rank])
```
```python
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.projection = torch.randn(10, 10)

    def forward(self, x):
        return self.l1(x @ self.projection.to(x.device))

torch.manual_seed(0)
model = DDP(Projected().to(device), device_ids=[local_rank])
```

## Fix safety
Unsafe: the buffer is a new entry of checkpoints.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.forward_use import forward_of
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import agreed
from ddpify.understanding.model_structure import layers
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import draws
from ddpify.understanding.values import Class

_MAKES = ("torch.rand", "torch.randn", "torch.randint", "torch.normal", "torch.randperm")


@rule(
    "random-plain-attribute",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Random tensors that nothing sends to the other ranks."""
    if agreed(script, "torch"):
        return
    seen: set[cst.CSTNode] = set()
    for wrap in script.wraps:
        for layer in (one for model in wrap.held for one in layers(model)):
            if not isinstance(layer.type, Class) or layer.type.node in seen:
                continue
            seen.add(layer.type.node)
            for statement, target in _random_attributes(script, layer.type):
                owner, name = code_of(target.value), target.attr.value
                code = f'{owner}.register_buffer("{name}", {code_of(statement.value)})'
                yield Finding(
                    statement,
                    "each rank draws its own: a plain tensor is not sent from rank 0, a buffer is",
                    script.replace(statement, code, "make it a buffer", Applicability.UNSAFE),
                )


def _random_attributes(script: Script, kind: Class) -> Iterator[tuple[cst.Assign, cst.Attribute]]:
    """The assignments of random tensors that the forward of a class reads."""
    forward = forward_of(kind)
    if forward is None or script.owners.get(kind.node) is not script.module:
        return
    read = {n.attr.value for n in script.reached(forward) if isinstance(n, cst.Attribute)}
    for statement in script.structure.inside(kind.node.body, cst.Assign):
        target = statement.targets[0].target
        function = script.structure.function(statement)
        made = function is not None and function.name.value == "__init__"
        if not made or not isinstance(target, cst.Attribute) or target.attr.value not in read:
            continue
        ours = any(one.type is kind for one in script.instances(target.value))
        if ours and _is_random_tensor(script, statement.value):
            yield statement, target


def _is_random_tensor(script: Script, node: cst.BaseExpression) -> bool:
    """A draw, or arithmetic with one; what a class or another function makes of it is not seen."""
    if isinstance(node, cst.BinaryOperation):
        return _is_random_tensor(script, node.left) or _is_random_tensor(script, node.right)
    if not isinstance(node, cst.Call) or any(
        one.keyword is not None and one.keyword.value == "generator" for one in node.args
    ):
        return False
    return any(name in _MAKES and draws(name) for name in script.names(node.func))
