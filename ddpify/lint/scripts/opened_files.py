"""What is written into files that were opened before, and what is added to them."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.surely_ranks import surely_asks_rank
from ddpify.lint.scripts.targets import targets
from ddpify.understanding.facts import Effect
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument


def into_open_file(script: Script, effect: Effect) -> bool:
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


def only_makes(script: Script, effect: Effect) -> bool:
    """``open(path, "a").close()``, ``with open(path, "w"): pass``: the file is empty, whoever
    makes it.
    """
    above = script.structure_of(effect.site.node).parents.get(effect.site.node)
    if isinstance(above, cst.Assign):
        return _is_only_closed(script, above)
    if isinstance(above, cst.WithItem):
        block = script.structure_of(above).parents.get(above)
        return isinstance(block, cst.With) and not any(
            isinstance(one, (cst.Call, cst.Assign, cst.AugAssign)) for one in walk(block.body)
        )
    return isinstance(above, cst.Attribute) and above.attr.value == "close"


def _is_only_closed(script: Script, opened: cst.Assign) -> bool:
    """``log = open(path, "w")``, of which nothing in the file asks more than ``log.close()``."""
    target, structure = opened.targets[0].target, script.structure_of(opened)
    if len(opened.targets) != 1 or not isinstance(target, cst.Name):
        return False
    named = [x for x in structure.all(cst.Name) if x.value == target.value and x is not target]
    around = [structure.parents.get(one) for one in named]
    return all(isinstance(one, cst.Attribute) and one.attr.value == "close" for one in around)


def says_whose_lines(script: Script, effect: Effect) -> bool:
    """``f = open(path, "a"); f.write(f"rank {rank}: ...")``: a log of all ranks, on purpose."""
    return any(
        surely_asks_rank(script.control, one.value)
        for write in _appended(script, effect)
        for one in write.args
    )


def only_some_write(script: Script, effect: Effect) -> bool:
    """Whether all ranks open a file to append to it, and a condition on the rank stands around
    what is written into it: the others leave it as it is.
    """
    writes = _appended(script, effect)
    return bool(writes) and all(map(script.may_be_guarded, writes))


def _appended(script: Script, effect: Effect) -> list[cst.Call]:
    """What is written into a file that is opened to append to it."""
    call = effect.site.node
    if not appends(script, effect):
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


def appends(script: Script, effect: Effect) -> bool:
    """``open(path, "a")``."""
    call = effect.site.node
    mode = argument(call, "mode", 1) if isinstance(call, cst.Call) else None
    opens = effect.name.rsplit(".", 1)[-1] == "open"
    return opens and mode is not None and "a" in str(script.value(mode.value).constant())
