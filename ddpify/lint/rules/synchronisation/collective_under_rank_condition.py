"""Some ranks call a collective that the others never reach.

## What it does
Looks for collectives (`all_reduce`, `broadcast`, `barrier`, ... and the making of a DDP or FSDP
object) that run only under a condition on the rank, without a partner for the other ranks.

## Why is this bad
A collective waits for all ranks. Those that are there wait for those that never come: the job
hangs until the timeout, or the call pairs with a later one and gives wrong numbers.

## Example
```python
if rank == 0:
    torch.save(net.state_dict(), path)
    dist.barrier()
```
```python
if rank < 4:
    group = dist.new_group([0, 1, 2, 3])
```

```python
def evaluate(model, distributed):
    losses = []
    for x, y in loader:
        losses.append(criterion(model(x), y).item())
    if not losses:
        return 0.0
    total = torch.tensor(losses, device=device).mean()
    if distributed:
        dist.all_reduce(total)
    return total.item()

net2, several = Net().to(device), world_size > 1
if several:
    net2 = DDP(net2, device_ids=[local_rank])
if rank == 0:
    evaluate(net2, several)
```

## Use instead
```python
if rank == 0:
    torch.save(net.state_dict(), path)
dist.barrier()
```

## Also fine
Both branches take part, and conditions that are the same on all ranks.
```python
x = torch.zeros(1, device=device)
if rank == 0:
    x += 1
    dist.broadcast(x, 0)
else:
    dist.broadcast(x, 0)
if world_size > 1:
    dist.all_reduce(x)
if dist.is_initialized():
    dist.barrier()
```
```python
if local_rank != 0:
    dist.barrier()
data = torch.load("data.pt", map_location="cpu")
if local_rank == 0:
    dist.barrier()
```

A method of a plain model that rank 0 alone calls: all ranks call the function with the collective.
```python
class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 10)

    def forward(self, x):
        return self.layer(x)

    def generate(self, x):
        for _ in range(3):
            x = self.forward(x)
        return x

def evaluate(model):
    losses = []
    for x, y in loader:
        losses.append(criterion(model(x), y).item())
    if not losses:
        return 0.0
    total = torch.tensor(losses, device=device).mean()
    dist.all_reduce(total)
    return total.item()

writer = Writer().to(device)
evaluate(writer)
if rank == 0:
    prompt = torch.zeros(1, 10, device=device)
    writer.generate(prompt)
```

A group of its own, after rank 0 has left that of all ranks.
```python
def leave():
    if dist.is_initialized():
        dist.destroy_process_group()

if rank == 0:
    leave()
    dist.init_process_group("gloo", init_method="file:///tmp/alone", rank=0, world_size=1)
    dist.all_reduce(torch.zeros(1))
```

## When not to follow it
Where the condition is membership of the group that is given.

## References
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.collective_calls import reached_collective
from ddpify.lint.scripts.group_state import has_left
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.set_by_rank import object_guards
from ddpify.understanding.libraries.distributed import has_group
from ddpify.understanding.structure import Guard, leaves


@rule(
    "collective-under-rank-condition",
    group="synchronisation",
    severity=Severity.HANG,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Collectives that only some ranks reach, here or through a function that is called."""
    for call in script.structure.all(cst.Call):
        own = script.control.rank_guards(call, in_turn=True)  # no rank takes part for the others
        guards = [*own, *object_guards(script.control, call)]
        if not guards or has_group(call, script.names(call.func)):
            continue
        if not script.strict and has_left(script.control, call):
            continue
        name = reached_collective(script, call)
        if name is None or _are_answered(script, guards, call, name):
            continue
        yield Finding(
            call,
            f"only some ranks reach {name.rsplit('.', 1)[-1].rstrip('()')}(), the others never do:"
            " this hangs",
        )
    yield from _loops(script)


def _loops(script: Script) -> Iterator[Finding]:
    """Loops over loaders of ddpify's runtime, whose ranks agree on the order at each start."""
    for loop in script.structure.all(cst.For):
        if script.control.rank_guards(loop) and any(
            one in script.facts.runtime.shared for one in script.loaders_in(loop.iter)
        ):
            yield Finding(
                loop.iter,
                "only some ranks start this loop, in which all must agree on the order of the"
                " samples: this hangs",
            )


def _only_leaves(statement: cst.If) -> bool:
    return statement.orelse is None and leaves(statement.body)


def _rest_of_function(script: Script, statement: cst.If) -> list[cst.CSTNode]:
    """What runs after a statement, in its block and in those around it."""
    found: list[cst.CSTNode] = []
    below: cst.CSTNode = statement
    for above in script.structure.up(statement):
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            body: list[cst.CSTNode] = list(above.body)
            found += body[body.index(below) + 1 :]
        below = above
    return found


def _are_answered(script: Script, guards: list[Guard], call: cst.Call, name: str) -> bool:
    """Whether other ranks meet the same collective, and none of them has left before it."""
    answered = [one for one in guards if _is_answered(script, one, call, name)]
    return bool(answered) and all(one in answered for one in guards if one.left_early)


def _is_answered(script: Script, guard: Guard, call: cst.Call, name: str) -> bool:
    """Whether other ranks meet the same collective: in the other branch, or under another test."""
    statement = guard.statement
    if isinstance(statement, (cst.If, cst.IfExp)):
        other = statement.orelse if guard.positive else statement.body
        others: list[cst.CSTNode] = [other] if other is not None else []
        if guard.positive and isinstance(statement, cst.If) and _only_leaves(statement):
            others = _rest_of_function(script, statement)
        if any(name == found for one in others for found, _ in script.collectives(one)):
            return True
    function = script.structure.function(call)
    whole: cst.CSTNode = function if function is not None else script.module.tree
    for found, node in script.collectives(whole):
        if found != name or node is call:
            continue
        theirs = script.control.rank_guards(node)
        if theirs and all(one.statement is not guard.statement for one in theirs):
            return True
    return False
