"""Questions for files and folders that rank 0 answers for all ranks."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import first_of_node, on_all_ranks, on_main, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.actions import WRITERS
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import leaves, rest_of_block, walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.taint.file_names import FileUse, tests_of
from ddpify.understanding.values import UNKNOWN, Instance

_ENDS = ("sys.exit", "exit", "quit", "os._exit")


def edit(plan: Plan, edits: Edits) -> None:
    """Ask rank 0 where ranks could see different files, and what they see matters."""
    uses = [use for use in plan.places.uses if on_all_ranks(plan, edits, use.site)]
    effects = [e for e in plan.facts.effects.values() if path_of(e) is not None]
    _share_log_folders(plan, edits, uses)
    for use in uses:
        if use.asks and _decides(plan, edits, use, effects):
            share(plan, edits, use.site, "asked by rank 0 for all ranks", "read-after-rank0-write")


def _share_log_folders(plan: Plan, edits: Edits, uses: list[FileUse]) -> None:
    """``writer.log_dir`` of what is read: only rank 0 has a writer."""
    for use in uses:
        for one in plan.flow.ancestry(use.path, use.site.module):
            module = plan.project.owner(one.node) if one.node is not None else None
            folder = _log_folder(plan, module, one.node) if module is not None else None
            if folder is not None and on_all_ranks(plan, edits, folder):
                text = "rank 0's folder on all ranks"
                share(plan, edits, folder, text, "per-rank-run-directory")


def _log_folder(plan: Plan, module: ModuleFile, node: cst.CSTNode | None) -> Site | None:
    """The ``writer.log_dir`` or ``writer.get_logdir()`` that is, or begins at, a node."""
    while node is not None and not isinstance(node, cst.Attribute):
        node = module.parents.get(node) if isinstance(node, cst.Name) else None
    if node is None or node.attr.value not in ("log_dir", "logdir", "get_logdir"):
        return None
    owner = plan.facts.values.get(node.value, UNKNOWN)
    if not any(isinstance(a, Instance) and a.type in WRITERS for a in owner.atoms):
        return None
    called = module.parents[node]
    return Site(called if isinstance(called, cst.Call) else node, module)


def _decides(plan: Plan, edits: Edits, use: FileUse, effects: list[Effect]) -> bool:
    """Whether the answer to a question may differ between ranks, and matters.

    It names a folder that one rank may have made by the time another asks; or else what is asked
    for is made because it is missing, or must be missing.
    """
    if _names_a_folder(plan, use, effects):
        return True
    structure = use.site.module.structure
    first = first_of_node(plan)
    for test in tests_of(structure, use.site.node):
        branches = list(walk(test))
        if isinstance(test, cst.If) and leaves(test.body):
            branches += [n for one in rest_of_block(structure, test) for n in walk(one)]
        reached = set(branches)
        if any(edits.blocks.get(node) == first for node in reached):
            return True  # all ranks come to the download, or none
        kinds = {"save", "write"} | ({"folder"} if _ends_the_script(test) else set())
        if _by_main_alone(plan, edits, test):
            continue
        made = (e for e in effects if e.kind in kinds and _is_inside(e, reached))
        if any(plan.places.is_on(effect, use) for effect in made):
            return True
    return False


def _names_a_folder(plan: Plan, use: FileUse, effects: list[Effect]) -> bool:
    made = [e for e in effects if e.kind in ("folder", "writer")]
    if not made:
        return False
    decided = plan.places.decided_by(use)
    for effect in made:
        path = path_of(effect)
        assert path is not None
        if plan.flow.locations(path, effect.site.module) & decided or use.site.node in walk(path):
            return True
    return False


def _ends_the_script(test: cst.CSTNode) -> bool:
    """Whether a branch raises, or ends the process."""
    return isinstance(test, cst.Assert) or any(
        isinstance(n, cst.Raise) or (isinstance(n, cst.Call) and dotted(n.func) in _ENDS)
        for n in walk(test)
    )


def _by_main_alone(plan: Plan, edits: Edits, test: cst.CSTNode) -> bool:
    """Whether the branches hold nothing that other ranks do, but for writing to nowhere."""
    if not isinstance(test, cst.If) or test.orelse is not None:
        return False
    return all(
        edits.blocks.get(statement) == on_main(plan) or _opens_nothing(edits, statement)
        for statement in test.body.body
    )


def _opens_nothing(edits: Edits, statement: cst.CSTNode) -> bool:
    """Whether other ranks write what a block writes into the null device."""
    items = statement.items if isinstance(statement, cst.With) else ()
    opened = [one.item for one in items if isinstance(one.item, cst.Call) and one.item.args]
    return bool(items) and all(call.args[0].value in edits.changes for call in opened)


def _is_inside(effect: Effect, reached: set[cst.CSTNode]) -> bool:
    return effect.site.node in reached or any(call.node in reached for call in effect.calls)
