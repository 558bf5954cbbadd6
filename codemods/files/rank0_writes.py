"""Checkpoints and other files are written by rank 0: a statement, a part of a line, or the file."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.files.collective_work import (
    can_go_before,
    compute_before,
    hands_over_training,
    holds_shared_work,
    runs_on_all_ranks,
)
from ddpify.codemods.files.file_handles import opened_elsewhere, written_by_main
from ddpify.codemods.files.folders import local_main_first
from ddpify.codemods.files.write_effects import (
    is_open,
    note,
    on_main_else,
    short_name,
    write_nowhere,
)
from ddpify.codemods.synchronisation.rank0_values import on_main

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries import partial_calls
from ddpify.understanding.libraries.actions import CONTAINERS, FILLED
from ddpify.understanding.libraries.opened_files import read_first
from ddpify.understanding.liveness import read_behind
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of, statements
from ddpify.understanding.values import UNKNOWN, Instance


def save(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Save with the runtime, to the path itself where a file is opened for this save alone."""
    if site is not effect.site:
        guard(plan, edits, effect, site)
        return
    assert isinstance(site.node, cst.Call)
    kept = _kept_functions(plan, site.node)
    block = _opened_for_it_alone(site)
    if kept:
        for function in kept:
            edits.put(function, f"{plan.options.alias}.save")
    elif block is not None:
        _save_to_path(plan, edits, block, site.node)
    else:
        edits.put(site.node.func, f"{plan.options.alias}.save")
    note(edits, effect, site, "saved by rank 0 alone, atomically")


def _kept_functions(plan: Plan, call: cst.Call) -> list[cst.BaseExpression]:
    """The ``torch.save`` of ``functools.partial(torch.save, f=path)``, where such is called."""
    held = plan.facts.values.get(call.func, UNKNOWN).atoms
    made = [a.site for a in held if isinstance(a, Instance) and a.type == partial_calls.TYPE]
    return [one.args[0].value for one in made if isinstance(one, cst.Call) and one.args]


def _opened_for_it_alone(site: Site) -> cst.With | None:
    """The ``with open(path, "wb") as f:`` around a save into ``f`` and nothing else."""
    parents = site.module.parents
    line = site.module.statement(site.node)
    block = parents.get(parents.get(line, line))
    if not isinstance(block, cst.With) or len(block.items) != 1 or len(block.body.body) != 1:
        return None
    item, call = block.items[0], site.node
    opened = item.item
    if not isinstance(opened, cst.Call) or code_of(opened.func) != "open" or item.asname is None:
        return None
    assert isinstance(call, cst.Call)
    into = call.args[1].value if len(call.args) > 1 else None
    same = into is not None and code_of(into) == code_of(item.asname.name)
    return block if same and isinstance(parents[call], cst.Expr) else None


def _save_to_path(plan: Plan, edits: Edits, block: cst.With, call: cst.Call) -> None:
    """Save to the path itself: the file must be complete before other ranks continue."""
    opened = block.items[0].item
    assert isinstance(opened, cst.Call)
    what, path = code_of(call.args[0].value), code_of(opened.args[0].value)
    code = f"{plan.options.alias}.save({what}, {path})\n"

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.With)
        line = cst.parse_statement(code)
        return line.with_changes(leading_lines=updated.leading_lines)

    edits.change(block, change)
    edits.replaced.add(block)


def guard(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Put a statement that writes under a test for rank 0, or its file out of the way."""
    statement = site.module.statement(site.node)
    if statement in edits.blocks or statement in edits.replaced:
        return
    if any(edits.blocks.get(n) == on_main(plan) for n in site.module.structure.up(statement)):
        return
    whole = _writes_only(statement) and not _read_behind(site.module, statement)
    if whole and not holds_shared_work(plan, statement):
        _write_on_main(plan, edits, effect, site, statement)
    elif whole and can_go_before(plan, statement, site.node):
        compute_before(plan, edits, statement, site.node)
        _write_on_main(plan, edits, effect, site, statement)
    elif (part := _part_of_line(plan, site)) is not None:
        compute_before(plan, edits, part, site.node)
        edits.put_part_under(part, on_main(plan))
        note(edits, effect, site, f"{short_name(effect)} on rank 0 alone")
    elif effect.kind == "save" and site is not effect.site and runs_on_all_ranks(plan, site):
        edits.put_under(statement, f"with {plan.options.alias}.main_saves():")
        note(edits, effect, site, f"{short_name(effect)} by rank 0 alone")
    elif whole and site is not effect.site and not hands_over_training(plan, site):
        _write_on_main(plan, edits, effect, site, statement)
    elif read_first(plan.facts, effect) and written_by_main(plan, edits, effect, site):
        return
    elif is_open(effect) and site is effect.site and not read_first(plan.facts, effect):
        _open_nothing(plan, edits, effect, site)
    elif site is effect.site and _is_new(plan, effect):
        on_main_else(plan, edits, site.node, f"{plan.options.alias}.silent()")
        note(edits, effect, site, f"{short_name(effect)} on rank 0 alone")
    elif not effect.site.module.editable:
        if not opened_elsewhere(plan, edits, effect, site):
            local_main_first(plan, edits, effect, site)
    else:
        text = f"{short_name(effect)} is done by every rank: guard it"
        note(edits, effect, site, text, attention=True)


def _write_on_main(
    plan: Plan, edits: Edits, effect: Effect, site: Site, statement: cst.CSTNode
) -> None:
    for node in walk(statement):
        if edits.blocks.get(node) == on_main(plan):
            del edits.blocks[node]
    edits.put_under(statement, on_main(plan))
    note(edits, effect, site, f"{short_name(effect)} on rank 0 alone")


def _part_of_line(plan: Plan, site: Site) -> cst.BaseSmallStatement | None:
    """The call that writes among several statements of one line, or behind a colon."""
    part = site.module.part(site.node)
    if not isinstance(part, cst.Expr) or part.value is not site.node:
        return None
    free = not holds_shared_work(plan, part) or can_go_before(plan, part, site.node)
    return part if free else None


def _writes_only(statement: cst.CSTNode) -> bool:
    """Whether a statement is there for the writing: no other value comes of it."""
    if isinstance(statement, cst.SimpleStatementLine):
        return len(statement.body) == 1 and isinstance(statement.body[0], cst.Expr)
    if isinstance(statement, cst.With):
        files = {code_of(i.asname.name) for i in statement.items if i.asname is not None}
        return not any(_makes_a_value(n, files) for n in walk(statement.body))
    return False


def _makes_a_value(node: cst.CSTNode, files: set[str]) -> bool:
    """Whether a statement sets or returns anything, but for what it puts into a file's items."""
    if isinstance(node, cst.Assign):
        put = [t.target for t in node.targets]
        return not all(isinstance(t, cst.Subscript) and code_of(t.value) in files for t in put)
    return isinstance(node, (cst.AugAssign, cst.Return, cst.Yield))


def _is_new(plan: Plan, effect: Effect) -> bool:
    """Whether a file is made anew, to put things into it: there is nothing in it to read."""
    call = effect.site.node
    mode = argument(call, "mode", 1) if isinstance(call, cst.Call) else None
    text = plan.facts.values.get(mode.value, UNKNOWN).constant() if mode is not None else None
    anew = isinstance(text, str) and text.startswith(("w", "x"))
    return effect.name in FILLED or (effect.name in CONTAINERS and anew)


def _read_behind(module: ModuleFile, statement: cst.CSTNode) -> bool:
    """Whether a file that a ``with`` opens is used behind it: all ranks must have the name."""
    if not isinstance(statement, cst.With):
        return False
    around = module.function(statement)
    body = module.tree.body if around is None else statements(around.body)
    return bool(read_behind(body, statement))


def _open_nothing(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Other ranks write into the null device: the handle outlives the statement."""
    assert isinstance(site.node, cst.Call)
    first = site.node.args[0].value
    write_nowhere(plan, edits, first, site)
    note(edits, effect, site, f"{code_of(first)} written by rank 0 alone")
