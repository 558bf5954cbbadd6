"""The script starts its ranks itself, on the GPUs of one node.

## What it does
Looks for `mp.spawn` of a function that joins a process group, where the script has no other way to
start it.

## Why is this bad
It works on one node alone. torchrun starts the same ranks on any number of nodes, starts them again
when one fails, and ends all of them then; `ddpify launch` and cluster software start torchrun.

## Example
```python bare
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)

if __name__ == "__main__":
    mp.spawn(main, args=(8,), nprocs=8)
```

## Use instead
```python bare
import os
import torch
import torch.distributed as dist

def main(local_rank):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")

if __name__ == "__main__":
    main(int(os.environ["LOCAL_RANK"]))
```

## Also fine
A script that spawns where no launcher has started it.
```python bare
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    dist.init_process_group("nccl", rank=rank, world_size=2)

if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        main(int(os.environ["LOCAL_RANK"]))
    else:
        mp.spawn(main, nprocs=2)
```

## Fix safety
Unsafe: the script then needs torchrun to start it. `mp.spawn` becomes a call of the function, and
`init_process_group` takes rank, world size and address from torchrun. The function gets the local
rank where it is nothing but the number of a device; else the global one, which guards files and
shares samples rightly on several nodes, too, and devices are chosen by the local one, in whatever
function or class of the file.

## When not to follow it
Scripts for one node that users start with plain `python`.

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.device_numbers import device_numbers, is_number, local_rank_at
from ddpify.lint.scripts.repairs import drop_arguments, import_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP, SPAWNS
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of, is_main_guard
from ddpify.understanding.taint.sources import SPAWNED
from ddpify.understanding.values import Function


@rule(
    "ranks-started-by-hand",
    group="launch",
    severity=Severity.STYLE,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Unconditional spawns of functions that join a group."""
    for call in script.calls(*SPAWNS):
        guards = [guard for guard in script.control.guards(call) if not is_main_guard(guard.test)]
        if guards or not any(True for _ in joins(script, call)):
            continue
        yield Finding(
            call,
            "starts the ranks of one node; torchrun starts them on any number, and again when"
            " one fails",
            _fix(script, call),
        )


def joins(script: Script, call: cst.Call) -> Iterator[cst.Call]:
    """The ``init_process_group`` calls that a spawned function reaches."""
    functions = [a for one in call.args for a in script.value(one.value).of(Function)]
    for function in functions:
        for name, node in script.collectives(function.node):
            if name == INIT_GROUP and isinstance(node, cst.Call):
                yield node


def _fix(script: Script, call: cst.Call) -> Fix | None:
    """Call the function once, with the rank that torchrun gives."""
    statement = script.structure.parents.get(call)
    function, given = argument(call, "fn", 0), argument(call, "args", 1)
    inits = list(dict.fromkeys(joins(script, call)))
    here = all(script.owners.get(one) is script.module for one in inits)
    if not isinstance(statement, cst.Expr) or function is None or not here:
        return None
    rest: list[str] = []
    if given is not None:
        if not isinstance(given.value, cst.Tuple):
            return None
        rest = [code_of(element.value) for element in given.value.elements]
    name, edits = import_of(script, "os")
    own, chosen = _ranks(script, function.value, name)
    arguments = ", ".join([own, *rest])
    start, end = script.positions.offsets(call)
    made = Edit(start, end, f"{code_of(function.value)}({arguments})")
    dropped = [
        edit
        for one in inits
        for edit in drop_arguments(script, one, "rank", "world_size", "init_method")
    ]
    title = "let torchrun start the ranks"
    return Fix(title, (*edits, *chosen, made, *dropped), Applicability.UNSAFE)


def _ranks(script: Script, spawned: cst.BaseExpression, os_name: str) -> tuple[str, list[Edit]]:
    """What the function gets for its first argument, and where it takes the local rank instead.

    Where the argument also guards files, seeds or shares samples, the global rank is right for
    that, and each device that is chosen with it, in whatever function, takes the local one.
    """
    local, own = (f'int({os_name}.environ["{name}"])' for name in ("LOCAL_RANK", "RANK"))
    chosen = [node for node in device_numbers(script) if SPAWNED in script.labels(node)]
    devices = [node for node in chosen if is_number(script, node)]
    uses = _uses(script, spawned)
    if devices and uses and all(use in devices or _is_dropped(script, use) for use in uses):
        return local, []
    texts = [(node, local_rank_at(script, node, os_name)) for node in devices]
    return own, [Edit(*script.positions.offsets(node), text) for node, text in texts if text]


def _uses(script: Script, spawned: cst.BaseExpression) -> list[cst.Name]:
    """Where the spawned function names its first argument; none where that cannot be told."""
    functions = [one.node for one in script.value(spawned).of(Function)]
    if len(functions) != 1 or not isinstance(functions[0], cst.FunctionDef):
        return []
    if script.owners.get(functions[0]) is not script.module or not functions[0].params.params:
        return []
    name = functions[0].params.params[0].name.value
    body = walk(functions[0].body)
    return [node for node in body if isinstance(node, cst.Name) and node.value == name]


def _is_dropped(script: Script, use: cst.CSTNode) -> bool:
    """``rank=n`` of ``init_process_group``, which the fix takes away."""
    above = script.structure.parents.get(use)
    call = script.structure.parents.get(above) if isinstance(above, cst.Arg) else None
    named = isinstance(above, cst.Arg) and above.keyword is not None
    return named and call in set(script.calls(INIT_GROUP))
