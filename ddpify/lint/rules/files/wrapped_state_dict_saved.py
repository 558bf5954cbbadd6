"""The checkpoint's keys start with `module.`.

## What it does
Looks for `torch.save` of the state of a wrapped model, when nothing that may be of this file and
model loads a state into a wrapped model, or takes the prefix off.

## Why is this bad
A plain model does not know the prefix: loading fails, or with `strict=False` loads nothing at all.

## Example
```python
if rank == 0:
    torch.save(model.state_dict(), path)
```
```python
def without_prefix(state):
    return {key.replace("module.", ""): value for key, value in state.items()}

teacher = Net()
teacher.load_state_dict(without_prefix(torch.load("teacher.pt", map_location="cpu")))
if rank == 0:
    torch.save(model.state_dict(), path)
```

## Use instead
```python
if rank == 0:
    torch.save(model.module.state_dict(), path)
```

## Also fine
What is loaded is wrapped too.
```python
model.load_state_dict(torch.load(path, map_location=device))
if rank == 0:
    torch.save({"model": model.state_dict()}, path)
```
```python
def without_prefix(state):
    return {key.replace("module.", ""): value for key, value in state.items()}

plain = Net()
plain.load_state_dict(without_prefix(torch.load(path, map_location="cpu")))
if rank == 0:
    torch.save(model.state_dict(), path)
```
```python
if rank == 0:
    torch.save(model.module.state_dict() if hasattr(model, "module") else model.state_dict(), path)
```

## Fix safety
Unsafe: code elsewhere may expect the prefix.

## References
https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.expected_prefix import is_expected
from ddpify.lint.scripts.put_together import parts_of
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.wrapped_here import wrappers_here
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.texts import loads_wrapped_state

_QUESTIONS = frozenset({"builtins.hasattr", "builtins.isinstance"})


@rule(
    "wrapped-state-dict-saved",
    group="checkpoint",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """States of wrappers that are saved."""
    for save in _saves(script):
        for node in _saved(script, save):
            if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
                continue
            if node.func.attr.value != "state_dict" or _asks_whether_wrapped(script, node):
                continue
            sure = _wrapped(script, node.func.value)
            if sure is not None and not is_expected(script, save, node.func.value):
                if not script.strict and any(map(loads_wrapped_state, script.beside.values())):
                    return  # another script knows of the prefix
                text = f"{code_of(node.func.value)}.module"
                fix = script.replace(
                    node.func.value, text, "save the module inside", Applicability.UNSAFE
                )
                message = "its keys start with 'module.': a plain model cannot load them"
                yield Finding(node, message, fix, confidence=sure)


def _saves(script: Script) -> list[cst.Call]:
    """The calls that save, also by a function of the project that saves what it is given."""
    helpers = [call for call in script.structure.all(cst.Call) if _saves_given(script, call)]
    return [*script.calls("torch.save"), *helpers]


def _saves_given(script: Script, call: cst.Call) -> bool:
    for function in called(script.facts, call) if call.args else ():
        if function.module not in script.structures:
            continue
        first = [*function.node.params.params[:1]]
        more = function.node.params.star_arg
        names = {one.name.value for one in (*first, more) if isinstance(one, cst.Param)}
        for one in script.calls("torch.save", everywhere=True):
            inside = script.structure_of(one).function(one) is function.node
            if inside and one.args and _is_name(one.args[0].value):
                return one.args[0].value.value in names
    return False


def _saved(script: Script, save: cst.Call) -> Iterator[cst.CSTNode]:
    """What goes into a file, also by a name that is set to it in the same function."""
    if save.args:
        yield from parts_of(script, save.args[0].value)


def _is_name(node: cst.BaseExpression) -> TypeGuard[cst.Name]:
    return isinstance(node, cst.Name)


def _wrapped(script: Script, node: cst.BaseExpression) -> Confidence | None:
    """How sure it is that this is a DDP object: an option may leave the same model as it is."""
    if script.is_ddp(node):
        return Confidence.CERTAIN
    wrappers = wrappers_here(script, node)
    likely = bool(wrappers) and all(one.type == DDP for one in wrappers)
    return Confidence.LIKELY if likely else None  # a sharded model's keys have no such prefix


def _asks_whether_wrapped(script: Script, node: cst.Call) -> bool:
    """``a.module.state_dict() if hasattr(a, "module") else a.state_dict()``."""
    tests = [one.test for one in script.control.guards(node) if not _finds_wrapper(script, one)]
    return any(
        isinstance(one, cst.Call) and bool(script.names(one.func) & _QUESTIONS)
        for test in tests
        for one in walk(test)
    )


def _finds_wrapper(script: Script, guard: Guard) -> bool:
    """Whether the answer has been that it is wrapped: ``if isinstance(a, DDP):``."""
    return (
        guard.positive
        and isinstance(guard.test, cst.Call)
        and "builtins.isinstance" in script.names(guard.test.func)
        and len(guard.test.args) == 2
        and DDP in script.names(guard.test.args[1].value)
    )
