"""What the edits of all places that write share: their notes, and what other ranks get."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.actions import OPENERS
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.values import Instance

_RULES = {
    "save": "write-on-all-ranks",
    "write": "write-on-all-ranks",
    "folder": "makedirs-race",
    "download": "download-on-all-ranks",
    "log": "logger-on-all-ranks",
    "writer": "logger-on-all-ranks",
    "logfile": "logger-on-all-ranks",
    "bar": "logger-on-all-ranks",
}

# Where a conditional expression stands alone, and needs no parentheses.
_DELIMITING = (
    cst.Assign,
    cst.AnnAssign,
    cst.Arg,
    cst.Return,
    cst.Element,
    cst.DictElement,
    cst.WithItem,
    cst.Expr,
)


def note(edits: Edits, effect: Effect, site: Site, text: str, *, attention: bool = False) -> None:
    """Say what was done about an effect, or what to look at, under the lint rule that it is of."""
    edits.note(site, text, rule=_RULES.get(effect.kind, ""), attention=attention)


def short_name(effect: Effect) -> str:
    """``savefig()`` of an effect in ``plt.savefig``."""
    return f"{effect.name.rsplit('.', 1)[-1]}()"


def takes_part_in_training(atom: object) -> bool:
    """Whether it is a model or a loader, whose calls all ranks make together."""
    return isinstance(atom, Instance) and (is_model(atom) or is_loader(atom))


def is_open(effect: Effect) -> bool:
    """Whether this is ``open()``, a path's method of that name, or their like for packed files."""
    return effect.name in OPENERS or effect.name == "open"


def write_nowhere(plan: Plan, edits: Edits, path: cst.BaseExpression, site: Site) -> None:
    """Give the other ranks the null device for the path of a file."""
    on_main_else(plan, edits, path, "os.devnull")
    edits.imports[site.module].add("os")


def on_main_else(plan: Plan, edits: Edits, node: cst.CSTNode, other: str) -> None:
    """An expression ``x`` becomes ``x if is_main() else other``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        made = cst.parse_expression(f"(_ if {plan.options.alias}.is_main() else {other})")
        assert isinstance(made, cst.IfExp) and isinstance(updated, cst.BaseExpression)
        made = made if nested else made.with_changes(lpar=[], rpar=[])
        return made.with_changes(body=updated)

    parent = plan.module_of(node).parents.get(node)
    nested = not isinstance(parent, _DELIMITING)
    edits.change(node, change)
