"""A checkpoint is loaded to the GPU that saved it, on every rank.

## What it does
Looks for `torch.load` of a state without `map_location`, or with a literal GPU.

## Why is this bad
Tensors come back on the device that they were saved from: all ranks of a node put a copy on
GPU 0, which runs out of memory, and a node without such a GPU fails.

## Example
```python
net.load_state_dict(torch.load(path))
```

## Use instead
```python
net.load_state_dict(torch.load(path, map_location="cpu"))
```

## Also fine
A file with data rather than a model's state.
```python
vocabulary = torch.load("vocab.pt")
net.load_state_dict(torch.load(path, map_location=device))
```

## Fix safety
Safe: `load_state_dict` copies into the parameters where they are.

## References
https://github.com/pytorch/pytorch/issues/23138
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import SINGLE, Finding, rule
from ddpify.lint.repairs import add_argument
from ddpify.lint.script import Script, argument, spreads
from ddpify.understanding.labels.slots import Slot
from ddpify.understanding.structure import walk


@rule(
    "load-without-map-location",
    group="device",
    severity=Severity.CRASH,
    applies="single distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Loads of states, without a device or to one GPU."""
    loads = script.calls("torch.load")
    states = _states(script) if loads else set()
    for call in loads:
        if spreads(call) or not _is_state(script, call, states) or _is_unpacked(script, call):
            continue
        if script.kind != SINGLE and script.control.may_be_guarded(call):
            continue
        given = argument(call, "map_location", 1)
        if given is None and _is_the_other_case(script, call):
            continue
        if given is None:
            fix = add_argument(script, call, 'map_location="cpu"', "load into main memory first")
            yield Finding(
                call, "every rank loads to the GPU that saved the file, GPU 0 as a rule", fix
            )
        elif isinstance(given.value, cst.SimpleString) and _names_gpu(given.value):
            fix = script.replace(given.value, '"cpu"', "load into main memory first")
            yield Finding(given, "every rank loads to the same GPU", fix)


def _is_unpacked(script: Script, call: cst.Call) -> bool:
    """``data, _ = torch.load(f)``: a cache of data, not a checkpoint."""
    above = script.structure.parents.get(call)
    return isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Tuple)


def _is_the_other_case(script: Script, call: cst.Call) -> bool:
    """``if gpu is None: load(f) else: load(f, map_location=...)``: with a GPU of its own, a rank
    takes the other branch.
    """
    for guard in script.control.guards(call):
        if isinstance(guard.statement, cst.If) and guard.statement.orelse is not None:
            other = guard.statement.orelse if guard.positive else guard.statement.body
            for node in walk(other):
                if isinstance(node, cst.Call) and "torch.load" in script.names(node.func):
                    return argument(node, "map_location", 1) is not None
    return False


def _names_gpu(node: cst.SimpleString) -> bool:
    return str(node.evaluated_value).startswith("cuda:")


def _states(script: Script) -> set[Slot]:
    """Names from which a `load_state_dict` gets its state."""
    made: dict[Slot, set[Slot]] = {}
    for move in script.flow.moves:
        for slot in move.targets:
            made.setdefault(slot, set()).update(d.slot for d in move.source if d.slot is not None)
    todo = [slot for call in _consumers(script) for a in call.args
            for slot in script.flow.slots(a.value, script.owners[call])]  # fmt: skip
    found = set(todo)
    while todo:
        fresh = made.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


def _consumers(script: Script) -> list[cst.Call]:
    return list(script.method_calls("load_state_dict", everywhere=True))


def _is_state(script: Script, call: cst.Call, states: set[Slot]) -> bool:
    """Whether what is loaded goes, at once or by a name, into `load_state_dict`."""
    consumers = _consumers(script)
    for above in script.structure.up(call):
        if above in consumers:
            return True
        if isinstance(above, (cst.Assign, cst.AnnAssign, cst.Return)):
            return any(m.node is above and states & set(m.targets) for m in script.flow.moves)
        if isinstance(above, cst.BaseStatement):
            return False
    return False
