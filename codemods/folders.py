"""Folders that any rank may make, and what one rank of each node does before the others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.effects import note, short_name, takes_part_in_training

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.syntax import code_of
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
    if told:
        edits.put(told[0].value, "True")
    else:
        edits.add_keyword(site.node, "exist_ok=True")
    if effect.name == "os.mkdir":
        edits.put(site.node.func, "os.makedirs")
    note(edits, effect, site, "folder made by whichever rank comes first")


def download(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """One rank of each node downloads; a data set's own constructor does it where it is made."""
    made = next((c for c in effect.calls if c.module.editable and _data_sets(plan, c)), None)
    local_main_first(plan, edits, effect, made or site)


def made_once(plan: Plan, effect: Effect) -> Iterator[cst.CSTNode]:
    """The classes of data sets that one rank of each node makes first, downloads and all.

    What they write, the others find.
    """
    for call in effect.calls if effect.kind == "download" else ():
        if call.module.editable:
            yield from (made.node for made in _data_sets(plan, call))


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
    calls = (c for c in reversed(effect.calls) if c.module.editable and _gives_data(plan, c))
    site = next((place for place in (site, *calls) if _can_wait(place)), site)
    if not _can_wait(site):
        text = f"{short_name(effect)} is done by every rank at once"
        note(edits, effect, site, text, attention=True)
        return
    statement = site.module.statement(site.node)
    edits.put_under(statement, f"with {plan.options.alias}.local_main_first():")
    note(edits, effect, site, f"{short_name(effect)} once a node")


def wait_once(plan: Plan, edits: Edits, effect: Effect) -> None:
    """What is done in a call that one rank of each node makes first waits for nobody again."""
    header = f"with {plan.options.alias}.local_main_first():"
    statement = effect.site.module.statement(effect.site.node)
    if edits.blocks.get(statement) != header:
        return
    outer = (c.module.statement(c.node) for c in effect.calls if c.module.editable)
    if any(edits.blocks.get(one) == header for one in outer if one is not statement):
        del edits.blocks[statement]


def _can_wait(site: Site) -> bool:
    """Whether a whole statement runs where this stands, and nothing leaves the block with it."""
    statement = site.module.statement(site.node)
    later = any(isinstance(node, cst.Lambda) for node in site.module.structure.up(site.node))
    if later or not isinstance(statement, cst.SimpleStatementLine):
        return False
    return not isinstance(statement.body[0], cst.Return)


def _gives_data(plan: Plan, site: Site) -> bool:
    """Whether a call gives back no more than data: models and loaders take part in collectives."""
    made = deep_atoms(plan.facts.values.get(site.node, UNKNOWN))
    return bool(made) and not any(takes_part_in_training(atom) for atom in made)
