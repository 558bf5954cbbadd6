"""One rank of every node writes the same file.

## What it does
Looks for `torch.save` under a condition on the local rank.

## Why is this bad
On several nodes with a shared file system, as many processes write the file as there are nodes,
and it may be corrupt.

## Example
```python
if local_rank == 0:
    torch.save(net.state_dict(), path)
```

## Use instead
```python
if rank == 0:
    torch.save(net.state_dict(), path)
```

## Also fine
Files of the node itself.
```python
if local_rank == 0:
    torch.save(net.state_dict(), "/tmp/model.pt")
```

## When not to follow it
On a single node, and for files that each node needs.

## References
https://github.com/NVIDIA/apex/issues/886
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.labels.origins import LOCAL_RANK, RANK, SPAWNED, TOLD
from ddpify.understanding.syntax import argument


@rule(
    "local-rank-guarded-write", group="checkpoint", severity=Severity.SILENT, applies="distributed"
)
def check(script: Script) -> Iterator[Finding]:
    """Saves that one rank of each node makes."""
    for call in script.calls("torch.save"):
        labels = [script.labels(guard.test) for guard in script.control.rank_guards(call)]
        if not labels or any(one & {RANK, SPAWNED, TOLD} for one in labels):
            continue
        given = argument(call, "f", 1)
        if given is None or "tmp" in script.code(given.value, 200).lower():
            continue
        if all(LOCAL_RANK in one for one in labels):
            yield Finding(
                call, "one rank of every node writes this file: on several nodes it may be corrupt"
            )
