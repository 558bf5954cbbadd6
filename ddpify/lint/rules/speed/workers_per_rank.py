"""Each rank starts as many loader workers as the machine has cores.

## What it does
Looks for `num_workers=os.cpu_count()` in distributed scripts.

## Why is this bad
N ranks on one machine start N times that many processes, which take the cores from each other and
from the ranks themselves.

## Example
```python
loader = DataLoader(dataset, 32, sampler=sampler, num_workers=os.cpu_count())
```
```python
import multiprocessing
cores = multiprocessing.cpu_count()
loader = DataLoader(dataset, 32, sampler=sampler, num_workers=cores)
```

## Use instead
```python
ranks_here = int(os.environ["LOCAL_WORLD_SIZE"])
loader = DataLoader(dataset, 32, sampler=sampler, num_workers=os.cpu_count() // ranks_here)
```

## Also fine
```python
loader = DataLoader(dataset, 32, sampler=sampler, num_workers=4)
other = DataLoader(dataset, 32, sampler=sampler, num_workers=min(8, os.cpu_count()))
```

## References
https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.cpu_tensors import only_source
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument

_CORES = frozenset({"os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count"})


@rule(
    "workers-per-rank",
    group="performance",
    severity=Severity.SLOW,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Loaders of a rank with the workers of a machine."""
    for call in script.calls("torch.utils.data.DataLoader"):
        given = argument(call, "num_workers", 5)
        if given is None:
            continue
        source = only_source(script, given.value) or given.value
        if isinstance(source, cst.Call) and script.names(source.func) & _CORES:
            yield Finding(given, "every rank starts a worker for each core of the machine")
