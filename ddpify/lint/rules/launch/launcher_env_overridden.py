"""The script overwrites what torchrun tells it.

## What it does
Looks for `os.environ["MASTER_ADDR"] = ...` and the like in a script that reads torchrun's variables
and starts no processes itself.

## Why is this bad
The ranks of other nodes wait at an address that torchrun never meant, or two jobs of one node
meet at one port. Where all commands start the ranks on one node, `localhost` is the same machine:
that is reported with `--strict` alone.

## Example
```python
os.environ["MASTER_PORT"] = "12355"
```

## Use instead
```python
os.environ.setdefault("MASTER_PORT", "12355")
```

## Also fine
```python
if "MASTER_PORT" not in os.environ:
    os.environ["MASTER_PORT"] = "12355"
```

```python bare
import os
import torch.distributed as dist

def join(rank, world_size):
    os.environ["RANK"] = str(rank)
    os.environ["LOCAL_RANK"] = str(rank)
    os.environ["WORLD_SIZE"] = str(world_size)
    dist.init_process_group("gloo")
```

## References
https://docs.pytorch.org/docs/stable/elastic/train_script.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rendezvous import HERE, is_started
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.side_effects import environment_key
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, dotted
from ddpify.understanding.taint.sources import LOCAL_RANK, RANK, WORLD
from ddpify.understanding.texts import is_kept_to_one_node

_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
_LABELS = {"RANK": RANK, "LOCAL_RANK": LOCAL_RANK, "WORLD_SIZE": WORLD}
_LOCAL_RANK = ('os.environ["LOCAL_RANK"]', "os.environ['LOCAL_RANK']")


@rule(
    "launcher-env-overridden",
    group="launch",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Assignments to the launcher's variables."""
    if script.control.spawned or not _reads_launcher(script):
        return
    for assign in script.structure.all(cst.Assign):
        name = environment_key(script.facts, assign.targets[0].target)
        if (
            name not in _VARIABLES
            or _is_conditional(script, assign)
            or _of_other_launcher(script, assign)
            or _restates(script, name, assign.value)
        ):
            continue
        fix = None
        if isinstance(assign.value, cst.SimpleString) and len(assign.targets) == 1:
            text = f'os.environ.setdefault("{name}", {code_of(assign.value)})'
            if code_of(assign.targets[0].target).startswith("os.environ["):
                fix = script.replace(assign, text, "keep what the launcher says")
        text = f"this overwrites the {name} that torchrun sets"
        sure = (
            Confidence.POSSIBLE if _is_the_same(script, name, assign.value) else Confidence.CERTAIN
        )
        yield Finding(assign, text, fix, confidence=sure)


def _is_the_same(script: Script, name: str, value: cst.BaseExpression) -> bool:
    """``MASTER_ADDR = "localhost"`` of a script that its commands start on one node."""
    here = name == "MASTER_ADDR" and script.value(value).constant() in HERE
    return here and is_kept_to_one_node(script.paths, script.texts, program=is_started(script))


def _is_conditional(
    script: Script, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Whether a condition stands around a node, or around each call of its function."""
    if script.control.guards(node):
        return True
    function = script.structure_of(node).function(node)
    if function is None or function in seen:
        return False
    calls = script.control.callers(function)
    return bool(calls) and all(_is_conditional(script, x.node, seen | {function}) for x in calls)


def _restates(script: Script, name: str, value: cst.BaseExpression) -> bool:
    """Whether a variable is set to what the script has read from it, or another launcher says."""
    labels = script.flow.sources(value, script.owners.get(value, script.module))
    return _LABELS.get(name) in labels


def _of_other_launcher(script: Script, assign: cst.Assign) -> bool:
    """Whether the function around translates the variables of Slurm or MPI."""
    function = script.structure.function(assign)
    if function is None:
        return False
    return any(
        isinstance(one, cst.SimpleString) and one.raw_value.startswith(("SLURM_", "OMPI_", "PMI_"))
        for one in walk(function)
    )


def _reads_launcher(script: Script) -> bool:
    """Whether the script takes its local rank from the environment, as under torchrun."""
    return any(
        dotted(one.value) == "os.environ"
        and script.code(one) in _LOCAL_RANK
        and not isinstance(structure.parents.get(one), cst.AssignTarget)
        for structure in script.structures.values()
        for one in structure.all(cst.Subscript)
    )
