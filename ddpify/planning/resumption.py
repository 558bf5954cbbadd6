"""What a restarted training must take up again: its loops, and all that outlives a step in them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.changed_state import hold_changed_state
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.planning.resumed_loops import Gap, Loops, ResumedLoop, Resumption, chains, reached
from ddpify.planning.resumed_objects import name_objects
from ddpify.planning.resumed_values import kept_values
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Instance

_PASSED_ON = ("builtins.enumerate", "builtins.zip", "itertools.islice")


def plan_resumption(plan: Plan, models: list[Instance]) -> Resumption:
    """The loops around each training step, with their state; ``models`` are those trained.

    Raises:
        Refusal: A training loop is of a form that cannot be taken up again.
    """
    found = Resumption()
    for site, _ in plan.facts.backwards.values():
        for chain in chains(plan, site, ()):
            for module, loop in _resumable(plan, site, chain):
                found.loops.setdefault(loop, ResumedLoop(loop, module, _batches(plan, loop)))
    if not found.loops:
        site = next(iter(plan.facts.backwards.values()))[0]
        raise Refusal(
            site.module, site.node, "its training step stands in no loop over a loader in a file "
            "that may be changed", "convert it without --resume",
        )  # fmt: skip
    for one in found.loops.values():
        kept_values(plan, found, one)
    name_objects(plan, found, models)
    hold_changed_state(plan, found)
    _open_files(plan, found)
    return found


def _resumable(plan: Plan, site: Site, chain: Loops) -> Iterator[tuple[ModuleFile, cst.For]]:
    """Those of a chain that are taken up again: the innermost over batches, and what is around."""
    first = next((i for i, (_, loop) in enumerate(chain) if _batches(plan, loop)), None)
    if first is None:
        _refuse(chain[0] if chain else (site.module, site.node), "batches are not taken by a loop",
                "write the loop as `for batch in loader:`")  # fmt: skip
        return
    for module, loop in chain[first:]:
        if not isinstance(loop, cst.For):
            _refuse((module, loop), "a while loop around the training has no number of its round",
                    "write it as `for epoch in range(...)`")  # fmt: skip
        elif not module.editable:
            _refuse((module, loop), f"the loop is in {module.path.name}", "convert the project")
        elif not isinstance(loop.body, cst.IndentedBlock):
            _refuse((module, loop), "the loop stands on one line", "give its body lines of its own")
        else:
            yield module, loop


def _refuse(place: tuple[ModuleFile, cst.CSTNode], what: str, remedy: str) -> None:
    raise Refusal(place[0], place[1], f"--resume: {what}", remedy)


def _batches(plan: Plan, loop: cst.For | cst.While) -> bool:
    """Whether a loop goes over a loader, if only through enumerate(), zip() or a progress bar."""
    return isinstance(loop, cst.For) and _is_feed(plan, loop.iter)


def _is_feed(plan: Plan, node: cst.BaseExpression) -> bool:
    held = plan.facts.values.get(node)
    if held is not None and any(isinstance(a, Instance) and is_loader(a) for a in held.atoms):
        return True
    if not isinstance(node, cst.Call):
        return False
    bar = any(e.kind == "bar" and e.site.node is node for e in plan.facts.effects.values())
    passed = any(node in plan.facts.library_calls.get(name, ()) for name in _PASSED_ON)
    builtin = isinstance(node.func, cst.Name) and f"builtins.{node.func.value}" in _PASSED_ON
    return (bar or passed or builtin) and any(_is_feed(plan, arg.value) for arg in node.args)


def _open_files(plan: Plan, found: Resumption) -> None:
    """Files that a restarted script opens anew, and so empties, before it goes on writing."""
    inside = {node for one in found.loops.values() for node in reached(plan, one)}
    for effect in plan.facts.effects.values():
        call = effect.site.node
        if effect.kind not in ("write", "logfile") or call in inside:
            continue
        if not isinstance(call, cst.Call) or not effect.name.endswith(("open", "FileHandler")):
            continue
        before = any(
            one.module is effect.site.module
            and one.module.structure.order[call] < one.module.structure.order[one.node]
            for one in found.loops.values()
        )
        if before and '"a' not in code_of(call) and "'a" not in code_of(call):
            found.gaps.append(
                Gap(effect.site, "a restart empties this file: open it with mode 'a'")
            )
