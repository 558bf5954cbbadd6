"""Launches of a script: the commands of its project that start it, and those that start ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.texts import launches_of, starts_of, starts_what_it_is_given

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.script import Script
    from ddpify.understanding.texts import Texts

# What starts several processes beside PyTorch's launchers, and what tells one of them its rank.
_STARTS_RANKS = re.compile(
    r"\b(?:srun|mpirun|mpiexec|horovodrun|deepspeed)\s|\baccelerate\s+launch\b|\bddpify\s+run\b"
    r"|\bRANK=|\s--(?:\w+[-_])?rank\b|\s--world[-_]size\b"
)
_ONE_RANK = re.compile(r"--nproc[-_]per[-_]node[=\s]+[\"']?1(?![\d])")
_MOST, _NOTEBOOK = 40, ".ipynb"


@record
class Launches:
    """The commands that start a script as ranks, and those that start it as one process.

    ``known``: whether any command is known. Where none is for ranks then, the script is for one
    process, as others beside it are not.
    """

    of_ranks: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    known: bool = False


def launches(script: Script) -> Launches:
    """The launches of the script that a run begins with."""
    path, texts = script.project.entry.path, script.texts
    starts = list(dict.fromkeys((*launches_of(path, texts), *starts_of(path, texts))))[:_MOST]
    launched = {*launches_of(path, texts), *filter(_STARTS_RANKS.search, starts)}
    several = {one for one in launched if not _ONE_RANK.search(one)} or launched
    alone = not several and _is_for_one(script, texts)
    if not several and not alone:
        several = {*starts}  # nobody says how it is started on several
    of_ranks = tuple(one for one in starts if one in several)
    known = bool(starts) or (alone and path.suffix == _NOTEBOOK)
    return Launches(of_ranks, tuple(one for one in starts if one not in several), known)


def is_started_as_one_process(script: Script) -> bool:
    """Whether commands of the project start this script, or ranks of others, and none its ranks."""
    path, texts = script.project.entry.path, script.texts
    starts = starts_of(path, texts)
    launched = launches_of(path, texts) or any(map(_STARTS_RANKS.search, starts))
    return bool(starts or texts.commands) and not (
        launched or script.control.spawned or starts_what_it_is_given(texts)
    )


def _is_for_one(script: Script, texts: Texts) -> bool:
    """Whether launchers are for other scripts of a project, and this one may do without.

    It starts no ranks itself, and joins a process group under a condition, if at all. A notebook
    needs no command.
    """
    others = bool(texts.commands) and not starts_what_it_is_given(texts)
    if script.control.spawned or not (others or script.project.entry.path.suffix == _NOTEBOOK):
        return False
    groups = script.calls(INIT_GROUP, everywhere=True)
    return all(_is_under_a_condition(script.control, one) for one in groups)


def _is_under_a_condition(control: Control, node: cst.CSTNode) -> bool:
    """Whether each way to a node leads through some condition, or past a return."""

    def holds(one: cst.CSTNode) -> bool:
        structure = control.script.structure_of(one)
        function = structure.function(one)
        returns = structure.inside(function, cst.Return) if function is not None else ()
        return bool(control.guards(one)) or any(
            structure.order[x] < structure.order[one] for x in returns
        )

    return control.holds_on_every_way(node, holds, begins=control.spawned, uncalled=True)
