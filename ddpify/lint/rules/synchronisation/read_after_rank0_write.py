"""Other ranks read a file that rank 0 may not have written yet.

## What it does
Looks for files that are written under a condition on the rank and read by all ranks, with nothing
between that makes them wait.

## Why is this bad
Nothing tells the others that the file is there. They read an old one or half of one, or find none
and fail.

## Example
```python
if rank == 0:
    torch.save(net.state_dict(), path)
state = torch.load(path, map_location=device)
```
```python
def prepare(cache):
    if dist.get_rank() == 0:
        np.save(cache, np.zeros(10))
    table = np.load(cache)
    return table
prepare("table.npy")
```
```python
if rank == 0:
    with open("vocabulary.json", "w") as file:
        json.dump({"a": 1}, file)
with open("vocabulary.json") as file:
    vocabulary = json.load(file)
```

## Use instead
```python
if rank == 0:
    torch.save(net.state_dict(), path)
dist.barrier()
state = torch.load(path, map_location=device)
```

## Also fine
Another file, the same rank, and ranks that have met in between.
```python
if rank == 0:
    torch.save(net.state_dict(), path)
    again = torch.load(path, map_location=device)
start = torch.load("start.pt", map_location=device)
```
```python
if rank == 0:
    torch.save(net.state_dict(), path)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
state = torch.load(path, map_location=device)
```
```python
if not os.path.exists("table.pt"):
    if rank == 0:
        torch.save(net.state_dict(), "table.pt")
else:
    table = torch.load("table.pt", map_location=device)
```
```python
def meet():
    if world_size > 1:
        dist.barrier()
if rank == 0:
    torch.save(net.state_dict(), path)
meet()
state = torch.load(path, map_location=device)
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.file_acts import Act, are_of_one_file, reads, writes
from ddpify.lint.scripts.repairs import before, spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.structure import Guard, Structure


@rule(
    "read-after-rank0-write",
    group="synchronisation",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="safe unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Reads on all ranks, soon after a write on some, of one file."""
    for write in writes(script):
        guard = _condition(script, write)
        for read in _reads_after(script, write, guard) if write.guards else ():
            if not _meet(script, guard.statement if guard else write.place, write, read):
                yield Finding(
                    read.place,
                    "the other ranks do not wait for this file: they may find none, or half of one",
                    _fix(script, read.place),
                )
            break


def _condition(script: Script, write: Act) -> Guard | None:
    """The condition on the rank in the function where a write, or the call of its helper, is."""
    here = [one for one in write.guards if one.statement in script.structure.order]
    function = script.structure.function(write.place)
    around = [x for x in here if script.structure.function(x.statement) is function]
    return around[0] if around else None


def _reads_after(script: Script, write: Act, guard: Guard | None) -> Iterator[Act]:
    """Reads of the file below the condition in the same function, on all ranks."""
    structure = script.structure
    if len(write.guards) != 1 or (guard is not None and guard.left_early):
        return
    inside = set(structure.inside(guard.statement, cst.Call)) if guard is not None else set()
    function = structure.function(write.place)
    found = [
        one
        for one in reads(script)
        if structure.function(one.place) is function
        and structure.order[one.place] > structure.order[write.place]
        and one.place not in inside
        and not one.guards
        and not _is_within(structure, one.place, write.place)
        and not _on_other_side(script, write.place, one.place)
        and are_of_one_file(script, write, one)
    ]
    yield from sorted(found, key=lambda one: structure.order[one.place])


def _is_within(structure: Structure, inner: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Whether a call is an argument of another, and runs before it."""
    return outer in structure.up(inner)


def _on_other_side(script: Script, write: cst.Call, read: cst.Call) -> bool:
    """Whether one condition, the same on all ranks, leads either to the write or to the read."""
    sides = {guard.statement: guard.positive for guard in script.control.guards(write)}
    return any(
        sides.get(guard.statement, guard.positive) is not guard.positive
        for guard in script.control.guards(read)
        if not guard.left_early
    )


def _meet(script: Script, start: cst.CSTNode, write: Act, read: Act) -> bool:
    """Whether ranks wait for each other between a write and a read: where both stand, or in the
    helpers around one of them.
    """
    order = script.structure.order
    between = [x for x in script.structure.all(cst.Call) if order[start] < order[x]]
    return (
        any(_waits(script, one) for one in between if order[one] < order[read.place])
        or any(_waits_in_helper(script, write, after=True))
        or any(_waits_in_helper(script, read, after=False))
    )


def _waits_in_helper(script: Script, act: Act, *, after: bool) -> Iterator[bool]:
    """For each call after a write, or before a read, in the functions on the way to it."""
    node: cst.CSTNode = act.itself
    while node is not act.place:
        structure = script.structure_of(node)
        function = structure.function(node)
        if function is None:
            return
        for call in structure.inside(function.body, cst.Call):
            if (structure.order[call] > structure.order[node]) is after and call is not node:
                yield _waits(script, call)
        sites = [x.node for x in script.control.callers(function)]
        if act.place in sites or len(sites) != 1:
            return
        node = sites[0]


def _waits(script: Script, call: cst.Call) -> bool:
    if script.collectives(call) or call in script.facts.backwards:
        return True
    held = script.value(call.func).atoms
    if not held and isinstance(call.func, (cst.Name, cst.Attribute)):
        return True  # code that ddpify cannot read
    return any(is_wrapper(atom) for atom in held) or script.trains(call)


def _fix(script: Script, read: cst.Call) -> Fix | None:
    dist = spelled(script, "torch.distributed")
    edit = before(script, read, f"{dist}.barrier()") if dist is not None else None
    if edit is None:
        return None
    alone = not script.control.guards(read) and script.structure.function(read) is None
    how = Applicability.SAFE if alone else Applicability.UNSAFE
    return Fix("wait for the file on all ranks", (edit,), how)
