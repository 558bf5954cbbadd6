"""The wrapper looks for unused parameters where there are none.

## What it does
Looks for `find_unused_parameters=True` with models of the project whose forward uses every layer,
always.

## Why is this bad
Before each backward pass, the wrapper walks through the whole graph to find what is not used, and
it overlaps less of the communication. Nothing is gained.

## Example
```python
model = DDP(net, device_ids=[local_rank], find_unused_parameters=True)
```
```python
class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), Net())
        self.heads = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x):
        x = self.body(x)
        for head in self.heads:
            x = head(x)
        return x

model = DDP(Stacked().to(device), find_unused_parameters=True)
```

## Use instead
```python
model = DDP(net, device_ids=[local_rank])
```

## Also fine
A branch that is not always taken, one of several results, and models that are not seen.
```python
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x, deep=False):
        if deep:
            return self.l2(x)
        return self.l1(x)

model = DDP(Branched().to(device), find_unused_parameters=True)
```
```python
class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x), self.l2(x)

model = DDP(Twins().to(device), find_unused_parameters=True)
```
```python
from somewhere import build
class Built(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.head = build(), build().body, nn.Linear(10, 2)

    def forward(self, x):
        return self.head(self.body(self.stem(x)))

model = DDP(Built().to(device), find_unused_parameters=True)
```
```python
class Optional(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.norm = nn.LayerNorm(2) if norm else None

    def forward(self, x):
        x = self.l1(x)
        if self.norm is not None:
            x = self.norm(x)
        return x

model = DDP(Optional().to(device), find_unused_parameters=True)
```
```python
class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 2)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.l1(x)

model = DDP(Halves().to(device), find_unused_parameters=True)
```

```python
model = DDP(net, find_unused_parameters=True, static_graph=True)
```

## Fix safety
Unsafe: a loss that leaves out part of the output has unused parameters too.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.forward_use import uses_everything
from ddpify.lint.scripts.repairs import drop_argument
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.spread_options import option
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument

_MESSAGE = "every forward uses all layers: the search before each backward only costs time"


@rule(
    "find-unused-without-need",
    group="performance",
    severity=Severity.SLOW,
    applies="distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Searches for what cannot be there."""
    for wrap in script.wraps:
        if wrap.wrapper.type != DDP or wrap.site.module is not script.module:
            continue
        given = argument(wrap.call, "find_unused_parameters")
        told = option(script, wrap.call, "find_unused_parameters")
        if told is None or script.value(told).constant() is not True:
            continue
        if _is_static(script, wrap):
            continue
        if wrap.held and all(uses_everything(script, model) for model in wrap.held):
            fix = None
            if given is not None:
                edit = drop_argument(script, wrap.call, given)
                fix = Fix("do not search", (edit,), Applicability.UNSAFE)
            yield Finding(given or wrap.call, _MESSAGE, fix)


def _is_static(script: Script, wrap: Wrap) -> bool:
    """Whether a wrapper takes its first round for all: it does not search again."""
    told = option(script, wrap.call, "static_graph")
    return told is not None and script.value(told).constant() is not False
