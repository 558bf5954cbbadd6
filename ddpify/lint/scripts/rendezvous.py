"""Where the ranks of a script meet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK, LOCAL_RANK, RANK, TOLD
from ddpify.understanding.texts import is_kept_to_one_node, is_launched
from ddpify.understanding.values import Const

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script

HERE = ("localhost", "127.0.0.1")
_PLACES = re.compile(r"tcp://([\w.$<{\[-]+)")


def meets_on_one_node(script: Script) -> bool:
    """Whether the script itself, or what starts it, says that all ranks are on one machine."""
    told = is_kept_to_one_node(script.paths, script.texts, program=is_started(script))
    return (
        told or _meets_here(script) or _asserts_one_node(script) or _numbers_by_local_ranks(script)
    )


def is_started(script: Script) -> bool:
    """Whether a file is run, and not imported by what is: it joins the group as it is read."""
    groups = script.calls(INIT_GROUP)
    return script.is_whole_program or any(script.structure.function(x) is None for x in groups)


def _numbers_by_local_ranks(script: Script) -> bool:
    """``init_process_group(rank=local_rank)``: ranks of two nodes would have one number."""
    groups = script.calls(INIT_GROUP, everywhere=True)
    given = [argument(one, "rank", 4) for one in groups]
    return bool(given) and all(
        one is not None and script.labels(one.value) & ANY_RANK == {LOCAL_RANK} for one in given
    )


def _asserts_one_node(script: Script) -> bool:
    """``assert local_rank == dist.get_rank()``."""
    return any(
        isinstance(one.test, cst.Comparison)
        and isinstance(one.test.comparisons[0].operator, cst.Equal)
        and {LOCAL_RANK, RANK}
        == {
            label
            for side in (one.test.left, one.test.comparisons[0].comparator)
            for label in script.labels(side) & {LOCAL_RANK, RANK}
        }
        for structure in script.structures.values()
        for one in structure.all(cst.Assert)
    )


def _meets_here(script: Script) -> bool:
    """``os.environ["MASTER_ADDR"] = "localhost"``, ``tcp://127.0.0.1:...``."""
    groups = script.calls(INIT_GROUP, everywhere=True)
    methods = [argument(call, "init_method", 1) for call in groups]
    given = [
        one for one in methods if one is not None and script.value(one.value).constant() != "env://"
    ]
    if given and len(given) == len(groups):
        return all(
            _is_here(script, one.value) or _is_here_by_option(script, one.value) for one in given
        )
    return any(
        isinstance(target.target, cst.Subscript)
        and _names_address(target.target)
        and _is_here(script, assign.value)
        and not script.control.guards(assign)
        for structure in script.structures.values()
        for assign in structure.all(cst.Assign)
        for target in assign.targets
    )


def _is_here_by_option(script: Script, method: cst.BaseExpression) -> bool:
    """``args.dist_url`` of ranks that the script starts, where its default is this machine, and
    commands say it and no other.
    """
    if isinstance(method, cst.FormattedString) and len(method.parts) == 1:
        (part,) = method.parts
        method = part.expression if isinstance(part, cst.FormattedStringExpression) else method
    said = {place for text in script.texts.values() for place in _PLACES.findall(text)}
    if not script.control.spawned or not said or not said <= {*HERE}:
        return False
    held = [one.value for one in script.value(method).of(Const)]
    return len(held) == 1 and _is_on_this_machine(held[0])


def is_told_by_option(script: Script, group: cst.Call) -> bool:
    """``init_process_group(rank=args.rank)``: an option, which nothing makes from a rank."""
    given = argument(group, "rank", 4)
    if given is None or not isinstance(given.value, cst.Attribute):
        return False
    module = script.owners.get(given.value, script.module)
    if script.flow.sources(given.value, module) & (ANY_RANK - {TOLD}):
        return False
    return any(one.type == "argparse.Namespace" for one in script.instances(given.value.value))


def is_started_by_launcher(script: Script) -> bool:
    """Whether a file or a command of the project says that a launcher starts the script."""
    return speaks_of_torchrun(script) or is_launched(script.paths, script.texts)


def speaks_of_torchrun(script: Script) -> bool:
    """Whether some file of the project says that torchrun starts it, or reads what only that sets.

    The rank of an option alone is that of torch.distributed.launch.
    """
    return any(
        word in file.source.text
        for file in script.project.files
        for word in ("torchrun", "torch.distributed.run", "TORCHELASTIC")
    )


def may_be_alone_on_its_node(script: Script) -> bool:
    """Whether an option tells the rank, which then may be the number of a node that has one
    process with all of its GPUs.
    """
    if script.control.spawned or is_started_by_launcher(script):
        return False
    groups = script.calls(INIT_GROUP, everywhere=True)
    return any(is_told_by_option(script, one) for one in groups)


def _names_address(node: cst.Subscript) -> bool:
    """``os.environ["MASTER_ADDR"]``."""
    part = node.slice[0].slice
    return (
        isinstance(part, cst.Index)
        and isinstance(part.value, cst.SimpleString)
        and part.value.evaluated_value == "MASTER_ADDR"
    )


def _is_here(script: Script, node: cst.BaseExpression) -> bool:
    return _is_on_this_machine(script.value(node).constant())


def _is_on_this_machine(text: object) -> bool:
    return isinstance(text, str) and text.removeprefix("tcp://").partition(":")[0] in HERE
