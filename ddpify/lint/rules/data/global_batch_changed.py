"""With more ranks the global batch grows, and the learning rate stays.

## What it does
In a script of one process, points at the batch size of training loaders. With `--strict` also in
distributed scripts whose batch size does not depend on the number of ranks.

## Why is this bad
N ranks with B samples each step on N times B: another optimisation problem, for which the learning
rate, the warm-up and the number of steps were not chosen.

## Example
```python strict
batches = DataLoader(dataset, batch_size=64)
for x, y in batches:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
loader = DataLoader(dataset, batch_size=64 // world_size, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
A batch size that is meant for each rank, with a learning rate to match.
```python
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * world_size)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rates import COUNTS, rate_knows_ranks
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument


@rule("global-batch-changed", group="data", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Batch sizes of training loaders that do not know the number of ranks."""
    if not script.strict or script.has_runtime or not script.wraps or rate_knows_ranks(script):
        return
    for loader in script.training_loaders:
        call = loader.site
        if not isinstance(call, cst.Call) or loader.module is not script.module:
            continue
        given = argument(call, "batch_size", 1)
        if given is None:
            continue
        if not script.flow.sources(given.value, script.module) & COUNTS:
            yield Finding(
                given, "each rank takes this many samples: the global batch grows with them"
            )
