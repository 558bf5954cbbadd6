"""A DistributedSampler's seed differs between ranks.

## What it does
Looks for `DistributedSampler(seed=...)` with something of the rank's own, the clock or a random
number.

## Why is this bad
The sampler shuffles all of the data and takes this rank's part. Each rank then takes its part of
another order: samples are read twice or not at all.

## Example
```python
sampler = DistributedSampler(dataset, seed=rank)
```

## Use instead
```python
sampler = DistributedSampler(dataset, seed=42)
```

## Also fine
```python
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
sampler = DistributedSampler(dataset, seed=parser.parse_args().seed)
```

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import SAMPLER
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK


@rule("sampler-seed-per-rank", group="data", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Seeds that ranks do not share."""
    for call in script.calls(SAMPLER, "torch.utils.data.DistributedSampler"):
        given = argument(call, "seed", 4)
        if given is not None and script.labels(given.value) & (ANY_RANK | {CLOCK}):
            yield Finding(
                given, "each rank shuffles differently: samples are read twice or not at all"
            )
