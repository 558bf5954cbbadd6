"""Ranks wait before they read what rank 0 alone writes, and before it changes what they read."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks, on_main

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.actions import COMMANDS
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.file_names import FileUse


def edit(plan: Plan, edits: Edits) -> None:
    """Let ranks meet around files that are read back, and behind commands of the system."""
    uses = [use for use in plan.places.uses if on_all_ranks(plan, edits, use.site)]
    effects = [e for e in plan.facts.effects.values() if path_of(e) is not None]
    _wait_for_files(plan, edits, uses, effects)
    _wait_for_commands(plan, edits)


def _wait_for_files(plan: Plan, edits: Edits, uses: list[FileUse], effects: list[Effect]) -> None:
    """Let ranks meet between what rank 0 alone does to a file and the reading of it by all."""
    met: list[tuple[Effect, Site]] = []
    for use in uses:
        if use.site.node in edits.wrapped:
            continue  # rank 0, which wrote it, answers
        for effect in effects:
            alone = _alone(plan, edits, effect, use) if plan.places.is_on(effect, use) else None
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
    header = on_main(plan)
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


def _alone(plan: Plan, edits: Edits, effect: Effect, use: FileUse) -> cst.CSTNode | None:
    """The statement in which rank 0 alone changes a file; None where the read is part of it."""
    module, header = effect.site.module, on_main(plan)
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
