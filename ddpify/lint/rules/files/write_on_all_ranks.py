"""All ranks write the same file at the same time.

## What it does
Looks for `torch.save` and other writes that every rank reaches, to a path that does not depend on
the rank.

## Why is this bad
Two processes that write one file leave a mixture of both: the checkpoint cannot be loaded, often
only found out when it is needed.

## Example
```python
torch.save(net.state_dict(), "model.pt")
```
```python
name = "log-" + time.strftime("%Y%m%d") + ".txt"
with open(name, "w") as file:
    file.write("done")
```

## Use instead
```python
if rank == 0:
    torch.save(net.state_dict(), "model.pt")
```

## Also fine
A path of the rank's own, a buffer in memory, and a function that only rank 0 calls.
```python
import io
torch.save(net.state_dict(), f"model-{rank}.pt")
open("done", "a").close()
unused = open("times.txt", "w")
unused.close()
buffer = io.BytesIO()
torch.save(net.state_dict(), buffer)

def save_checkpoint(state):
    torch.save(state, "checkpoint.pt")

if rank == 0:
    save_checkpoint(net.state_dict())
```

## Fix safety
Safe for a statement of its own in a script without sharded (FSDP) models, whose state all ranks
must gather. At the call of a function that writes, only where that does nothing else: no step, no
collective, nothing that is kept.

## When not to follow it
Sharded checkpoints that all ranks write together (DCP, DeepSpeed).

## References
https://github.com/NVIDIA/apex/issues/629
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.first_made import is_past_a_folder
from ddpify.lint.scripts.opened_files import (
    appends,
    into_open_file,
    only_makes,
    only_some_write,
    says_whose_lines,
)
from ddpify.lint.scripts.own_paths import has_own_path
from ddpify.lint.scripts.removals import writes_nothing
from ddpify.lint.scripts.repairs import on_rank_zero, runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.set_by_rank import is_set_by_rank
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.actions import COMMANDS
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.libraries.runtime_names import MAIN_SAVES, MAIN_WRITES
from ddpify.understanding.libraries.system_commands import installs, makes_folders
from ddpify.understanding.taint.call_graph import called

_KINDS = ("save", "write")


@rule(
    "write-on-all-ranks",
    group="checkpoint",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Writes that more than one rank makes to one path."""
    there: dict[cst.CSTNode, list[Effect]] = {}
    for effect in script.facts.effects.values():
        places = _places(script, effect)
        if not places or effect.kind not in _KINDS or _takes_away(effect):
            continue
        if into_open_file(script, effect) or has_own_path(script, effect):
            continue  # where it is opened says enough
        node = next((one for one in places if not _excused(script, effect, one)), None)
        if node is not None:
            there.setdefault(node, []).append(effect)
    for node, effects in there.items():
        yield _finding(script, node, effects)


def _finding(script: Script, node: cst.CSTNode, effects: list[Effect]) -> Finding:
    """What is found at a place, or at a call that leads to several."""
    names = [effect.name.rsplit(".", 1)[-1] for effect in effects]
    acts = dict.fromkeys(
        f"{name}(){_elsewhere(one, node)}" for name, one in zip(names, effects, strict=True)
    )
    files = f"the same file{'s' if len(acts) > 1 else ''} with {' and '.join(acts)}"
    what = f"all ranks write {files}: {'they' if len(acts) > 1 else 'it'} may be corrupt"
    if all(appends(script, effect) for effect in effects):
        what = f"all ranks append to {files}: what is added comes once for each of them"
    fix = None if script.has_fsdp else _fix(script, effects[0], node, names[0])
    about = tuple(one.site for one in effects if one.site.node is not node)
    return Finding(node, what, fix, about)


def _takes_away(effect: Effect) -> bool:
    """Whether no file is written: files are taken away, opened to be read, or folders made."""
    makes = effect.name in COMMANDS and makes_folders(effect.site.node)
    return makes or writes_nothing(effect)


def _elsewhere(effect: Effect, node: cst.CSTNode) -> str:
    """The file and line of a write that a call in this file leads to."""
    place = f" in {effect.site.module.path.name}:{effect.site.line}"
    return "" if node is effect.site.node else place


def _fix(script: Script, effect: Effect, node: cst.CSTNode, name: str) -> Fix | None:
    """``torch.save`` as ddpify's runtime has it; any other statement under a test for rank 0."""
    dd = runtime(script)
    if dd is not None and isinstance(node, cst.Call) and "torch.save" in script.names(node.func):
        return script.replace(node.func, f"{dd}.save", "save on rank 0, in one step")
    if node is not effect.site.node and not _only_writes(script, node):
        return None
    return on_rank_zero(script.control, node, name)


def _only_writes(script: Script, call: cst.CSTNode) -> bool:
    """Whether what a call runs can be left to rank 0: no step, no meeting, nothing that is kept."""
    return not script.collectives(call) and not any(
        one in script.facts.backwards
        or isinstance(one, (cst.AugAssign, cst.Global))
        or (isinstance(one, cst.AssignTarget) and not isinstance(one.target, (cst.Name, cst.Tuple)))
        or (isinstance(one, cst.Call) and any(map(is_model, script.instances(one.func))))
        for one in script.reached(call)
    )


def _places(script: Script, effect: Effect) -> list[cst.CSTNode]:
    """The place itself, or the calls in this file that lead to it: of one function all."""
    if effect.site.module is script.module:
        return [effect.site.node]
    if script.module is not script.project.entry:
        return []
    site: Site | None = next((c for c in reversed(effect.calls) if c.module is script.module), None)
    if site is None:
        return []
    functions = called(script.facts, site.node) if isinstance(site.node, cst.Call) else ()
    others = [
        other.node
        for function in functions
        if isinstance(function.node, cst.FunctionDef)
        for other in script.control.callers(function.node)
        if other.module is script.module
    ]
    return [site.node, *(one for one in others if one is not site.node)]


def _excused(script: Script, effect: Effect, node: cst.CSTNode) -> bool:
    if script.has_fsdp and effect.kind == "save":
        return True
    if not (script.works_on_parts or script.strict):
        return True  # a tool that can join a group, and need not run on several ranks
    if says_whose_lines(script, effect) or only_makes(script, effect):
        return True
    if effect.name in COMMANDS and installs(effect.site.node) and _is_handler(script, effect):
        return True  # what is missing there has to be installed before, on one rank or on all
    if not script.strict and only_some_write(script, effect):
        return True
    if not script.strict and is_past_a_folder(script, effect.site.node):
        return True
    call = effect.site.node
    if isinstance(call, cst.Call) and is_set_by_rank(script.control, call.func):
        return True  # what is called is another thing on other ranks
    if not script.strict and any(_is_one_of_several(script, one) for one in effect.calls):
        return True  # which of them is called is not known
    if script.control.takes_turns(effect.site.node):
        return True
    main_alone = MAIN_SAVES if effect.kind == "save" else MAIN_WRITES
    if script.control.is_within(effect.site.node, main_alone):
        return True
    return script.may_be_guarded(effect.site.node) or script.may_be_guarded(node)


def _is_handler(script: Script, effect: Effect) -> bool:
    """Whether something has failed before: ``except ImportError:``."""
    node = effect.site.node
    return any(isinstance(one, cst.ExceptHandler) for one in script.structure_of(node).up(node))


def _is_one_of_several(script: Script, site: Site) -> bool:
    """Whether a call may be one of functions of several classes."""
    return isinstance(site.node, cst.Call) and len(list(called(script.facts, site.node))) > 1
