"""Let all ranks see files as rank 0 does, and wait for what it alone wrote."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.agreement import on_all_ranks, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.labels.places import Places, Use, tests_of
from ddpify.understanding.libraries.actions import COMMANDS, WRITERS
from ddpify.understanding.libraries.paths import TREES, path_of
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import leaves, rest_of_block, walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Instance

_ENDS = ("sys.exit", "exit", "quit", "os._exit")


def edit(plan: Plan, edits: Edits) -> None:
    """Share answers that name folders, and wait before files are read back."""
    places = Places(plan.facts, plan.flow)
    uses = [use for use in places.uses() if on_all_ranks(plan, edits, use.site)]
    effects = [e for e in plan.facts.effects.values() if path_of(e) is not None]
    _share_log_folders(plan, edits, uses)
    for use in uses:
        if use.asks and _decides(plan, edits, places, use, effects):
            share(plan, edits, use.site, "asked by rank 0 for all ranks", "read-after-rank0-write")
    _wait_for_files(plan, edits, places, uses, effects)
    _wait_for_commands(plan, edits)


def _share_log_folders(plan: Plan, edits: Edits, uses: list[Use]) -> None:
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


# ---------------------------------------------------------------------- questions
def _decides(plan: Plan, edits: Edits, places: Places, use: Use, effects: list[Effect]) -> bool:
    """Whether the answer to a question may differ between ranks, and matters.

    It names a folder that one rank may have made by the time another asks; or else what is asked
    for is made because it is missing, or must be missing.
    """
    if _names_a_folder(plan, edits, places, use, effects):
        return True
    structure = use.site.module.structure
    first = f"with {plan.options.alias}.local_main_first():"
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
        if any(_same(places, effect, use) for effect in made):
            return True
    return False


def _names_a_folder(
    plan: Plan, edits: Edits, places: Places, use: Use, effects: list[Effect]
) -> bool:
    made = [e for e in effects if e.kind in ("folder", "writer")]
    if not made:
        return False
    decided = places.decided_by(use)
    for effect in made:
        path = path_of(effect)
        assert path is not None
        if plan.flow.slots(path, effect.site.module) & decided or use.site.node in walk(path):
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
        edits.blocks.get(statement) == _header(plan) or _opens_nothing(edits, statement)
        for statement in test.body.body
    )


def _opens_nothing(edits: Edits, statement: cst.CSTNode) -> bool:
    """Whether other ranks write what a block writes into the null device."""
    items = statement.items if isinstance(statement, cst.With) else ()
    opened = [one.item for one in items if isinstance(one.item, cst.Call) and one.item.args]
    return bool(items) and all(call.args[0].value in edits.changes for call in opened)


def _header(plan: Plan) -> str:
    return f"if {plan.options.alias}.is_main():"


def _is_inside(effect: Effect, reached: set[cst.CSTNode]) -> bool:
    return effect.site.node in reached or any(call.node in reached for call in effect.calls)


def _same(places: Places, effect: Effect, use: Use) -> bool:
    """Whether an effect may be on the file, or folder, that is read or asked for."""
    path = path_of(effect)
    assert path is not None
    place = (path, effect.site.module)
    if places.may_be_same(place, use.place):
        return True
    return (use.asks and places.may_hold(use.place, place)) or (
        effect.name in TREES and places.may_hold(place, use.place)
    )


# ---------------------------------------------------------------------- waiting
def _wait_for_files(
    plan: Plan, edits: Edits, places: Places, uses: list[Use], effects: list[Effect]
) -> None:
    """Let ranks meet between what rank 0 alone does to a file and the reading of it by all."""
    met: list[tuple[Effect, Site]] = []
    for use in uses:
        if use.site.node in edits.wrapped:
            continue  # rank 0, which wrote it, answers
        for effect in effects:
            alone = _alone(plan, edits, effect, use) if _same(places, effect, use) else None
            if alone is None:
                continue
            if not _comes_later(effect.site, use.site):
                if not use.asks and _soon_after(use.site, effect.site):
                    _wait(plan, edits, effect.site, alone)
                continue
            before = _before_loops(effect, use.site)
            if not any(one is effect and _leads_to(wait, before) for one, wait in met):
                _wait(plan, edits, use.site, before.node)
                met.append((effect, before))


def _wait_for_commands(plan: Plan, edits: Edits) -> None:
    """What a command of the system does to files cannot be seen: all ranks go on behind it."""
    header = _header(plan)
    for effect in plan.facts.effects.values():
        if effect.name not in COMMANDS:
            continue
        structure = effect.site.module.structure
        statement = structure.statement(effect.site.node)
        body = list(getattr(structure.parents[statement], "body", ()))
        behind = next(iter(body[body.index(statement) + 1 :]), None) if statement in body else None
        together = behind is not None and edits.blocks.get(behind) == header
        if edits.blocks.get(statement) == header and not together:
            edits.insert_after(statement, f"{plan.options.alias}.barrier()\n")


def _alone(plan: Plan, edits: Edits, effect: Effect, use: Use) -> cst.CSTNode | None:
    """The statement in which rank 0 alone changes a file; None where the read is part of it."""
    module, header = effect.site.module, _header(plan)
    around = [effect.site.node, *module.structure.up(effect.site.node)]
    guarded = [n for n in around if header in (edits.blocks.get(n), edits.parts.get(n))]
    if path_of(effect) in edits.changes:  # others open the null device
        guarded.append(module.statement(effect.site.node))
    if effect.kind != "write" or not guarded or use.site.node in walk(guarded[-1]):
        return None
    return module.statement(guarded[-1])


def _before_loops(effect: Effect, read: Site) -> Site:
    """The statement of a read, or the outermost loop around it in which the file stays the same."""
    structure = read.module.structure
    statement = structure.statement(read.node)
    for loop in structure.loops(read.node):
        inside = set(walk(loop))
        if any(site.node in inside for site in (effect.site, *effect.calls)):
            break
        statement = loop
    return Site(statement, read.module)


def _leads_to(wait: Site, statement: Site) -> bool:
    """Whether a statement comes after another in its block, or deeper."""
    if wait.module is not statement.module:
        return False
    structure = wait.module.structure
    around = (statement.node, *structure.up(statement.node))
    beside = any(structure.parents.get(n) is structure.parents[wait.node] for n in around)
    return beside and structure.order[wait.node] <= structure.order[statement.node]


def _comes_later(first: Site, then: Site) -> bool:
    """Whether one place may be reached after another: below it, in its loop, or elsewhere."""
    structure = first.module.structure
    function = structure.function(first.node)
    if then.module is not first.module or structure.function(then.node) is not function:
        return True
    if structure.order[then.node] > structure.order[first.node]:
        return True
    return not set(structure.loops(first.node)).isdisjoint(structure.loops(then.node))


def _soon_after(read: Site, write: Site) -> bool:
    """Whether a write stands below a read, in no loop that the read is not in."""
    structure = write.module.structure
    return set(structure.loops(write.node)) <= set(structure.loops(read.node))


def _wait(plan: Plan, edits: Edits, site: Site, statement: cst.CSTNode) -> None:
    """Let all ranks meet before they read, or before rank 0 changes, a file."""
    if statement in edits.replaced or any(map(_is_barrier, edits.before.get(statement, ()))):
        return
    edits.insert_before(statement, f"{plan.options.alias}.barrier()\n")
    text = "ranks wait here: rank 0 alone changes a file that all of them read"
    edits.note(site, text, rule="read-after-rank0-write")


def _is_barrier(line: cst.CSTNode) -> bool:
    return any(isinstance(n, cst.Attribute) and n.attr.value == "barrier" for n in walk(line))
