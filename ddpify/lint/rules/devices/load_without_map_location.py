"""A checkpoint is loaded to the GPU that saved it, on every rank.

## What it does
Looks for `torch.load` of a model or its state without `map_location`, or with a literal GPU.

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

Data, also where a model is made by its size.
```python
class Sized(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.layer = nn.Linear(rows.shape[1], 2)

    def forward(self, x):
        return self.layer(x)

rows = torch.load("rows.pt")
sized = DDP(Sized(rows).to(device))
for x, y in loader:
    criterion(sized(x), y).backward()
```

## Fix safety
Safe: `load_state_dict` copies into the parameters where they are. A model that was saved whole
stays where it is loaded: it gets no fix, but `map_location` should name the rank's device.

## References
https://github.com/pytorch/pytorch/issues/23138
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.one_gpu import is_one_gpu
from ddpify.lint.scripts.rendezvous import may_be_alone_on_its_node
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.saved_from_memory import may_be_saved_from_memory
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of, spreads
from ddpify.understanding.taint.saved_models import Checkpoints
from ddpify.understanding.taint.sources import ANY_RANK

# Words that make it doubtful that a state has tensors. They only ever silence the rule.
_ASKS_GPU = re.compile(r"(?i)gpu|cuda|device|rank|distributed|ddp")  # as a word of a condition
_SCHEDULES = re.compile(r"(?i)sched|scaler")


@rule(
    "load-without-map-location",
    group="device",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Loads of states, without a device or to one GPU."""
    loads = script.calls("torch.load")
    if _is_for_cpus(script) or not _runs_on_ranks(script):
        return
    alone = may_be_alone_on_its_node(script)
    sure = Confidence.POSSIBLE if alone else Confidence.LIKELY
    checkpoints = Checkpoints(script.facts, script.flow) if loads else None
    for call in loads:
        if checkpoints is None or spreads(call):
            continue
        state = checkpoints.is_state(call, script.module)
        if not state and not checkpoints.is_model(call, script.module):
            continue
        if script.may_be_guarded(call):
            continue
        given = argument(call, "map_location", 1)
        if given is None and _brings_no_gpu(script, call):
            continue
        if given is None:
            fix = add_argument(script, call, 'map_location="cpu"', "load into main memory first")
            message = "every rank loads to the GPU that saved the file, GPU 0 as a rule"
            yield Finding(call, message, fix if state else None, confidence=sure)
        elif is_one_gpu(script, given.value):
            fix = script.replace(given.value, '"cpu"', "load into main memory first")
            message = "every rank loads to the same GPU"
            yield Finding(given, message, fix if state else None, confidence=sure)


def _runs_on_ranks(script: Script) -> bool:
    """Not a tool that can join a group, and need not run on several ranks."""
    return script.works_on_parts or script.strict


def _is_for_cpus(script: Script) -> bool:
    """Whether the ranks talk through main memory and nothing in sight is on a GPU."""
    groups = script.calls(INIT_GROUP, everywhere=True)
    given = [argument(call, "backend", 0) for call in groups]
    return bool(given) and all(
        one is not None
        and script.value(one.value).constant() == "gloo"
        and not script.facts.device_moves
        for one in given
    )


def _brings_no_gpu(script: Script, call: cst.Call) -> bool:
    """Whether what is loaded may hold no tensor of another rank's GPU."""
    return (
        _is_the_other_case(script, call)
        or _is_in_memory(script, call)
        or _is_of_plain_numbers(script, call)
    )


def _is_of_plain_numbers(script: Script, call: cst.Call) -> bool:
    """``scheduler.load_state_dict(torch.load(f))``: the state of a schedule or of a scaler."""
    above = script.structure.parents.get(script.structure.parents.get(call, call))
    if not isinstance(above, cst.Call) or not isinstance(above.func, cst.Attribute):
        return False
    receiver = above.func.value
    types = [one.type for one in script.instances(receiver) if isinstance(one.type, str)]
    return any(map(_SCHEDULES.search, (code_of(receiver), *types)))


def _is_in_memory(script: Script, call: cst.Call) -> bool:
    """Whether the file may hold tensors of main memory: what is saved to it here was put there.

    Nor does a file of the rank's own bring tensors of another GPU.
    """
    file = argument(call, "f", 0)
    own = file is not None and script.flow.sources(file.value, script.module) & ANY_RANK
    if own or argument(call, "mmap") is not None:
        return True
    return file is not None and may_be_saved_from_memory(script, file.value)


def _is_the_other_case(script: Script, call: cst.Call) -> bool:
    """``if gpu is None: load(f) else: load(f, map_location=...)``: with a GPU of its own, a rank
    takes the other branch.
    """
    file = argument(call, "f", 0)
    for guard in script.control.guards(call):
        asks = _ASKS_GPU.search(code_of(guard.test)) is not None
        if isinstance(guard.statement, cst.If) and guard.statement.orelse is not None:
            other = guard.statement.orelse if guard.positive else guard.statement.body
            for node in walk(other):
                if not isinstance(node, cst.Call) or "torch.load" not in script.names(node.func):
                    continue
                given = argument(node, "f", 0)
                if asks or (
                    file and given and _is_same(guard.statement, file, given)
                ):  # else another file is loaded there, and this one as it is here
                    return argument(node, "map_location", 1) is not None
    return False


def _is_same(statement: cst.If, file: cst.Arg, other: cst.Arg) -> bool:
    """Whether both branches of a condition load one file: none sets the name that it goes by."""
    name = code_of(file.value)
    targets = (one for one in walk(statement) if isinstance(one, cst.AssignTarget))
    return code_of(other.value) == name and all(code_of(one.target) != name for one in targets)
