"""Files that a module opens for writing which may not be changed, where its caller may be."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.files.folders import runs_alone
from ddpify.codemods.files.write_effects import is_open, note, write_nowhere

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import argument, parameters, spreads


def opened_elsewhere(plan: Plan, edits: Edits, effect: Effect, site: Site) -> bool:
    """Give the other ranks the null device for a path that is opened there and nothing else.

    Where the path may serve for more, the file alone is another one, in a block around the call.
    """
    opening = effect.site.node
    if not is_open(effect) or not isinstance(opening, cst.Call) or not opening.args:
        return False
    path = _argument(effect, site) if effect.calls and effect.calls[-1].node is site.node else None
    if path is not None:
        write_nowhere(plan, edits, path, site)
        note(edits, effect, site, "its file written by rank 0 alone")
        return True
    return written_by_main(plan, edits, effect, site)


def written_by_main(plan: Plan, edits: Edits, effect: Effect, site: Site) -> bool:
    """Let other ranks write nowhere in the statement that leads to a file; or note that none can.

    Returns whether anything is done about what every rank would write.
    """
    statement = site.module.statement(site.node)
    if runs_alone(plan, site):
        edits.blocks.pop(statement, None)  # ranks come one after another, whatever else is made
        edits.put_under(statement, f"with {plan.options.alias}.main_writes():")
        note(edits, effect, site, "its file written by rank 0 alone")
        return True
    if not _appends(effect.site.node):
        return False
    where = f"{effect.site.module.path.name}:{effect.site.line}"
    text = f"every rank appends to the file that {where} opens: convert the project, or guard it"
    note(edits, effect, site, text, attention=True)
    return True


def _argument(effect: Effect, site: Site) -> cst.BaseExpression | None:
    """What a call gives for the path, if its function only opens that, and may keep its name."""
    assert isinstance(effect.site.node, cst.Call) and isinstance(site.node, cst.Call)
    structure = effect.site.module.structure
    function, path = structure.function(effect.site.node), effect.site.node.args[0].value
    if not isinstance(function, cst.FunctionDef) or not isinstance(path, cst.Name):
        return None
    names = [p.name.value for p in parameters(function)]
    uses = (n for n in walk(function.body) if isinstance(n, cst.Name) and n.deep_equals(path))
    if path.value not in names or any(_is_read(structure, n) for n in uses if n is not path):
        return None
    bound = names[1:] if function.name.value == "__init__" else names
    return _given(site.node, path.value, bound)


def _is_read(structure: Structure, name: cst.Name) -> bool:
    """Whether a name is used for more than to be kept, as in ``self.path = path``."""
    above = structure.parents[name]
    if isinstance(above, cst.Attribute):
        return above.attr is not name
    return not isinstance(above, (cst.Assign, cst.AssignTarget))


def _given(call: cst.Call, name: str, bound: list[str]) -> cst.BaseExpression | None:
    """The argument for a parameter; none where a star hides which it is."""
    if spreads(call) or name not in bound:
        return None
    found = argument(call, name, bound.index(name))
    return found.value if found is not None else None


def _appends(opening: cst.CSTNode) -> bool:
    mode = argument(opening, "mode", 1) if isinstance(opening, cst.Call) else None
    text = mode.value if mode is not None else None
    return isinstance(text, cst.SimpleString) and "a" in text.raw_value
