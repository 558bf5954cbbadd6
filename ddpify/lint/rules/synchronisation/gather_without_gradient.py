"""What is gathered into the loss has no gradient, not even the rank's own part.

## What it does
Looks for results of `all_gather` that go into a loss, without this rank's tensor put back in its
place.

## Why is this bad
`all_gather` fills fresh tensors that do not require gradients. A contrastive loss over them trains
on whatever is left of the graph, or on nothing, without an error.

## Example
```python
for x, y in loader:
    z = model(x)
    everyone = [torch.zeros_like(z) for _ in range(world_size)]
    dist.all_gather(everyone, z)
    loss = criterion(torch.cat(everyone) @ z.t(), y)
    loss.backward()
```
```python
def gather(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts, dim=0)

for x, y in loader:
    features = gather(model(x))
    loss = (features @ features.t()).logsumexp(0).mean()
    loss.backward()
    optimizer.step()
```

```python
class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 4)

    def forward(self, x):
        z = self.encoder(x)
        parts = [torch.zeros_like(z) for _ in range(world_size)]
        dist.all_gather(parts, z)
        logits = torch.cat(parts)
        return F.cross_entropy(logits @ logits.t(), torch.arange(len(logits), device=z.device))

contrastive = DDP(Contrastive().to(device), device_ids=[local_rank])
for x, y in loader:
    contrastive(x).backward()
```

## Use instead
```python
for x, y in loader:
    z = model(x)
    everyone = [torch.zeros_like(z) for _ in range(world_size)]
    dist.all_gather(everyone, z)
    everyone[rank] = z
    loss = criterion(torch.cat(everyone) @ z.t(), y)
    loss.backward()
```

## Also fine
Labels, which have no gradient, keys and metrics that need none, and a differentiable collective.
```python
import torch.distributed.nn
for x, y in loader:
    z = model(x)
    labels = [torch.zeros_like(y) for _ in range(world_size)]
    dist.all_gather(labels, y)
    everyone = torch.distributed.nn.all_gather(z)
    loss = criterion(torch.cat(everyone), torch.cat(labels))
    loss.backward()
```
```python
@torch.no_grad()
def gather(tensor):
    parts = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(parts, tensor)
    return torch.cat(parts, dim=0)

for x, y in loader:
    z = model(x)
    keys = gather(z)
    loss = criterion(z @ keys.t(), y)
    loss.backward()
```
```python
for x, y in loader:
    z = model(x)
    parts = [torch.zeros_like(z) for _ in range(world_size)]
    dist.all_gather(parts, z.detach())
    loss = criterion(z @ torch.cat(parts).t(), y)
    loss.backward()
```

```python
class Queued(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 4)
        self.queue = torch.zeros(64, 4)

    def forward(self, x):
        z = self.encoder(x)
        parts = [torch.zeros_like(z) for _ in range(world_size)]
        dist.all_gather(parts, z)
        self.queue = torch.cat([*parts, self.queue])[:64].detach()
        return F.cross_entropy(z @ self.queue.t(), torch.zeros(len(z), device=z.device).long())

queued = DDP(Queued().to(device), device_ids=[local_rank])
for x, y in loader:
    queued(x).backward()
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.loss_inputs import takes
from ddpify.lint.scripts.model_outputs import is_in_output
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.locations import Location

_GATHERS = {
    "torch.distributed.all_gather": ("tensor_list", "tensor"),
    "torch.distributed.all_gather_into_tensor": ("output_tensor", "input_tensor"),
    "torch.distributed.all_gather_single": ("output", "input"),
    "torch.distributed._all_gather_base": ("output_tensor", "input_tensor"),
}
_FUNCTION = "torch.autograd.Function"
_CUTTING = ("detach", "detach_", "data", "item")


@rule(
    "gather-without-gradient",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Gathers of the model's output whose result a loss is made of."""
    for name, (output, source) in _GATHERS.items():
        for call in script.calls(name):
            to, sent = argument(call, output, 0), argument(call, source, 1)
            if to is None or sent is None or script.control.without_grad(call):
                continue
            if _is_detached(script, sent.value) or _is_differentiated(script, call):
                continue
            locations = script.flow.locations(to.value, script.module)
            if _is_put_back(script, locations) or _is_put_beside(script, locations, sent.value):
                continue
            made = script.flow.derived(locations)
            in_loss = bool(made & script.loss_locations) and _has_gradient(script, sent.value)
            if in_loss or is_in_output(script, call, sent.value, made):
                yield Finding(
                    call,
                    "what is gathered has no gradient, this rank's own part included: the loss"
                    " does not train through it",
                )


def _is_detached(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a tensor is cut off from its graph, or made anew of numbers, here or by a name."""
    sources = [node]
    for edge in script.flow.edges_into(script.flow.locations(node, script.module)):
        sources += [edge.node.value] if isinstance(edge.node, cst.Assign) else []
    return any(
        (isinstance(one, cst.Attribute) and one.attr.value in _CUTTING)
        or (isinstance(one, cst.Call) and any(map(_makes_anew, script.names(one.func))))
        for source in sources
        for one in walk(source)
    )


def _makes_anew(name: str) -> bool:
    """``torch.LongTensor([n])``, ``torch.tensor(n)``."""
    known = ("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.frombuffer")
    return name in known or (name.startswith("torch.") and name.endswith(("Tensor", "Storage")))


def _is_differentiated(script: Script, call: cst.Call) -> bool:
    """Whether the call is the forward of an autograd function, which has its own backward."""
    owner = script.structure.class_of(call)
    return owner is not None and any(_FUNCTION in script.names(one.value) for one in owner.bases)


def _has_gradient(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a tensor is made of what a wrapped model gives, in a pass that is differentiated."""
    starts: set[Location] = set()
    for structure in script.structures.values():
        for call in structure.all(cst.Call):
            wrapped = any(is_wrapper(atom) for atom in script.value(call.func).atoms)
            if not wrapped or script.control.without_grad(call):
                continue
            if any(one is call for one in walk(node)):
                return True
            starts |= takes(script, call)
    return bool(script.flow.derived(starts) & script.flow.locations(node, script.module))


def _is_put_back(script: Script, locations: set[Location]) -> bool:
    """``gathered[rank] = own``, or an assignment to a slice."""
    items = [one.target for one in script.structure.all(cst.AssignTarget)]
    return any(
        isinstance(item, cst.Subscript)
        and script.flow.locations(item.value, script.module) & locations
        for item in items
    )


def _is_put_beside(script: Script, locations: set[Location], own: cst.BaseExpression) -> bool:
    """``[own, *gathered[:rank], *gathered[rank + 1 :]]``, or the same as a sum of lists."""
    owned = script.flow.locations(own, script.module)
    return any(
        _takes_slice(script, one, locations)
        and any(
            isinstance(element.value, (cst.Name, cst.Attribute))
            and not owned.isdisjoint(script.flow.locations(element.value, script.module))
            for display in walk(one)
            if isinstance(display, (cst.List, cst.Tuple))
            for element in display.elements
        )
        for one in script.structure.all(cst.BinaryOperation, cst.List, cst.Tuple)
    )


def _takes_slice(script: Script, node: cst.CSTNode, locations: set[Location]) -> bool:
    """Whether a part of what was gathered is in an expression, by numbers from and to."""
    return any(
        isinstance(one, cst.Subscript)
        and any(isinstance(part.slice, cst.Slice) for part in one.slice)
        and not locations.isdisjoint(script.flow.locations(one.value, script.module))
        for one in walk(node)
    )
