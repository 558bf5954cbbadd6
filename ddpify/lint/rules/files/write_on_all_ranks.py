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

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.certainty import surely_asks_rank
from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import on_rank_zero, runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.set_by_rank import is_set_by_rank
from ddpify.lint.scripts.targets import targets
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.actions import COMMANDS
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.libraries.runtime_names import MAIN_SAVES, MAIN_WRITES
from ddpify.understanding.libraries.system_commands import makes_folders, takes_away
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK, LOCAL, RANDOM, TAKEN

_APART = ANY_RANK | {CLOCK, RANDOM, LOCAL, *TAKEN}
# Words for a process, as options have them. They only ever silence the rule.
_OWN = re.compile(
    r"(?i)(?<![a-z])(local_)?(rank|shard|gpu|worker|host|proc|pid|node|job|task|chunk)"
    r"(_?(id|idx|index|no|num|name))?(?![a-z])"
)
# Libraries whose functions give all processes the same path.
_PLAIN = tuple(
    f"{name}."
    for name in "builtins os pathlib posixpath str argparse sys re torch glob yaml json omegaconf"
    " hydra click copy shutil math tempfile addict easydict munch yacs ml_collections toml tomllib"
    " types collections".split()
)
_KINDS = ("save", "write")
_SHARED = ("tempfile", "tempfile.gettempdir", "tempfile.gettempprefix", "tempfile.tempdir")
# What takes files away, and what is opened to read from it as well: by a path's methods, too.
_NO_WRITES = frozenset(
    {
        "os.remove", "os.unlink", "os.rmdir", "shutil.rmtree", "os.removedirs", "unlink", "rmdir",
        "sqlite3.connect", "shelve.open",
    }
)  # fmt: skip


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
    for effect in script.facts.effects.values():
        places = _places(script, effect)
        if not places or effect.kind not in _KINDS or _takes_away(effect):
            continue
        if _into_open_file(script, effect) or _has_own_path(script, effect):
            continue  # where it is opened says enough
        name = effect.name.rsplit(".", 1)[-1]
        node = next((one for one in places if not _excused(script, effect, one)), None)
        if node is not None:
            fix = None if script.has_fsdp else _fix(script, effect, node, name)
            place = f"the same file with {name}(){_elsewhere(effect, node)}"
            what = f"all ranks write {place}: it may be corrupt"
            if _appends(script, effect):
                what = f"all ranks append to {place}: what is added comes once for each of them"
            about = effect.site if node is not effect.site.node else None
            yield Finding(node, what, fix, about)


def _takes_away(effect: Effect) -> bool:
    """Whether no file is written: files are taken away, opened to be read, or folders made."""
    if effect.name in COMMANDS:
        return takes_away(effect.site.node) or makes_folders(effect.site.node)
    return effect.name in _NO_WRITES


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
    if _says_whose_lines(script, effect) or _only_makes(script, effect):
        return True
    if not script.strict and _only_some_write(script, effect):
        return True
    if effect.kind == "write" and effect.site.module is not script.module and not script.strict:
        return True  # its path is seldom seen from here
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


def _is_one_of_several(script: Script, site: Site) -> bool:
    """Whether a call may be one of functions of several classes."""
    return isinstance(site.node, cst.Call) and len(list(called(script.facts, site.node))) > 1


def _only_makes(script: Script, effect: Effect) -> bool:
    """``open(path, "a").close()``, ``with open(path, "w"): pass``: the file is empty, whoever
    makes it.
    """
    above = script.structure_of(effect.site.node).parents.get(effect.site.node)
    if isinstance(above, cst.WithItem):
        block = script.structure_of(above).parents.get(above)
        return isinstance(block, cst.With) and not any(
            isinstance(one, (cst.Call, cst.Assign, cst.AugAssign)) for one in walk(block.body)
        )
    return isinstance(above, cst.Attribute) and above.attr.value == "close"


def _says_whose_lines(script: Script, effect: Effect) -> bool:
    """``f = open(path, "a"); f.write(f"rank {rank}: ...")``: a log of all ranks, on purpose."""
    return any(
        surely_asks_rank(script.control, one.value)
        for write in _appended(script, effect)
        for one in write.args
    )


def _only_some_write(script: Script, effect: Effect) -> bool:
    """Whether all ranks open a file to append to it, and a condition on the rank stands around
    what is written into it: the others leave it as it is.
    """
    writes = _appended(script, effect)
    return bool(writes) and all(map(script.may_be_guarded, writes))


def _appended(script: Script, effect: Effect) -> list[cst.Call]:
    """What is written into a file that is opened to append to it."""
    call = effect.site.node
    if not _appends(script, effect):
        return []
    opened = {
        location
        for above in script.structure_of(call).up(call)
        for edge in script.flow.edges_at(above)
        for location in edge.targets
    }
    return [
        write
        for write in script.method_calls("write", "writelines", everywhere=True)
        if isinstance(write.func, cst.Attribute)
        and any(
            one.location in opened
            for one in script.flow.ancestry(write.func.value, script.owners[write])
        )
    ]


def _appends(script: Script, effect: Effect) -> bool:
    """``open(path, "a")``."""
    call = effect.site.node
    mode = argument(call, "mode", 1) if isinstance(call, cst.Call) else None
    opens = effect.name.rsplit(".", 1)[-1] == "open"
    return opens and mode is not None and "a" in str(script.value(mode.value).constant())


def _has_own_path(script: Script, effect: Effect) -> bool:
    """A path of the rank, of the time, in a folder of the process, or no path at all."""
    return _is_buffer(script, effect) or any(
        script.flow.sources(one, effect.site.module) & _APART
        or _is_private(script, one)
        or (_may_be_own(script, one) and not script.strict)
        for one in targets(effect)
    )


def _may_be_own(script: Script, target: cst.BaseExpression) -> bool:
    """Whether a path may be one process's: by its words, or out of code that ddpify cannot read."""
    return any(
        (isinstance(one, (cst.Name, cst.Attribute)) and _OWN.search(code_of(one)))
        or (isinstance(one, (cst.Call, cst.Attribute)) and _is_unseen(script, one))
        for one in _words_of(script, target)
    )


def _words_of(script: Script, target: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The nodes of a path and of all that its names are set to, but not what is only counted.

    ``steps = epochs * len(loader)`` has nothing of the ranks that the loader is made for. What a
    function of the project gets is looked at where its result has something of it.
    """
    yield from _put_in(script, target)
    todo, seen = script.flow.locations(target, script.owners[target]), set[Location]()
    while todo:
        fresh, todo = todo - seen, set()
        seen |= fresh
        for edge in script.flow.edges_into(fresh):
            if edge.value is not None and not _is_place(script, edge.value):
                yield from _put_in(script, edge.value)
                todo |= {one.location for one in edge.source if one.location is not None}


def _put_in(script: Script, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An expression's nodes, without lengths and what the project's functions are passed."""
    if isinstance(node, cst.Call) and "builtins.len" in script.names(node.func):
        return
    yield node
    if isinstance(node, cst.Call) and any(True for _ in called(script.facts, node)):
        return
    for child in node.children:
        yield from _put_in(script, child)


def _is_place(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression wraps a model or moves it to a device: no part of a path."""
    return node in script.facts.device_moves or script.is_wrapped(node)


def _is_unseen(script: Script, node: cst.Call | cst.Attribute) -> bool:
    """Whether a library that is not known gives a part of a path: ``wandb.run.dir``."""
    named = node.func if isinstance(node, cst.Call) else node
    return any(not name.startswith(_PLAIN) for name in script.names(named))


def _is_private(script: Script, target: cst.BaseExpression) -> bool:
    """Whether a path is of the ``tempfile`` module, of what an iterator gives, or leads nowhere."""
    locations = {
        one.location for one in script.flow.ancestry(target, script.owners[target]) if one.location
    }
    made = [edge.value for edge in script.flow.edges_into(locations) if edge.value is not None]
    return any(_is_of_process(script, node) for one in (target, *made) for node in walk(one))


def _is_of_process(script: Script, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value in ("next", "__next__"):
        return True
    types = {one.type for one in script.instances(node) if isinstance(one.type, str)}
    return any(
        name in ("os.devnull", "builtins.next")
        or (name.startswith("tempfile.") and name not in _SHARED)
        for name in script.names(node) | types
    )


def _into_open_file(script: Script, effect: Effect) -> bool:
    """Whether a call writes into a file that a statement before it opened, or it itself."""
    if any(
        isinstance(one, cst.Call) and "builtins.open" in script.names(one.func)
        for one in targets(effect)
    ):
        return True
    locations = {
        location
        for one in targets(effect)
        for location in script.flow.locations(one, effect.site.module)
    }
    opened = [edge.value for edge in script.flow.edges_into(locations)]
    return any(
        isinstance(one, cst.Call) and "builtins.open" in script.names(one.func) for one in opened
    )


def _is_buffer(script: Script, effect: Effect) -> bool:
    held = [a.type for one in targets(effect) for a in script.instances(one)]
    return any(isinstance(kind, str) and "BytesIO" in kind for kind in held)
