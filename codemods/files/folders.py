"""Folders that any rank may make, and what one rank of each node does before the others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.files import new_folders
from ddpify.codemods.files.collective_work import runs_on_all_ranks
from ddpify.codemods.files.write_effects import note, short_name, takes_part_in_training
from ddpify.codemods.synchronisation.rank0_values import first_of_node

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.reachability import leading_to
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.file_names import asks
from ddpify.understanding.values import UNKNOWN, Class, deep_atoms


def folder(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """A folder that is there already is no error: another rank may have been first."""
    if site is not effect.site:
        local_main_first(plan, edits, effect, site)
        return
    assert isinstance(site.node, cst.Call)
    told = [a for a in site.node.args if a.keyword is not None and a.keyword.value == "exist_ok"]
    if told and code_of(told[0].value) == "True":
        return
    is_fine = new_folders.accepted(plan, edits, effect, site)
    if is_fine is None:
        text = "ranks find each other's folder: let rank 0 look for it before, and tell others"
        note(edits, effect, site, text, attention=True)
        return
    if told:
        edits.put(told[0].value, is_fine)
    else:
        edits.add_keyword(site.node, f"exist_ok={is_fine}")
    if effect.name == "os.mkdir":
        edits.put(site.node.func, "os.makedirs")
    note(edits, effect, site, "folder made by whichever rank comes first")


def download(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """One rank of each node downloads; a data set's own constructor does it where it is made."""
    calls = (c for c in effect.calls if c.module.editable and _data_sets(plan, c))
    made = next((c for c in calls if _is_apart(plan, c)), None)
    local_main_first(plan, edits, effect, made or site)


def made_once(plan: Plan, effect: Effect) -> Iterator[cst.CSTNode]:
    """What one rank of each node does first, downloads and all: what it writes, the others find.

    Classes of data sets, and branches for the case that a file is missing.
    """
    for call in effect.calls if effect.kind == "download" else ():
        if call.module.editable:
            yield from (made.node for made in _data_sets(plan, call))
    if effect.kind == "download" and effect.site.module.editable:
        asking = _asking(plan, effect)
        if asking is not None and isinstance(asking.node, cst.If):
            yield asking.node


def _data_sets(plan: Plan, site: Site) -> list[Class]:
    """The project's data sets that a call makes; what also holds models or loaders is none."""
    held = plan.facts.values.get(site.node.func) if isinstance(site.node, cst.Call) else None
    made = [a for a in held.atoms if isinstance(a, Class)] if held is not None else []
    return [a for a in made if a.find("__getitem__") or any(map(_is_data_set, a.library_bases()))]


def _is_data_set(base: str) -> bool:
    return base.endswith("Dataset") or base.startswith("torchvision.datasets.")


def local_main_first(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Let one rank of each node run the statement that does it before the others of the node do.

    The statement is the innermost that can stand in a block of its own: of this place, else of a
    call that leads to it. Where there is none, the place is noted.
    """
    asking = _asking(plan, effect) if site is effect.site else None
    if asking is not None:
        edits.put_under(_statement(asking), first_of_node(plan))
        note(edits, effect, asking, f"{short_name(effect)} once a node")
        return
    calls = (c for c in reversed(effect.calls) if c.module.editable and _is_apart(plan, c))
    site = next((place for place in (site, *calls) if _can_wait(place)), site)
    if not _can_wait(site):
        text = f"{short_name(effect)} is done by every rank at once"
        note(edits, effect, site, text, attention=True)
        return
    statement = site.module.statement(site.node)
    edits.put_under(statement, first_of_node(plan))
    note(edits, effect, site, f"{short_name(effect)} once a node")


def wait_once(plan: Plan, edits: Edits, effect: Effect) -> None:
    """What is done in a call that one rank of each node makes first waits for nobody again."""
    header = first_of_node(plan)
    statement = effect.site.module.statement(effect.site.node)
    if edits.blocks.get(statement) != header:
        return
    outer = (c.module.statement(c.node) for c in effect.calls if c.module.editable)
    if any(edits.blocks.get(one) == header for one in outer if one is not statement):
        del edits.blocks[statement]


def _asking(plan: Plan, effect: Effect) -> Site | None:
    """The outermost place that asks for files before a download: its ``if``, or else a call.

    The first rank's answer is another one than that of the ranks after it, which find the files.
    """
    found: Site | None = None
    places = [effect.site, *(c for c in reversed(effect.calls) if c.module.editable)]
    for place, call in zip(places, [*places[1:], None], strict=True):
        structure = place.module.structure
        guards = [g for g in structure.guards(place.node) if asks(plan.facts, g.test, place.module)]
        branches = [g.statement for g in guards if isinstance(g.statement, cst.If)]
        if not branches:
            continue
        left = any(g.left_early for g in guards) or not _stays(plan, branches[-1])
        if not left:
            found = Site(_first_case(structure, branches[-1]), place.module)
        elif call is not None and _can_wait(call) and _is_apart(plan, call):
            found = call
    return found


def _statement(site: Site) -> cst.CSTNode:
    return site.module.statement(site.node)


def _first_case(structure: Structure, statement: cst.CSTNode) -> cst.CSTNode:
    """The ``if`` of an ``elif``."""
    above = structure.parents[statement]
    while isinstance(above, cst.If) and above.orelse is statement:
        statement, above = above, structure.parents[above]
    return statement


def _stays(plan: Plan, block: cst.CSTNode) -> bool:
    """Whether the ranks may run a block one after another, and all go on behind it."""
    nodes = set(walk(block))
    if any(isinstance(n, (cst.Return, cst.Break, cst.Continue, cst.Yield)) for n in nodes):
        return False
    if any(n in plan.reductions or n in plan.facts.backwards for n in nodes):
        return False
    made = (plan.facts.values.get(n, UNKNOWN) for n in nodes if isinstance(n, cst.Call))
    if any(takes_part_in_training(atom) for held in made for atom in held.atoms):
        return False
    return not any(
        effect.kind == "save" and any(call.node in nodes for call in effect.calls)
        for effect in plan.facts.effects.values()
    )


def runs_alone(plan: Plan, site: Site) -> bool:
    """Whether ranks may run a call's whole statement one after another: no work is shared in it."""
    if not _can_wait(site) or not _is_apart(plan, site) or runs_on_all_ranks(plan, site):
        return False
    return not any(n in plan.reductions for n in walk(site.module.statement(site.node)))


def _can_wait(site: Site) -> bool:
    """Whether a whole statement runs where this stands, and nothing leaves the block with it."""
    statement = site.module.statement(site.node)
    later = any(isinstance(node, cst.Lambda) for node in site.module.structure.up(site.node))
    if later or not isinstance(statement, cst.SimpleStatementLine):
        return False
    return not isinstance(statement.body[0], cst.Return)


def _is_apart(plan: Plan, site: Site) -> bool:
    """Whether a call gives back no model or loader, and leads to nothing that ranks share."""
    made = deep_atoms(plan.facts.values.get(site.node, UNKNOWN))
    if any(takes_part_in_training(atom) for atom in made):
        return False
    shared = [backward for backward, _ in plan.facts.backwards.values()]
    shared += [plan.site(node) for node in plan.reductions]
    return all(one.node is not site.node for one in leading_to(plan.facts, *shared))
