"""All ranks make the same folder.

## What it does
Looks for `os.makedirs`, `os.mkdir` and `Path.mkdir` without `exist_ok=True` that all ranks reach.

## Why is this bad
The first rank makes the folder, the next raises FileExistsError. A test whether it exists does not
help: several ranks pass it before one makes the folder.

## Example
```python
if not os.path.exists("out"):
    os.makedirs("out")
```

```python
from pathlib import Path
Path("out").mkdir(parents=True)
```
```python
if epochs > 1:
    os.makedirs(path, exist_ok=True)
if not os.path.exists(path):
    os.makedirs(path)
```

## Use instead
```python
os.makedirs("out", exist_ok=True)
```
```python
from pathlib import Path
Path("out").mkdir(parents=True, exist_ok=True)
```

## Also fine
```python
if rank == 0:
    os.makedirs("out")
```
A folder that the lines above have made, by another name.
```python
logs = out = os.path.join("runs", path)
os.makedirs(out, exist_ok=True)
if not os.path.exists(logs):
    os.makedirs(logs)
```
A folder that is asked for before, and of which git knows a file: a checkout has it.

## Fix safety
Safe: the folder is there afterwards in any case.

## References
https://docs.python.org/3/library/os.html#os.makedirs
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.first_made import asks_for_path, is_past_a_folder
from ddpify.lint.scripts.held_folders import is_held
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.path_objects import PATH
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of, spreads
from ddpify.understanding.taint.sources import ANY_RANK
from ddpify.understanding.values import Instance


@rule(
    "makedirs-race",
    group="checkpoint",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Folders that each rank tries to make first."""
    for call in (*script.calls("os.makedirs", "os.mkdir"), *_of_paths(script)):
        if argument(call, "exist_ok", 2) is not None or spreads(call):
            continue
        fix = None
        if "os.mkdir" not in script.names(call.func):
            fix = add_argument(script, call, "exist_ok=True", "accept a folder that is there")
        if not _excused(script, call):
            yield Finding(call, "the second rank to get here fails with FileExistsError", fix)


def _of_paths(script: Script) -> Iterator[cst.Call]:
    """``Path("out").mkdir()``."""
    for call in script.method_calls("mkdir"):
        assert isinstance(call.func, cst.Attribute)
        held = script.value(call.func.value).atoms
        if held and all(isinstance(one, Instance) and one.type == PATH for one in held):
            yield call


def _excused(script: Script, call: cst.Call) -> bool:
    named = [one.value for one in call.args]
    if isinstance(call.func, cst.Attribute) and not script.names(call.func):
        named.append(call.func.value)
    if any(script.flow.sources(one, script.module) & ANY_RANK for one in named):
        return True
    inside_try = script.control.in_try(call)
    if not script.strict and is_past_a_folder(script, call):
        return True
    excused = inside_try or _guarded(script, call) or _is_made_above(script, call)
    return excused or (_asks_first(script, call) and any(is_held(script, one) for one in named))


def _asks_first(script: Script, call: cst.Call) -> bool:
    """Whether a folder that is there is left as it is: ``if not Path("out").exists()``."""
    return any(
        asks_for_path(script, guard)
        or any(
            isinstance(one, cst.Attribute) and one.attr.value in ("exists", "is_dir")
            for one in walk(guard.test)
        )
        for guard in script.control.guards(call)
    )


def _is_made_above(script: Script, call: cst.Call) -> bool:
    """Whether the same function has made the folder before, under no condition that does not hold
    here, by a name that is set to the same.
    """
    structure, made = script.structure, _set_to(script, call)
    function, order = structure.function(call), structure.order
    here = script.control.branches(call)
    return bool(made) and any(
        order[one] < order[call]
        and structure.function(one) is function
        and all(
            (code_of(guard.test), guard.positive) in here or asks_for_path(script, guard)
            for guard in script.control.guards(one)
        )
        and _set_to(script, one) == made
        for one in script.calls("os.makedirs", "os.mkdir")
    )


def _set_to(script: Script, call: cst.Call) -> set[cst.CSTNode]:
    """What sets the name that a folder is made by."""
    node = call.args[0].value if call.args else None
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return set()
    edges = script.flow.edges_into(script.control.locations(node))
    return {edge.value for edge in edges if edge.value is not None}


def _guarded(script: Script, call: cst.Call) -> bool:
    """Guards that ask whether a folder exists are the race itself, not a way out of it."""
    for guard in script.control.guards(call):
        if not asks_for_path(script, guard) and script.control.rank_guards(call):
            return True
    return script.may_be_guarded(call)
