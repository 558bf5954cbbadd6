"""All ranks wait for each other in every step, for nothing.

## What it does
Looks for `dist.barrier()` and `torch.cuda.empty_cache()` that run in each round of the loop over
batches.

## Why is this bad
`backward()` already makes the ranks meet. A barrier stops the GPUs once more in each step, and
`empty_cache` gives back memory that the next step must ask for again.

## Example
```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    dist.barrier()
```
```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    torch.cuda.empty_cache()
```
Times that are taken elsewhere in the loop do not need it.
```python
ended = time.time()
for x, y in loader:
    dist.barrier()
    criterion(model(x), y).backward()
    optimizer.step()
    print(time.time() - ended)
    ended = time.time()
```

## Use instead
```python
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
dist.barrier()
```

## Also fine
```python
for step, (x, y) in enumerate(loader):
    criterion(model(x), y).backward()
    optimizer.step()
    if step % 1000 == 0:
        dist.barrier()
```
```python
for x, y in loader:
    started = time.time()
    dist.barrier()
    criterion(model(x), y).backward()
    print(time.time() - started)
```

## Fix safety
Unsafe: something else in the loop may rely on the ranks meeting there, such as a file.

## References
https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import walk

_CALLS = ("torch.distributed.barrier", "torch.cuda.empty_cache")
_WAITING = frozenset({*_CALLS, "torch.cuda.synchronize"})


@rule("barrier-in-step-loop", group="performance", severity=Severity.SLOW, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Waiting beside a backward pass that waits."""
    if not any(wrap.wrapper.type == DDP for wrap in script.wraps):
        return
    steps = {
        loops[0]
        for node in script.facts.backwards
        if (loops := script.structure_of(node).loops(node))
    }
    for call in script.calls(*_CALLS):
        loops = script.structure.loops(call)
        if not loops or loops[0] not in steps or script.control.guards(call):
            continue
        if not _is_measured(script, call) and not script.control.in_try(call):
            yield Finding(
                call, "stops all ranks in each step; backward() has made them meet already"
            )


def _is_measured(script: Script, call: cst.Call) -> bool:
    """Whether a time is taken right before or after a call, for which ranks have to meet."""
    return any(
        name.startswith(("time.", "torch.cuda.Event"))
        for statement in _beside(script, call)
        for node in script.reached(statement)
        if isinstance(node, cst.Call)
        for name in script.names(node.func)
    )


def _beside(script: Script, call: cst.Call) -> list[cst.CSTNode]:
    """The statements before and after a call, but for others that only make things wait."""
    line = next(x for x in script.structure.up(call) if isinstance(x, cst.SimpleStatementLine))
    block = script.structure.parents.get(line)
    body: list[cst.CSTNode] = [*block.body] if isinstance(block, cst.IndentedBlock) else [line]
    at = body.index(line)
    sides = body[:at][::-1], body[at + 1 :]
    return [one for side in sides for one in [x for x in side if not _waits(script, x)][:1]]


def _waits(script: Script, statement: cst.CSTNode) -> bool:
    calls = [one for one in walk(statement) if isinstance(one, cst.Call)]
    return bool(calls) and all(script.names(one.func) & _WAITING for one in calls)
