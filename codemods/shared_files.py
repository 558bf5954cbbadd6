"""Let all ranks see files as rank 0 does, and wait for what it alone wrote."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.agreement import on_all_ranks, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.labels.places import Places, Use, tests_of
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.structure import leaves, rest_of_block, walk
from ddpify.understanding.syntax import dotted

_ENDS = ("sys.exit", "exit", "quit", "os._exit")


def edit(plan: Plan, edits: Edits) -> None:
    """Share answers that name folders, and wait before files are read back."""
    places = Places(plan.facts, plan.flow)
    uses = [use for use in places.uses() if on_all_ranks(plan, edits, use.site)]
    effects = [e for e in plan.facts.effects.values() if path_of(e) is not None]
    for use in uses:
        if use.asks and _decides(plan, edits, places, use, effects):
            share(plan, edits, use.site, "asked by rank 0 for all ranks", "read-after-rank0-write")
    _wait_for_files(plan, edits, places, uses, effects)


# ---------------------------------------------------------------------- questions
def _decides(plan: Plan, edits: Edits, places: Places, use: Use, effects: list[Effect]) -> bool:
    """Whether the answer to a question may differ between ranks, and matters.

    It names a folder that one rank may have made by the time another asks; or else what is asked
    for is made because it is missing, or must be missing.
    """
    if _names_a_folder(plan, edits, places, use, effects):
        return True
    structure = use.site.module.structure
    for test in tests_of(structure, use.site.node):
        branches = list(walk(test))
        if isinstance(test, cst.If) and leaves(test.body):
            branches += [n for one in rest_of_block(structure, test) for n in walk(one)]
        reached = set(branches)
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
    path = path_of(effect)
    assert path is not None
    return places.may_be_same(path, effect.site.module, use.path, use.site.module)


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


def _alone(plan: Plan, edits: Edits, effect: Effect, use: Use) -> cst.CSTNode | None:
    """The statement in which rank 0 alone changes a file; None where the read is part of it."""
    module, header = effect.site.module, _header(plan)
    around = [effect.site.node, *module.structure.up(effect.site.node)]
    guarded = [n for n in around if header in (edits.blocks.get(n), edits.parts.get(n))]
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
