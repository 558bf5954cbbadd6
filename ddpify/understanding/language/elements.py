"""What containers give: items by key, elements in loops, parts in assignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import alternatives, mapping_classes, uses
from ddpify.understanding.arguments import local_data
from ddpify.understanding.arithmetic import (
    index_kinds,
    picked_by_rows,
    picked_views,
    single_samples,
    tensor_items,
    tensor_parts,
)
from ddpify.understanding.batching import (
    batch_rows,
    carried_values,
    collating_order,
    handmade_batches,
    per_sample_lists,
)
from ddpify.understanding.definition_sites import given_as, reduced
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.language import chosen_keys, rounds_over_rows
from ddpify.understanding.libraries import (
    container_layers,
    dotted_names,
    instances,
    loaded_files,
    object_kinds,
    own_methods,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import (
    CONTAINERS,
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Method,
    Number,
    Params,
    QualifiedName,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
    may_be_integer,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState
_MODULES = ("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module")


def subscript(run: RunState, node: cst.Subscript) -> Value:
    """What ``owner[...]`` is, whatever the owner may be."""
    owner = run.eval(node.value)
    key = subscript_key(run, node)
    indexed = mapping_classes.with_key(_of_several(run, node, _indexed(owner, key)), key)
    known = [_item_of(run, node, atom, key) for atom in indexed]
    found = join(*known) if owner else picked_by_rows.rows_of_unread(run, node)
    return picked_views.of_item(run, node, _looked_up(run, node, found))


def _looked_up(run: RunState, node: cst.Subscript, found: Value) -> Value:
    """What ``names[row]`` finds in a collection of plain things: another for another row."""
    by_place = picked_by_rows.at_position(run, node)
    if by_place is not None and found and all(map(_is_plain, found.atoms)):
        return by_place
    if run.frames_forward():
        return found
    held = [data for index in indices_of(node) for data in run.seen(index).data]
    rows = [data for data in held if data.placement is Placement.ROWS and data.definition_sites]
    # Only then does it matter what the collection holds, and is that read.
    return value(*rows) if rows and all(map(_is_plain, deep_atoms(found))) else found


def _is_plain(atom: Atom) -> bool:
    """Whether this is a number, a text or a list, such as the letters of a word."""
    return isinstance(atom, (Const, Number, Tup)) or getattr(atom, "type", None) == "list"


def _indexed(owner: Value, key: str) -> list[Atom]:
    """What is indexed: not a tensor that comes alone or, as here, as a tuple's element.

    ``return out, weights`` beside ``return out`` go by one condition, as does ``model(x)[0]``.
    """
    batch = any(isinstance(atom, ReplicatedTensor) for atom in owner.atoms)
    atoms = alternatives.without_none(owner.atoms)
    others = [a for a in atoms if not (batch and isinstance(a, Number))]
    return alternatives.taken_apart(others) if key != "*" else list(others)


def _of_several(run: RunState, node: cst.Subscript, atoms: list[Atom]) -> list[Atom]:
    """What ``outputs[0]`` is taken of where one model gives several tensors, and another a single.

    Which model it is goes by a setting, and so does the line: it is for the one that gives several.
    """
    part = node.slice[0].slice
    if len(atoms) < 2 or len(node.slice) > 1 or not isinstance(part, cst.Index):
        return atoms
    listed = any(isinstance(a, Tup) or getattr(a, "type", None) == "list" for a in atoms)
    plain = all(may_be_integer(a) for a in run.seen(part.value).atoms)
    if not listed or not plain or not run.seen(part.value):
        return atoms
    return [a for a in atoms if not (isinstance(a, Data) and _is_of_a_model(run, node.value, a))]


def _is_of_a_model(run: RunState, node: cst.BaseExpression, rows: Data) -> bool:
    """Whether these are rows that a model has made, here or where they got their name."""
    if rows.placement is not Placement.SHARD or rows.form not in (Layout.TENSOR, *SEVERAL_TENSORS):
        return False
    if isinstance(node, cst.Call):
        return any(object_kinds.is_model(one) for one in run.seen(node.func).of(Instance))
    named = isinstance(node, (cst.Name, cst.Attribute)) and bool(rows.names)
    return named and rows.names <= run.facts.forwards.sharded_calls


def _own_index(run: RunState, node: cst.Subscript) -> Value:
    """What the ``__getitem__`` of an object of the project gets; a number if nothing is known."""
    part = node.slice[0].slice
    counted = run.seen(part.value) if isinstance(part, cst.Index) else UNKNOWN
    return counted if len(node.slice) == 1 and counted.data else REPLICATED


def subscript_key(run: RunState, node: cst.Subscript) -> str:
    """The key of a container element: its literal, or ``*``."""
    constants = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            constants.append(run.eval(part.value).constant())
        elif isinstance(part, cst.Slice):
            for bound in (part.lower, part.upper, part.step):
                _note_bound(run, run.eval(bound) if bound is not None else UNKNOWN)
            constants.append(...)
    if len(constants) > 1:  # as in x[torch.arange(len(x)), labels]: indices meet each other
        handmade_batches.meet(run, index_kinds.operands(run, node))
    return "*" if len(constants) != 1 or constants[0] is ... else f"[{constants[0]!r}]"


def _note_bound(run: RunState, bound: Value) -> None:
    """A slice by the number of a rank's rows shapes its own tensors."""
    if bounds.count_unsure(run, bound):
        return
    for data in bound.data:
        if data.placement is Placement.COUNT and data.form is not NumberKind.ROUNDED:
            run.facts.sizes.shape_uses.update(data.definition_sites)


def _item_of(run: RunState, node: cst.Subscript, atom: Atom, key: str) -> Value:
    if isinstance(atom, Tup):
        return _tuple_slice(run, node, atom) or _tuple_item(atom, key)
    if isinstance(atom, Instance):
        return _instance_item(run, node, atom, key)
    if isinstance(atom, Class):
        return _class_item(run, node, atom)
    if isinstance(atom, Data):
        return tensor_items.item(run, node, atom)
    if isinstance(atom, ReplicatedTensor):
        return picked_by_rows.rows_by_index(run, node) or batch_rows.item(run, node, atom)
    if isinstance(atom, Number) and atom.loaded is not None and key.startswith("['"):
        return loaded_files.out_of_file(run, node)
    if isinstance(atom, (Number, Const)):
        return picked_by_rows.replicated_item(run, node) or _of_numbers(run, node, atom)
    if isinstance(atom, Params):
        left = index_kinds.left_of_replicated(run, node, atom.ndim)
        return picked_by_rows.rows_of_weights(run, node) or value(replace(atom, ndim=left))
    if isinstance(atom, QualifiedName):
        return dotted_names.imported(run, node, atom)
    if isinstance(atom, Method):  # what an object of unread code holds, such as ``graph.y``
        return picked_by_rows.rows_of_unread(run, node)
    return UNKNOWN


def _of_numbers(run: RunState, node: cst.Subscript, whole: Number | Const) -> Value:
    """An item of what all ranks hold, with its dimensions where they are known."""
    ndim = whole.ndim if isinstance(whole, Number) else None
    return value(Number(ndim=index_kinds.left_of_replicated(run, node, ndim) or None))


def _tuple_slice(run: RunState, node: cst.Subscript, atom: Tup) -> Value | None:
    """``outputs[1:]`` of a tuple is another one; None for an item, or where it may be any."""
    part = node.slice[0].slice
    if len(node.slice) != 1 or not isinstance(part, cst.Slice):
        return None
    given = [part.lower, part.upper, part.step]
    limits = [None if one is None else run.seen(one).constant() for one in given]
    known = [one for one in limits if one is None or isinstance(one, int)]
    if len(known) < len(limits) or known[2] == 0:
        return None
    return value(Tup(atom.items[slice(*known)]))


def _tuple_item(atom: Tup, key: str) -> Value:
    try:
        return atom.items[int(key.strip("[]"))]
    except (ValueError, IndexError):
        return join(*atom.items)


def _class_item(run: RunState, node: cst.Subscript, atom: Class) -> Value:
    """``Kind[x]`` of a class of the project."""
    part = node.slice[0].slice
    key = run.seen(part.value) if isinstance(part, cst.Index) else REPLICATED
    shown = part.value if isinstance(part, cst.Index) else node
    of_type = own_methods.called(run, node, value(atom), "getitem", (shown, key))
    found = (atom.find("__class_getitem__") or UNKNOWN).of(Function)
    bound = [Bound(atom, function) for function in found]
    if of_type is not None or not bound:
        return of_type or UNKNOWN
    return run.call(node, value(*bound), [given_as(key, shown)], {})


_SLICED = ("list", "generator")  # of generators, ranges


def _instance_item(run: RunState, node: cst.Subscript, atom: Instance, key: str) -> Value:
    if isinstance(atom.type, Class):
        found = atom.type.find("__getitem__")
        if found is not None:
            functions = [Bound(atom, f) for f in found.of(Function)]
            return run.call(node, value(*functions), [_own_index(run, node)], {})
    if object_kinds.is_model(atom):
        # A layer, as good as its model; or a layer's parameter, of which the index takes rows.
        layer = container_layers.at(atom, key) if run.frames_forward() else None
        return layer or picked_by_rows.rows_of_weights(run, node) or value(atom)
    rows = _rows_of_list(run, node, atom) if atom.type == "list" else None
    if rows is not None:
        return rows
    if atom in run.of_all_ranks:
        bounds.count_all_rows(run, indices_of(node))
    several = atom.type in _SLICED and isinstance(node.slice[0].slice, cst.Slice)
    if several:
        run.lengthen((atom,))
    if several and (atom.each or run.frames_forward()):
        return _list_slice(run, node, atom)
    if several:
        per_sample_lists.count_some(run, node.value, value(atom))
    exact = mapping_classes.item(atom, key) if key != "*" else None
    if exact is not None:
        return join(carried_values.read(run, atom, key, exact), atom.attribute("*") or UNKNOWN)
    if atom.type == "dict" and key == "*":
        held = chosen_keys.held(run, node, atom)
    else:
        held = atom.elements if atom.type in CONTAINERS else instances.item(atom)
    held = loaded_files.one_result(run, node, value(atom), held)
    return _out_of(run, atom, node.slice[0].slice, held)


def _rows_of_list(run: RunState, node: cst.Subscript, listed: Instance) -> Value | None:
    """What rows, or their number, take of a list that all ranks hold; None for other lists."""
    if _is_of_all(run, listed):
        picked_by_rows.count_places(run, node)
    return picked_by_rows.rows_by_index(run, node) if _is_replicated(run, listed) else None


def _out_of(run: RunState, listed: Instance, place: cst.BaseSlice, held: Value) -> Value:
    """What is at a place of an object that holds such items; a collate function knows the place."""
    if run.collating and listed.type == "list":
        return value(*(_one_sample(place, one) for one in held.atoms))
    return held


def _one_sample(place: cst.BaseSlice, atom: Atom) -> Atom:
    """What a collate function takes out of a list of samples: one of them."""
    sample = isinstance(atom, Data) and (atom.dim == NO_ROWS or atom.placement is Placement.ROWS)
    return single_samples.at(place, atom) if sample else atom  # type: ignore[arg-type]


def _list_slice(run: RunState, node: cst.Subscript, listed: Instance) -> Value:
    """``features[1:]`` of a list that a forward fills is a list, and no tensor's rows."""
    made = run.instance(node, run.module, "list")
    run.put(made, "*", collating_order.out_of_order(run, node, listed.elements))
    part = node.slice[0].slice
    if listed in run.of_all_ranks and isinstance(part, cst.Slice):
        if part.lower is None and part.upper is None:
            run.of_all_ranks.add(made)
        else:
            run.of_some_samples.add(made)
    return value(made)


def _is_of_all(run: RunState, listed: Instance) -> bool:
    """Whether a list holds what was computed of all ranks' rows, or is older than the batch."""
    held = [a for a in listed.elements.atoms if isinstance(a, Data)]
    of_all = bool(held) and all(data.placement is Placement.REPLICATE for data in held)
    return _is_replicated(run, listed) or (of_all and not run.frames_forward())


def _is_replicated(run: RunState, listed: Instance) -> bool:
    """Whether a list was there before the current batch, and holds nothing of one."""
    inside = run.frames_forward() or not run.in_batch_loop() or not run.is_older(listed)
    return not inside and not any(True for _ in local_data(value(listed)))


def iterate(run: RunState, node: cst.BaseExpression, iterable: Value) -> Value:
    """What ``for x in iterable`` binds."""
    return join(*(_element(run, node, atom) for atom in alternatives.taken_apart(iterable.atoms)))


def _element(run: RunState, node: cst.BaseExpression, atom: Atom) -> Value:
    if isinstance(atom, Instance):
        if atom.type == "dict" or mapping_classes.goes_through_keys(atom):
            return REPLICATED
        if atom.type in CONTAINERS:
            per_sample_lists.count_all(run, node, atom)
            return atom.elements
        return instances.iterate(run, node, atom)
    if isinstance(atom, Tup):
        return join(*atom.items)
    if isinstance(atom, Class):
        return iterate(run, node, own_methods.called(run, node, value(atom), "iter") or UNKNOWN)
    if isinstance(atom, Data):
        return rounds_over_rows.element(run, node, atom)
    if isinstance(atom, ReplicatedTensor):
        return batch_rows.element(run, atom)
    if isinstance(atom, Number) and atom.least is not None:
        return value(atom)
    if isinstance(atom, Number) and atom.ndim:
        return value(Number(ndim=atom.ndim - 1))
    return (
        value(replace(atom, ndim=max(atom.ndim - 1, 0))) if isinstance(atom, Params) else REPLICATED
    )


def unpacked(run: RunState, whole: Value, position: int, count: int) -> Value:
    """What the element at a position of ``a, b = whole`` gets."""
    fitting = [atom for atom in whole.atoms if _is_unpacked(atom, count)]
    return join(*(_part(run, atom, position, count) for atom in fitting or whole.atoms))


def _is_unpacked(atom: Atom, count: int) -> bool:
    """Whether something may have so many parts, where another thing may come there as well."""
    if isinstance(atom, Tup):
        return len(atom.items) == count
    made = atom.type if isinstance(atom, Instance) else None
    return not isinstance(made, Class) or not object_kinds.is_model(atom) or _is_iterable(made)  # type: ignore[arg-type]


def _is_iterable(made: Class) -> bool:
    """Whether objects of a model's class can be gone through: its own do not say how."""
    own = made.find("__iter__") or made.find("__getitem__")
    return own is not None or any(base not in _MODULES for base in made.library_bases())


def _part(run: RunState, atom: Atom, position: int, count: int) -> Value:
    if isinstance(atom, Tup):
        return atom.items[position] if len(atom.items) == count else join(*atom.items)
    if isinstance(atom, Instance) and container_layers.holds_layers(atom):
        return value(atom)
    if isinstance(atom, Instance):
        exact = atom.attribute(f"[{position}]")
        if exact is not None and atom.attribute("*") is None:
            return exact
        held = atom.elements if atom.type in CONTAINERS else instances.item(atom)
        return _out_of(run, atom, cst.Index(cst.Integer(str(position))), held)
    if isinstance(atom, Data):
        return tensor_parts.part(atom, position)
    if isinstance(atom, ReplicatedTensor):
        return REPLICATED
    return value(atom) if isinstance(atom, (Number, Params)) else UNKNOWN


def collected(run: RunState, node: cst.BaseExpression, iterable: Value) -> Value:
    """What a collection holds that is made of all that an iterable gives, as ``list(loader)`` is.

    node: where the elements of the collection could be made global.
    """
    element = iterate(run, node, iterable)
    through = goes_through_batches(run, iterable)
    return kept_of_batches(run, node, element) if through else element


def goes_through_batches(run: RunState, iterable: Value) -> bool:
    """Whether an iterable gives batches, of a loader or of an iterator of the project's own."""
    own = (a for a in iterable.of(Instance) if isinstance(a.type, Class))
    return bool(instances.loaders_of(run, iterable)) or any(
        not object_kinds.is_model(a) for a in own
    )


def kept_of_batches(run: RunState, node: cst.BaseExpression, item: Value) -> Value:
    """What is kept of each batch must be global: the next one is shared in other proportions.

    Sums over the samples do not go by how a batch is shared.
    """
    sums = [a for a in deep_atoms(item) if isinstance(a, Data) and a.placement is Placement.SUM]
    return kept(run, node, item, but=sums)


def kept(
    run: RunState, node: cst.BaseExpression, item: Value, *, but: Sequence[Data] = ()
) -> Value:
    """What a collection keeps longer than a batch: all of it that is local is demanded."""
    local = [a for a in deep_atoms(item) if isinstance(a, Data) and a.placement.local]
    local = [data for data in local if data not in but]
    for data in local:
        run.demand(node, value(data), uses.A_KEPT_COLLECTION)
    return reduced(item) if local else item
