"""Files that are opened to be read and written: what is in them is read before all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.actions import OPENERS
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import UNKNOWN, QualifiedName

if TYPE_CHECKING:
    from ddpify.understanding.facts import Effect, Facts

_READING = frozenset("read readline readlines read1 peek seek tell close closed name mode".split())
_READERS = frozenset(
    {
        "pickle.load", "json.load", "yaml.load", "yaml.safe_load", "csv.reader", "csv.DictReader",
        "torch.load", "numpy.load", "numpy.loadtxt", "pandas.read_csv", "builtins.list",
        "builtins.iter", "builtins.next", "builtins.enumerate", "builtins.sorted", "PIL.Image.open",
    }
)  # fmt: skip


def read_first(facts: Facts, effect: Effect) -> bool:
    """Whether it opens a file that must be there, as ``open(path, "r+")`` does."""
    call = effect.site.node
    if effect.kind != "write" or not isinstance(call, cst.Call):
        return False
    if effect.name not in OPENERS and effect.name != "open":
        return False
    mode = argument(call, "mode", 0 if effect.name == "open" else 1)
    text = facts.values.get(mode.value, UNKNOWN).constant() if mode is not None else None
    return isinstance(text, str) and not set("wax") & set(text)


def forget_read(facts: Facts) -> None:
    """Take out what opens a file to be read and written, and reads it alone: all ranks may."""
    for key, effect in list(facts.effects.items()):
        if read_first(facts, effect) and _is_read_alone(facts, effect):
            del facts.effects[key]


def _is_read_alone(facts: Facts, effect: Effect) -> bool:
    """Whether nothing is written into what a call opens, by that or by the name that it has."""
    structure, opened = effect.site.module.structure, effect.site.node
    name = _name_of(structure, opened)
    if name is None:
        return _reads(facts, structure, opened)
    around = structure.function(opened)
    body = effect.site.module.tree if around is None else around.body
    uses = [n for n in walk(body) if isinstance(n, cst.Name) and n.deep_equals(name)]
    return all(_reads(facts, structure, one) for one in uses)


def _name_of(structure: Structure, opened: cst.CSTNode) -> cst.Name | None:
    """The one name that an opened file gets: ``f = open(...)``, ``with open(...) as f``."""
    above = structure.parents.get(opened)
    bound: cst.CSTNode | None
    if isinstance(above, cst.WithItem):
        bound = above.asname.name if above.asname is not None else None
    elif isinstance(above, cst.Assign) and len(above.targets) == 1:
        bound = above.targets[0].target
    else:
        return None
    return bound if isinstance(bound, cst.Name) else None


def _reads(facts: Facts, structure: Structure, file: cst.CSTNode) -> bool:
    """Whether a place where a file stands only reads it, or gives it its name."""
    above = structure.parents.get(file)
    if isinstance(above, cst.Attribute):
        return above.attr is file or above.attr.value in _READING
    if isinstance(above, cst.Arg):
        call = structure.parents.get(above)
        held = facts.values.get(call.func, UNKNOWN).atoms if isinstance(call, cst.Call) else ()
        return bool(held) and all(isinstance(a, QualifiedName) and a.name in _READERS for a in held)
    if isinstance(above, (cst.For, cst.CompFor)):
        return above.iter is file
    return isinstance(above, (cst.AssignTarget, cst.AsName, cst.Del))
