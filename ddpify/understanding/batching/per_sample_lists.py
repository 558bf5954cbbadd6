"""Lists with an item for each of a rank's rows, as ``[f(x) for x in batch]`` makes them.

One by one, their items are rows that are picked by position. All of them are this rank's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites, uses
from ddpify.understanding.batching import earlier_samples
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import dotted, names_of
from ddpify.understanding.values import Atom, Data, Instance, Tup, Value, deep_atoms, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_PASSING = frozenset("enumerate list reversed sorted tuple zip".split())
GROWING = frozenset("append appendleft add extend insert pop popleft remove".split())


def is_of_each(
    run: RunState, node: cst.BaseSimpleComp | cst.DictComp, element: Value, item: Value
) -> bool:
    """Whether a comprehension, which gets ``element`` in each round, has an item for each row.

    Positions pick the rows of the same sample alone, as those of another list would be others; or
    numbers are computed of them.
    """
    if isinstance(node, cst.DictComp) or node.for_in.ifs or node.for_in.inner_for_in is not None:
        return False
    counting = _positions(run, node.for_in.target)
    names = (one for one in walk(node.elt) if isinstance(one, cst.Name) and one.value in counting)
    of_samples = are_rows(element) or goes_through_each(run, node.for_in.iter)
    if not of_samples or _picks_others(run, node.elt, counting):
        return False
    if _leaves_some_out(run, node.for_in.iter):
        return False
    if earlier_samples.go_on(run, node):
        _take_all(run, node, element)
    return _are_numbers(item) or all(_picks_a_row(run, name) for name in names)


def _take_all(run: RunState, node: cst.BaseExpression, element: Value) -> None:
    """Ask for the rows of all ranks, of which a loop gets ``element`` in each round."""
    rows = (a for a in deep_atoms(element) if isinstance(a, Data) and a.is_of_one_sample)
    run.demand(node, value(*rows), uses.A_STATISTIC)


def is_filled_from_each(run: RunState, call: cst.BaseExpression, made: Instance) -> bool:
    """Whether ``items.append(f(x))`` adds one item for each row, in a loop over all of them."""
    loop = filling(run, call, made)
    numbers = isinstance(call, cst.Call) and _are_numbers(run.seen(call.args[0].value))
    if loop is None or not _goes_through_rows(run, loop, numbers):
        return False
    if earlier_samples.goes_on(run, loop, call):
        _take_all(run, call, run.iterate(loop.iter, run.seen(loop.iter)))
    return True


def is_filled_from_all(run: RunState, call: cst.BaseExpression, made: Instance) -> bool:
    """Whether ``items.append(f(x))`` adds one item for each row of all ranks."""
    loop = filling(run, call, made)
    return loop is not None and goes_through_all(run, loop.iter)


def filling(run: RunState, call: cst.CSTNode, made: Instance) -> cst.For | None:
    """The loop each of whose rounds adds one item to a list; None where that is not sure.

    The list is empty before the loop, and nothing else in the function adds to it.
    """
    structure = run.module.structure
    loop = next(
        (node for node in structure.up(call) if isinstance(node, (cst.For, cst.While))), None
    )
    statement = structure.statement(call)
    if not isinstance(loop, cst.For):
        return None
    in_its_line = loop is statement and isinstance(loop.body, cst.SimpleStatementSuite)
    if loop.body is not structure.parents[statement] and not in_its_line:
        return None
    new = is_empty(made.site)
    if not new or run.module.holds(loop, made.site) or run.is_older(made):
        return None
    left = any(isinstance(one, (cst.Break, cst.Continue, cst.Return)) for one in walk(loop.body))
    return loop if not left and _is_alone(structure, call) else None


def is_in_loop_over_all(run: RunState, call: cst.CSTNode) -> bool:
    """Whether a loop around gets the rows of all ranks one by one."""
    around = run.module.structure.loops(call)
    return any(isinstance(one, cst.For) and goes_through_all(run, one.iter) for one in around)


def goes_through_all(run: RunState, through: cst.BaseExpression) -> bool:
    """Whether a loop gets the rows of all ranks one by one, or counts them."""
    if any(_holds_all(run, atom) for atom in run.seen(through).atoms):
        return True
    if not isinstance(through, cst.Call) or dotted(through.func) not in _PASSING:
        return False
    return any(goes_through_all(run, one.value) for one in through.args)


def _holds_all(run: RunState, atom: Atom) -> bool:
    if isinstance(atom, Data):
        return atom.form is Layout.GATHERED and not atom.dim and not atom.flat
    if not isinstance(atom, Instance):
        return False
    counted = (a for a in atom.elements.atoms if isinstance(a, Data))
    return atom in run.of_all_ranks or any(a.form is NumberKind.PLACE for a in counted)


def is_empty(made: cst.CSTNode) -> bool:
    """Whether this is ``[]`` or ``list()``."""
    if isinstance(made, cst.Call):
        return dotted(made.func) == "list" and not made.args
    return isinstance(made, cst.List) and not made.elements


def is_filled_at_once(run: RunState, call: cst.CSTNode, made: Instance) -> bool:
    """Whether ``items.extend(rows)``, or ``items += rows``, is all that adds to an empty list."""
    structure = run.module.structure
    loop = next(
        (node for node in structure.up(call) if isinstance(node, (cst.For, cst.While))), None
    )
    new = is_empty(made.site)
    if (
        not new
        or run.is_older(made)
        or (loop is not None and not run.module.holds(loop, made.site))
    ):
        return False
    return _is_alone(structure, call)


def taken_from(run: RunState, made: Instance, shown: cst.BaseExpression, rows: Value) -> Value:
    """The items that a list is extended by: one for each row.

    Beside others it does not go by the number of a rank's rows: it gets those of all ranks.
    """
    if run.frames_forward() or not any(d.placement is Placement.SHARD for d in rows.data):
        return rows
    if made.each or run.is_older(made):
        return run.iterate(shown, rows)
    for data in rows.data:
        run.demand(shown, value(data), uses.A_TABLE)
    return rows


def _is_alone(structure: Structure, call: cst.CSTNode) -> bool:
    """Whether nothing else in the function adds to the same list."""
    return len(grown_alike(structure, call, structure.function(call) or structure.tree)) == 1


def grown_alike(
    structure: Structure, call: cst.CSTNode, within: cst.CSTNode
) -> Sequence[cst.CSTNode]:
    """All that adds to the same list in a part of a function; none for ``put = items.append``."""
    own = _grown(call)
    found = [*structure.inside(within, cst.Call), *structure.inside(within, cst.AugAssign)]
    grown = ((one, _grown(one)) for one in found)
    return [
        one
        for one, items in grown
        if own is not None and items is not None and items.deep_equals(own)
    ]


def _grown(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The list that ``items.append(x)`` or ``items += more`` adds to."""
    if isinstance(node, cst.AugAssign):
        return node.target
    method = node.func if isinstance(node, cst.Call) else None
    known = isinstance(method, cst.Attribute) and method.attr.value in GROWING
    return method.value if known else None  # type: ignore[union-attr]


def _goes_through_rows(run: RunState, loop: cst.For, numbers: bool) -> bool:
    """Whether a loop gets all rows one by one, and uses their positions to pick them alone.

    They may also be what ``numbers`` are computed of that a list takes.
    """
    through = run.seen(loop.iter)
    known = (isinstance(a, Data) or getattr(a, "type", None) == "generator" for a in through.atoms)
    plain = bool(through) and all(known) and are_rows(run.iterate(loop.iter, through))
    if not plain and not goes_through_each(run, loop.iter):
        return False
    counting = _positions(run, loop.target)
    if _picks_others(run, loop.body, counting) or _leaves_some_out(run, loop.iter):
        return False
    counting = counting if not numbers else set()
    names = (one for one in walk(loop.body) if isinstance(one, cst.Name) and one.value in counting)
    return all(_picks_a_row(run, one) for one in names)


def _positions(run: RunState, target: cst.BaseExpression) -> set[str]:
    """The names among a loop's targets that stand for positions."""
    names = {one.value for one in names_of(target) if isinstance(one, cst.Name)}
    return {name for name in names if run.lookup(name).positions}


def are_of_each(held: Value) -> bool:
    """Whether these are lists alone, each with an item for each of a rank's rows."""
    return bool(held) and all(isinstance(a, Instance) and a.each for a in held.atoms)


def goes_through_each(run: RunState, through: cst.BaseExpression) -> bool:
    """Whether a loop goes through a list with an item of any kind for each of a rank's rows."""
    if are_of_each(run.seen(through)):
        return True
    if not isinstance(through, cst.Call) or dotted(through.func) not in _PASSING:
        return False
    return any(goes_through_each(run, one.value) for one in through.args)


def are_rows(element: Value) -> bool:
    """Whether what a loop gets in each round is one of a rank's rows, or some of one sample."""
    return bool(element) and all(_is_row(atom) for atom in element.atoms)


def _is_row(atom: Atom) -> bool:
    if isinstance(atom, Tup):
        return all(are_rows(item) for item in atom.items)
    return isinstance(atom, Data) and atom.is_of_one_sample


def is_item_of_list(item: Data) -> bool:
    """Whether this is of a list that has an item of any size for each row, and is not gathered."""
    return item.placement is Placement.ROWS and not item.definition_sites


def _leaves_some_out(run: RunState, through: cst.BaseExpression) -> bool:
    """Whether a list, here or in ``zip()``, need not have an item for each of a rank's rows."""
    held = run.seen(through)
    lists = [a for a in held.of(Instance) if a.kind == "list"]
    if any(not one.each and _holds_rows(one) for one in lists):
        return True
    if _takes_some(run, held):
        return True
    if not isinstance(through, cst.Call) or dotted(through.func) not in _PASSING:
        return False
    return any(_leaves_some_out(run, one.value) for one in through.args)


def _takes_some(run: RunState, held: Value) -> bool:
    """Whether these are rows that were picked by position, or an iterator over such."""
    picked = any(data.placement is Placement.ROWS for data in held.data)
    return picked or any(one in run.of_some_samples for one in held.of(Instance))


def _holds_rows(made: Instance) -> bool:
    return any(map(_is_row, deep_atoms(made.elements)))


def _picks_others(run: RunState, node: cst.CSTNode, counting: set[str]) -> bool:
    """Whether rows are picked by positions other than the one that a loop counts."""
    for index in (one.value for one in walk(node) if isinstance(one, cst.Index)):
        own = isinstance(index, cst.Name) and index.value in counting
        if not own and (run.seen(index).positions or _picks_of_list(run, index)):
            return True
    return False


def _picks_of_list(run: RunState, index: cst.BaseExpression) -> bool:
    """Whether an index takes one item of a list that has one for each row."""
    parents = run.module.parents
    owner = parents[parents[parents[index]]]
    held = run.seen(owner.value) if isinstance(owner, cst.Subscript) else Value()
    return any(one.each and _holds_rows(one) for one in held.of(Instance))


def _picks_a_row(run: RunState, position: cst.Name) -> bool:
    parents = run.module.parents
    index = _one_long_slice(run, position) or parents[position]
    element = parents[index] if isinstance(index, (cst.Index, cst.Slice)) else None
    owner = parents[element] if isinstance(element, cst.SubscriptElement) else None
    if not isinstance(owner, cst.Subscript) or owner.slice[0] is not element:
        return False
    held = run.seen(owner.value).atoms
    return bool(held) and all(
        isinstance(a, Data) and a.placement is Placement.SHARD and a.dim == 0 for a in held
    )


def _one_long_slice(run: RunState, position: cst.Name) -> cst.Slice | None:
    """The slice ``i : i + 1`` that a position stands in."""
    parents = run.module.parents
    part = parents[position]
    part = parents[part] if isinstance(part, cst.BinaryOperation) else part
    if not isinstance(part, cst.Slice) or part.step or not bounds.is_one_long(part):
        return None
    return part if part.lower is not None and part.lower.deep_equals(position) else None


def rows(held: Value) -> Value:
    """A value with each such list in it, also in its tuples, taken for this rank's rows."""
    if not any(isinstance(atom, Instance) and atom.each for atom in deep_atoms(held)):
        return held
    atoms = list(_rows(held))
    return held if tuple(atoms) == held.atoms else join(value(*atoms))


def _rows(held: Value) -> Iterator[Atom]:
    for atom in held.atoms:
        if isinstance(atom, Tup):
            yield Tup(tuple(rows(item) for item in atom.items))
        elif isinstance(atom, Instance) and atom.each:
            yield of_list(atom) or atom
        else:
            yield atom


def of_list(made: Instance) -> Data | None:
    """The rows that such a list holds; None where their items are replicated by now."""
    held = [a for a in deep_atoms(made.elements) if isinstance(a, Data)]
    picked = [data for data in held if _is_of_a_row(data)]
    counting = frozenset(b for data in held if data.is_position for b in data.definition_sites)
    if not made.each or not (picked or counting):
        return None
    loaders = frozenset(one for data in (picked or held) for one in data.loaders)
    if picked:
        return Data(Placement.SHARD, loaders, form=Layout.LISTED)
    counted = isinstance(made.site, cst.Call)  # range(n), list(range(n))
    form = NumberKind.RANGE if counted else NumberKind.COMPUTED
    return Data(Placement.SHARD, loaders, counting, form=form)


def one_each(run: RunState, atom: Atom) -> Data | None:
    """The rows that ``[len(row) for row in x]`` goes through: what it makes of each is a number."""
    if not isinstance(atom, Instance) or not atom.each or of_list(atom) is not None:
        return None
    made = atom.site if isinstance(atom.site, cst.BaseSimpleComp) else None
    if made is None or any(isinstance(one, Data) for one in deep_atoms(atom.elements)):
        return None
    several = any(isinstance(one, (Instance, Tup)) for one in atom.elements.atoms)
    if several and _is_made_of(made.elt, made.for_in.target):
        return None
    through = made.for_in.iter
    held = run.iterate(through, run.seen(through))
    loaders = frozenset(
        one for data in deep_atoms(held) if isinstance(data, Data) for one in data.loaders
    )
    return Data(Placement.SHARD, loaders, form=Layout.LISTED) if loaders else None


def count_beside_whole(run: RunState, shown: cst.BaseExpression, inside: Value) -> None:
    """Ask for a rank's sums and numbers of rows that are added to numbers all ranks hold."""
    beside = definition_sites.added_beside_whole(inside, counts=True)
    run.demand(shown, value(*beside), uses.ONE_PLACEMENT)


def take_all(run: RunState, held: Value) -> None:
    """Let ``"".join("x" for _ in out)`` go through the rows of all ranks: their number tells."""
    for made in held.of(Instance):
        if one_each(run, made) is not None and isinstance(made.site, cst.BaseComp):
            through = made.site.for_in.iter
            ask_for_all(run, through, run.iterate(through, run.seen(through)))


def count_some(run: RunState, shown: cst.BaseExpression, listed: Value) -> None:
    """Ask for all ranks' rows where a list is counted that has more or fewer items than these.

    Such as ``[b for row in x for b in f(row)]``: how many it has of each row, nothing tells.
    """
    for made in listed.of(Instance):
        if made.each or made in run.of_all_ranks or run.collating or _is_written_out(made.site):
            continue
        held = [a for a in deep_atoms(made.elements) if isinstance(a, Data)]
        if isinstance(made.site, cst.BaseComp) and made.site.for_in.inner_for_in is not None:
            through = made.site.for_in.iter
            picked = deep_atoms(run.iterate(through, run.seen(through)))
            held += [a for a in picked if isinstance(a, Data)]
        else:
            held = [one for one in held if one.is_of_one_sample]
        run.demand(shown, value(*held), "len()")


def mixed_items(run: RunState, atom: Atom) -> Data | None:
    """What a list holds of parts of a batch, as ``[part for part in x.split(2)]`` does.

    How many these are goes by the rows of all ranks. None for others.
    """
    if not isinstance(atom, Instance) or atom.type not in ("list", "tuple", "generator"):
        return None
    if atom.each or atom in run.of_all_ranks or run.collating or _is_written_out(atom.site):
        return None
    held = [*deep_atoms(atom.elements)]
    if isinstance(atom.site, cst.BaseComp):
        through = atom.site.for_in.iter
        count_some(run, through, run.seen(through))
        held += run.seen(through).data
    found = (one for one in held if isinstance(one, Data))
    return next((one for one in found if one.placement is Placement.COUPLED), None)


def _is_written_out(made: cst.CSTNode) -> bool:
    """Whether this is ``[a, b]``, or another display that tells how many items it has."""
    if not isinstance(made, (cst.List, cst.Tuple, cst.Dict)) or not made.elements:
        return False
    starred = (cst.StarredElement, cst.StarredDictElement)
    return not any(isinstance(one, starred) for one in made.elements)


def ask_for_all(run: RunState, through: cst.BaseExpression, picked: Value) -> None:
    """Let a loop go through the rows of all ranks, each round of which picks one."""
    rows = (a for a in deep_atoms(picked) if isinstance(a, Data) and a.is_of_one_sample)
    run.demand(through, value(*rows), uses.A_TABLE)


def _is_made_of(made: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether an expression reads a name that a loop sets."""
    names = {one.value for one in names_of(target) if isinstance(one, cst.Name)}
    return any(isinstance(one, cst.Name) and one.value in names for one in walk(made))


def numbers(one: Value) -> Value:
    """The positions of rows that a list or an iterator holds, or what is computed of them.

    What makes one number of them needs those of all rows.
    """
    through = (a for a in one.of(Instance) if a.kind in ("list", "generator"))
    held = (a.elements for a in through)
    return value(*(number for one in held if _are_numbers(one) for number in one.positions))


def as_index(held: Value) -> Value:
    """An index with each list of positions in it taken for what they are in a tensor."""
    lists = [a for a in held.atoms if isinstance(a, Instance) and a.type in ("list", "generator")]
    numbers = {a: as_tensor(a) for a in lists}
    known = (numbers.get(a) or a if isinstance(a, Instance) else a for a in held.atoms)
    return value(*known) if lists else held


def as_tensor(made: Instance) -> Data | None:
    """The numbers of a list as a tensor: of a rank's rows, or of all; None for other lists."""
    counting = made.elements.positions
    if counting:
        return of_list(made) or _computed(counting)
    places = any(isinstance(a, Data) and a.form is NumberKind.PLACE for a in made.elements.atoms)
    return Data(Placement.REPLICATE, form=Layout.GATHERED) if places else None


def _computed(counting: list[Data]) -> Data:
    """Numbers that count rows, of which there need not be one for each row."""
    loaders = frozenset(one for data in counting for one in data.loaders)
    definition_sites = frozenset(one for data in counting for one in data.definition_sites)
    return Data(Placement.SHARD, loaders, definition_sites, form=NumberKind.COMPUTED)


def count_all(run: RunState, shown: cst.BaseExpression, made: Instance) -> None:
    """Let positions that a list holds be those of all ranks, unless it has one for each row."""
    if not made.each and made.kind == "list" and not run.frames_forward():
        run.demand(shown, value(*made.elements.positions), uses.POSITIONS)


def _are_numbers(item: Value) -> bool:
    """Whether numbers are computed of the positions of rows."""
    return bool(item) and len(item.positions) == len(item.atoms)


def _is_of_a_row(data: Data) -> bool:
    """Whether this is a row, or is computed from one: that mixes the row's own elements alone."""
    mixed = data.placement is Placement.COUPLED and bool(data.definition_sites)
    return mixed or data.placement is Placement.ROWS
