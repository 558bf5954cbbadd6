"""Whether a script says that it has one rank, or none, whatever its options are."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import (
    INIT_GROUP,
    SPAWNS,
)
from ddpify.understanding.libraries.side_effects import VISIBLE, environment_key
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import ANY_RANK, DEVICES, TOLD
from ddpify.understanding.texts import starts_of
from ddpify.understanding.values import Const

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control

_SIZE = re.compile(r"(?i)(\w+\.)*world_?size")
_NAMES_SIZE = re.compile(r"(?i)world_?size")
_ASKS_SIZE = re.compile(r"get_world_size|WORLD_SIZE|device_count\(\)\s*\*|--world")


def distributes_never(control: Control) -> bool:
    """Whether all wrappers and groups stand under a condition that is set to False, for good."""
    script = control.script
    places = [wrap.site.node for wrap in script.wraps] + script.calls(INIT_GROUP, everywhere=True)

    def is_off(place: cst.CSTNode) -> bool:
        return any(one.positive and _is_set_off(control, one.test) for one in control.guards(place))

    return any(map(is_off, places)) and all(
        control.holds_on_every_way(place, is_off, begins=control.spawned, uncalled=True)
        for place in places
    )


def _is_set_off(control: Control, test: cst.BaseExpression) -> bool:
    """``args.distributed`` after ``args.distributed = False``, ``0 and x``.

    An option may be given, whatever its default.
    """
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _is_set_off(control, test.left) or _is_set_off(control, test.right)
    if not isinstance(test, (cst.Name, cst.Attribute)):
        return isinstance(test, cst.Integer) and test.evaluated_value == 0
    edges = control.script.flow.edges_into(control.locations(test))
    assigned = [edge.value for edge in edges if not edge.offers]
    return bool(assigned) and all(
        value is not None and code_of(value) == "False" for value in assigned
    )


def has_one_rank(control: Control) -> bool:
    """Whether all process groups, and what starts the ranks, are told of one by a number."""
    groups = control.script.calls(INIT_GROUP, everywhere=True)
    sizes = [argument(one, "world_size", 3) for one in groups]
    return bool(groups) and (
        all(is_one(control, size) for size in (*sizes, *started(control)))
        or _counts_to_one(control)
        or all(_is_told_a_number(control, one) for one in groups)
    )


def started(control: Control) -> list[cst.Arg | None]:
    """How many processes the script is told to start."""
    return [argument(one, "nprocs", 2) for one in control.script.calls(*SPAWNS, everywhere=True)]


def is_one(control: Control, given: cst.Arg | None) -> bool:
    """Whether a number of processes is one, or that of the one GPU that the script is shown."""
    if given is None:
        return False
    counts = control.script.labels(given.value) == {DEVICES}
    shown = counts and (_shows_one_gpu(control) or _is_shown_one_gpu(control))
    return control.script.value(given.value).constant() == 1 or shown


def _is_shown_one_gpu(control: Control) -> bool:
    """Whether all commands that start a script show it one: ``CUDA_VISIBLE_DEVICES=0 python``."""
    script = control.script
    path = script.project.entry.path
    shows = rf"\bCUDA_VISIBLE_DEVICES=([\"']?)\d+\1\s[^|;&]*\b{re.escape(path.stem)}\.py\b"
    starts = starts_of(path, script.texts)
    return bool(starts) and all(re.search(shows, one) for one in starts)


def _shows_one_gpu(control: Control) -> bool:
    """``os.environ["CUDA_VISIBLE_DEVICES"] = "0"``, and nothing else, in any case."""
    script = control.script
    shown = [
        (assign, script.value(assign.value).constant())
        for structure in script.structures.values()
        for assign in structure.all(cst.Assign)
        if any(environment_key(script.facts, one.target) == VISIBLE for one in assign.targets)
    ]
    return bool(shown) and all(
        isinstance(gpus, str) and gpus.strip().isdigit() and not control.guards(assign)
        for assign, gpus in shown
    )


def _is_told_a_number(control: Control, group: cst.Call) -> bool:
    """``init_process_group(rank=0)``: whichever rank this is, it is one."""
    given = argument(group, "rank", 4)
    if given is None or control.script.labels(given.value) & (ANY_RANK - {TOLD}):
        return False
    held = control.script.value(given.value).atoms
    return bool(held) and all(isinstance(one, Const) and type(one.value) is int for one in held)


@lru_cache(maxsize=4)  # it is asked about each finding
def _counts_to_one(control: Control) -> bool:
    """Whether a script sets the number of ranks to one, and nowhere asks for it."""
    texts = (control.script.source.text, *(x.source.text for x in control.script.project.files))
    if any(map(_ASKS_SIZE.search, texts)) or not any(map(_NAMES_SIZE.search, texts)):
        return False
    written = [
        edge.value
        for structure in control.script.structures.values()
        for assign in structure.all(cst.Assign)
        for edge in control.script.flow.edges_at(assign)
        if any(isinstance(x[-1], str) and _SIZE.fullmatch(x[-1]) for x in edge.targets)
    ]
    return bool(written) and all(one is not None and code_of(one) == "1" for one in written)
