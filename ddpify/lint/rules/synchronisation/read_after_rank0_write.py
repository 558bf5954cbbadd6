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
from ddpify.lint.scripts.repairs import before, spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.libraries.paths import READ, WRITTEN, named_by
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import argument, code_of

_WRITES = ("torch.save", "numpy.save", "builtins.open")
_READS = ("torch.load", "numpy.load", "builtins.open")


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
    for write, path, guard in _guarded_writes(script):
        for read in _reads(script, write, path, guard):
            if not _meet(script, guard.statement, read):
                yield Finding(
                    read,
                    "the other ranks do not wait for this file: they may find none, or half of one",
                    _fix(script, read),
                )
            break


def _guarded_writes(script: Script) -> Iterator[tuple[cst.Call, str, Guard]]:
    """Writes under a plain ``if`` on the rank, with the code of their paths."""
    for name in _WRITES:
        for call in script.calls(name):
            path = named_by(call, WRITTEN[name])
            guards = script.control.rank_guards(call)
            if path is None or len(guards) != 1 or guards[0].left_early:
                continue
            if name != "builtins.open" or _mode(script, call) & set("wax"):
                yield call, code_of(path), guards[0]


def _reads(script: Script, write: cst.Call, path: str, guard: Guard) -> Iterator[cst.Call]:
    """Reads of a path below the condition in the same function, on all ranks."""
    structure = script.structure
    inside = set(structure.inside(guard.statement, cst.Call))
    found = []
    for name in _READS:
        for call in script.calls(name):
            given = named_by(call, READ[name])
            if given is None or code_of(given) != path or call in inside:
                continue
            if structure.order[call] < structure.order[write] or script.control.rank_guards(call):
                continue
            if _on_other_side(script, write, call):
                continue
            reading = name != "builtins.open" or not _mode(script, call) & set("wax")
            if reading and structure.function(call) is structure.function(write):
                found.append(call)
    yield from sorted(found, key=structure.order.__getitem__)


def _on_other_side(script: Script, write: cst.Call, read: cst.Call) -> bool:
    """Whether one condition, the same on all ranks, leads either to the write or to the read."""
    sides = {guard.statement: guard.positive for guard in script.control.guards(write)}
    return any(
        sides.get(guard.statement, guard.positive) is not guard.positive
        for guard in script.control.guards(read)
        if not guard.left_early
    )


def _mode(script: Script, call: cst.Call) -> set[str]:
    given = argument(call, "mode", 1)
    text = script.value(given.value).constant() if given is not None else "r"
    return set(text) if isinstance(text, str) else set("wax")


def _meet(script: Script, start: cst.CSTNode, end: cst.Call) -> bool:
    """Whether ranks wait for each other between a statement and a call below it."""
    order = script.structure.order
    for call in script.structure.all(cst.Call):
        if not order[start] < order[call] < order[end]:
            continue
        if script.collectives(call) or call in script.facts.backwards:
            return True
        held = script.value(call.func).atoms
        if not held and isinstance(call.func, (cst.Name, cst.Attribute)):
            return True  # code that ddpify cannot read
        if any(is_wrapper(atom) for atom in held) or script.trains(call):
            return True
    return False


def _fix(script: Script, read: cst.Call) -> Fix | None:
    dist = spelled(script, "torch.distributed")
    edit = before(script, read, f"{dist}.barrier()") if dist is not None else None
    if edit is None:
        return None
    alone = not script.control.guards(read) and script.structure.function(read) is None
    how = Applicability.SAFE if alone else Applicability.UNSAFE
    return Fix("wait for the file on all ranks", (edit,), how)
