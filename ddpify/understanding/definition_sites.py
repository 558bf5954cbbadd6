"""Where values that ranks hold in part got their names, and so can be reduced or gathered."""

from __future__ import annotations

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    CONTAINERS,
    NO_ROWS,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
    Method,
    Number,
    Params,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

_NAMED = (Placement.MEAN, Placement.SUM)  # reduced where they get a name


def defined_at(atom: Atom, node: cst.BaseExpression) -> Atom:
    """A value remembers the expression at which it got a name, to be reduced or gathered there."""
    if (
        isinstance(atom, Data)
        and atom.placement is Placement.SHARD
        and atom.form is not Layout.PAIRS
        and not atom.parted
    ):
        atom = replace(atom, names=frozenset({node}))
    if isinstance(atom, Data) and (atom.placement in _NAMED or atom.opaque):
        return replace(atom, definition_sites=frozenset({node}))
    return atom


def rows_named(part: Value, node: cst.BaseExpression) -> Value:
    """The same value, whose rows can be gathered at this expression."""
    rows = (isinstance(a, Data) and a.placement is Placement.SHARD for a in part.atoms)
    atoms = zip(part.atoms, rows, strict=True)
    return value(*(defined_at(a, node) if named else a for a, named in atoms))


def half_gathered(result: Value) -> list[Data]:
    """A rank's rows where those of all ranks may come instead.

    A branch, an index or a call decides which; what meets them can suit only one of the two.
    """
    held = [a for a in result.atoms if isinstance(a, Data)]
    if not any(_is_of_all_rows(a) for a in held):
        return []
    return [a for a in held if a.placement is Placement.SHARD and a.dim != NO_ROWS]


def _is_of_all_rows(data: Data) -> bool:
    """Whether all ranks hold this: all rows, or what was computed of them."""
    return data.reduced or (data.form is Layout.GATHERED and data.placement is Placement.REPLICATE)


def named_before(result: Value, node: cst.CSTNode) -> list[Data]:
    """The rows of a rank that got a name before they came to this place."""
    rows = (a for a in result.data if a.placement is Placement.SHARD and a.dim != NO_ROWS)
    return [a for a in rows if a.names - {node}]


def may_be_rows_or_whole(result: Value, node: cst.CSTNode) -> bool:
    """Whether a tensor may be rows of a rank that have a name, or one that all ranks hold."""
    whole = any(map(may_be_a_replicated_tensor, result.atoms))
    return whole and bool(named_before(result, node))


def meets_whole(result: Value) -> bool:
    """Whether what is to be gathered may be whole already: rows of all ranks, or another tensor."""
    if any(isinstance(a, Data) and a.form is Layout.GATHERED for a in deep_atoms(result)):
        return True
    return any(map(may_be_a_replicated_tensor, result.atoms))


def may_be_a_replicated_tensor(atom: Atom) -> bool:
    """Whether this has dimensions, and is the same on all ranks.

    A layer also stands for the parameters that are read of it.
    """
    if isinstance(atom, Number):
        return atom.ndim != 0
    if isinstance(atom, Instance):
        return is_model(atom)
    return isinstance(atom, Params) or (isinstance(atom, ReplicatedTensor) and not atom.guessed)


def added_beside_whole(result: Value, *, counts: bool = False) -> list[Data]:
    """A rank's sums, or numbers of rows, where a number may come that all ranks hold.

    To add up over the ranks what comes there would count that number once for each.
    """
    summed = (Placement.SUM, Placement.COUNT) if counts else (Placement.SUM,)
    parts = [a for a in result.data if a.placement in summed and not a.is_position]
    return parts if parts and any(map(_is_whole_number, result.atoms)) else []


def are_beside_whole(result: Value) -> bool:
    """Whether rows or sums of a rank come where what all ranks hold, or None, may come instead.

    None cannot be gathered: the rows are, where they come from.
    """
    parts = (Placement.SHARD, Placement.SUM)
    local = any(a.placement in parts and a.dim != NO_ROWS for a in result.data)
    return local and any(a == Const(None) or _is_whole_number(a) for a in result.atoms)


def _is_whole_number(atom: Atom) -> bool:
    """Whether all ranks hold this, and it is no zero, which may be added any number of times."""
    if isinstance(atom, Const):
        return isinstance(atom.value, (int, float, complex)) and atom.value != 0
    if isinstance(atom, Data):
        return atom.placement is Placement.REPLICATE
    if isinstance(atom, Instance):  # of a library: what a call of it gives may be a number
        return isinstance(atom.type, str) and atom.type not in CONTAINERS and not is_model(atom)
    if isinstance(atom, Method):  # of a member of an enumeration, its value
        return all(isinstance(one, Const) for one in atom.receiver.atoms)
    return isinstance(atom, (Number, Params, ReplicatedTensor))


def given_as(result: Value, node: cst.BaseExpression) -> Value:
    """What a function gets has a name in there: without one here, it is reduced as its argument."""
    unnamed = [
        a for a in result.data if a.placement in _NAMED and not (a.definition_sites or a.opaque)
    ]
    if not unnamed:
        return result
    return value(*(defined_at(a, node) if a in unnamed else a for a in result.atoms))


def multiplied(result: Value, old: Value) -> Value:
    """A mean or a sum that was changed in place by a factor: it can be reduced before that.

    Nothing stands there that has a name of its own to reduce.
    """
    known = {a for a in old.data if a.placement in _NAMED and a.definition_sites}
    placements = {a.placement for a in (*old.data, *result.data)}
    if len(known) != len(old.data) or len(placements) != 1:
        return result
    sites = frozenset(site for a in known for site in a.definition_sites)
    atoms = (replace(a, definition_sites=sites) if isinstance(a, Data) else a for a in result.atoms)
    return value(*atoms)


def are_apart(result: Value) -> bool:
    """Whether a mean or a sum comes here, each from a place of its own: no one reduction suits.

    What is reduced at its place already is another one.
    """
    held = [a for a in result.atoms if isinstance(a, Data)]
    named = [a for a in held if a.placement in _NAMED or (a.reduced and a.definition_sites)]
    return len({data.placement for data in named}) > 1 and all(
        data.definition_sites for data in named
    )


def kept(held: Value, node: cst.BaseExpression) -> Value:
    """What a dictionary gets under a key: the definition site of a partial value without a name."""
    named = isinstance(node, cst.Name) or any(data.definition_sites for data in held.data)
    return held if named else join(*(value(defined_at(atom, node)) for atom in held.atoms))


def forget_definition_sites(result: Value) -> Value:
    """What a function returns is reduced where the caller takes it, unless it is one of several."""
    if are_apart(result):
        return result
    atoms = [
        replace(a, definition_sites=frozenset())
        if isinstance(a, Data) and (a.placement in _NAMED or a.opaque)
        else a
        for a in result.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def reduced(result: Value, by: cst.BaseExpression | None = None) -> Value:
    """A value after its reduction over the ranks, which is known to come from there."""
    return join(value(*(_replicated(a, by) for a in result.atoms)))


def _replicated(atom: Atom, by: cst.BaseExpression | None) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(reduced(item, by) for item in atom.items))
    if not isinstance(atom, Data) or not atom.placement.local:
        return atom
    if atom.form is NumberKind.SHAPE:
        return Number()
    replicated = atom.placed(Placement.REPLICATE)
    if atom.placement is Placement.SHARD:
        names = atom.names or (frozenset() if by is None else frozenset({by}))
        gathered = replace(replicated, form=Layout.GATHERED, names=names)
        gathered = replace(gathered, opaque=atom.opaque)  # perhaps several tensors, as they were
        return replace(gathered, ndim=atom.ndim, one_each=atom.one_each)
    elements = atom.placement is Placement.SUM and atom.form is NumberKind.MULTIPLE
    if elements or atom.placement is Placement.COUNT:
        return replace(replicated, form=NumberKind.TOTAL)
    known = frozenset() if by is None else frozenset({by})
    return replace(replicated, definition_sites=known, ndim=atom.ndim, one_each=atom.one_each)
