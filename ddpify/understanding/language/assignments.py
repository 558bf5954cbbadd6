"""Assignments to targets of any form, and the places where values get their names."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites, uses
from ddpify.understanding.arithmetic import indexed_rows, picked_views, row_writes, tensor_pairs
from ddpify.understanding.batching import (
    carried_values,
    filled_tensors,
    handmade_batches,
    per_sample_lists,
    persistent_state,
    ragged_samples,
    sample_tables,
    samples_by_place,
)
from ddpify.understanding.forms import SEVERAL_TENSORS
from ddpify.understanding.language import (
    accumulated_rows,
    attributes,
    elements,
    set_attributes,
    shown_elsewhere,
    starred_targets,
    totals,
)
from ddpify.understanding.libraries import (
    loaded_files,
    own_methods,
    replaced_functions,
    tensor_attributes,
)
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, relative_ranks
from ddpify.understanding.syntax import OPERATORS, dotted
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    UNKNOWN,
    Bound,
    Class,
    Data,
    Function,
    Instance,
    Number,
    Params,
    QualifiedName,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OF_A_FACTOR = ("*", "/")
_OF_SETS = frozenset("|&^-")
_DISPLAYS = (cst.Tuple, cst.List)
_OUTLIVING = ("globals", "vars")  # what gives names that all rounds share


def plain(run: RunState, node: cst.Assign) -> None:
    """``target = value``, with one target or several."""
    result = defined(run, run.eval(node.value), node.value)
    if any(filled_tensors.is_filled(run, t.target, node.value) for t in node.targets):
        pass  # split where it is used
    elif not any(isinstance(t.target, _DISPLAYS) for t in node.targets):
        result = handmade_batches.defined(run, result, node.value)
    elif isinstance(node.value, cst.Tuple):
        result = _named_parts(run, result, node.value)
    for target in node.targets:
        if isinstance(target.target, _DISPLAYS) and not isinstance(node.value, _DISPLAYS):
            _unpack(run, target.target, result, node.value)
            _know_dimensions(run, target.target, node.value)
        else:
            parts = _nested(run, target.target, result, node.value)
            held = accumulated_rows.taken(run, target.target, node.value, parts)
            assign(run, target.target, held)
            _kept(run, target.target, node.value, held)


def _nested(
    run: RunState, target: cst.BaseExpression, result: Value, shown: cst.BaseExpression
) -> Value:
    """The parts of ``(first, *rest), last = x, y``: samples that are taken apart are of all."""
    if not isinstance(target, _DISPLAYS) or not isinstance(shown, _DISPLAYS):
        return result
    elements_ = [*target.elements, *shown.elements]
    known = [tup.items for tup in result.of(Tup)]
    if len(known) != 1 or any(isinstance(one, cst.StarredElement) for one in elements_):
        return result
    parts = [
        _one_by_one(run, one.value, part, source.value)
        if isinstance(one.value, _DISPLAYS)
        else part
        for one, part, source in zip(target.elements, known[0], shown.elements, strict=False)
    ]
    return value(Tup((*parts, *known[0][len(parts) :])))


def _is_of_a_model(run: RunState, shown: cst.BaseExpression) -> bool:
    """Whether an expression is a call of models: what they give is no batch made by hand."""
    called = run.seen(shown.func).atoms if isinstance(shown, cst.Call) else ()
    return bool(called) and all(isinstance(a, Instance) and is_model(a) for a in called)


def _is_a_size(shown: cst.BaseExpression) -> bool:
    """Whether an expression gives sizes of a tensor: ``x.shape``, ``x.size()``."""
    called = isinstance(shown, cst.Call) and not shown.args
    asked = shown.func if isinstance(shown, cst.Call) else shown
    name = asked.attr.value if isinstance(asked, cst.Attribute) else ""
    return name == "shape" or (called and name == "size")


def _know_dimensions(
    run: RunState, target: cst.Tuple | cst.List, shown: cst.BaseExpression
) -> None:
    """``b, steps, width = x.shape`` tells how many dimensions ``x`` has from there on."""
    asked = shown.func if isinstance(shown, cst.Call) else shown
    if not _is_a_size(shown) or not isinstance(asked, cst.Attribute):
        return
    plain = all(type(one) is cst.Element for one in target.elements)
    if isinstance(asked.value, cst.Name) and plain and asked.value.value in run.frame.scope.names:
        held = run.seen(asked.value)
        run.bind(asked.value.value, dimensions.known(held, len(target.elements)))


def _kept(
    run: RunState,
    target: cst.BaseExpression,
    shown: cst.BaseExpression,
    new: Value,
    *,
    added: bool = False,
) -> None:
    """What a tensor takes that is kept from batch to batch must be global."""
    if type(target) is cst.Name:
        carried_values.assigned(run, target, shown, new)
    elif type(target) is cst.Tuple and type(shown) is cst.Tuple:
        for one, part in zip(target.elements, shown.elements, strict=False):
            _kept(run, one.value, part.value, run.seen(part.value))
    elif type(target) is cst.Subscript:
        _set_on_tensor(run, target, shown, new)
        for owner in run.seen(target.value).of(Instance):
            key = elements.subscript_key(run, target)
            owner.each = False  # it may be another sample that lies there now
            carried_values.stored(run, owner, key, shown, new)
        if isinstance(target.value, cst.Call) and dotted(target.value.func) in _OUTLIVING:
            carried_values.outlive(run, shown)
        persistent_state.item(run, target, shown, new)
        sample_tables.item(run, target)
        _under_a_name(run, target, shown, new)
    elif type(target) is cst.Attribute:
        if any(run.seen(target.value).of(Function)) and run.in_batch_loop():
            elements.kept(run, shown, new)
        for owner in run.seen(target.value).of(Instance):
            carried_values.stored(run, owner, target.attr.value, shown, new)
        tensor_attributes.put(run, run.seen(target.value), target.attr.value, shown, new)
        persistent_state.parameter(run, target.value, target.attr.value, shown, new)
        persistent_state.buffer(run, target, shown, new, added=added)


def _under_a_name(
    run: RunState, target: cst.Subscript, shown: cst.BaseExpression, new: Value
) -> None:
    """A number of the batch gets a name in what is not seen, as ``param_groups[0]["lr"]`` does.

    Whoever reads it there reads one number, not each rank's own.
    """
    owner, first = run.seen(target.value), target.slice[0].slice
    unseen = all(isinstance(a, (Number, QualifiedName)) for a in owner.atoms)
    if not unseen or not isinstance(first, cst.Index):
        return
    if isinstance(run.seen(first.value).constant(), str):
        picked = (Placement.SHARD, Placement.ROWS)
        numbers = (data for data in new.data if data.placement not in picked)
        run.demand(shown, value(*numbers), uses.A_KEPT_COLLECTION)


def annotated(run: RunState, node: cst.AnnAssign) -> None:
    """``target: type = value``."""
    if node.value is not None:
        result = defined(run, run.eval(node.value), node.value)
        assign(run, node.target, handmade_batches.defined(run, result, node.value))


def _named_parts(run: RunState, result: Value, node: cst.Tuple) -> Value:
    """Batches and rows among the parts of a tuple get their names.

    From a star on, no part has an expression of its own, and all are left as they are.
    """
    shown = list(takewhile(lambda one: not isinstance(one, cst.StarredElement), node.elements))
    whole = [_named_before(run, tup, [one.value for one in shown]) for tup in result.of(Tup)]
    return value(*whole) if whole else result


def _named_before(run: RunState, tup: Tup, shown: list[cst.BaseExpression]) -> Tup:
    named = [
        _rows_named(handmade_batches.defined(run, part, node), node)
        for part, node in zip(tup.items, shown, strict=False)
    ]
    return Tup((*named, *tup.items[len(shown) :]))


def _rows_named(part: Value, node: cst.BaseExpression) -> Value:
    named = isinstance(node, cst.Name) or not part.data
    return part if named else definition_sites.rows_named(part, node)


def defined(
    run: RunState, result: Value, node: cst.BaseExpression, *, always: bool = False
) -> Value:
    """A partial value that gets a name can be reduced where it gets it."""
    if not result.data or (isinstance(node, (cst.Name, cst.Tuple)) and not always):
        return result
    apart = definition_sites.are_beside_whole(result)
    several = len({data.placement for data in result.data}) > 1
    if isinstance(node, cst.IfExp) and (apart or several):
        return definition_sites.given_as(result, node)  # each is reduced in its own branch
    if apart or definition_sites.are_apart(result):
        return result
    atoms = [definition_sites.defined_at(a, node) for a in result.atoms]
    return join(value(*atoms))


def augmented(run: RunState, node: cst.AugAssign) -> None:
    """``target operator= value``."""
    old, unread = totals.read(run, node.target)
    new = run.eval(node.value)
    operator = OPERATORS.get(type(node.operator), "?")
    result = _accumulated(run, node, operator, old, new, unread)
    if isinstance(node.target, cst.Name) and operator in _OF_A_FACTOR and not new.data:
        result = definition_sites.multiplied(result, old)
    picked_views.change(run, old, [node.value])
    if operator in _OF_SETS and any(made.type in CONTAINERS for made in old.of(Instance)):
        run.demand(node.value, new, uses.A_KEPT_COLLECTION)
    for held in old.data:
        samples_by_place.changed(run, node, held, "extend")
        if held.listed and not run.collating:
            row_writes.write_into_all(run, node.target, held)
    begun = [loop.assigned.copy() for loop in run.frame.loops]
    assign(run, node.target, result)
    for loop, names in zip(run.frame.loops, begun, strict=True):
        loop.assigned = names  # it goes on with what was there: in another branch, too
    _kept(run, node.target, node.value, new, added=True)


def _accumulated(
    run: RunState,
    node: cst.AugAssign,
    operator: str,
    old: Value,
    new: Value,
    unread: list[Instance],
) -> Value:
    """The value of ``target operator= new``; ``unread`` as in :func:`totals.read`."""
    if any(isinstance(a, Instance) and a.type == "list" for a in old.atoms):
        items: dict[Value, Value] = {}  # mostly the same for each list that this may be
        for target in old.of(Instance):
            assert isinstance(target, Instance)
            target.each = per_sample_lists.is_filled_at_once(run, node, target)
            taken = run.keeps_from_batch(target, node.value, new)
            taken = per_sample_lists.taken_from(run, target, node.value, taken)
            if taken not in items:
                items[taken] = elements.iterate(run, node.value, taken)
            run.put(target, "*", ragged_samples.extended(run, node.target, target, items[taken]))
        return old
    if any(d.placement.partial for d in new.data) and run.outlives_batch(node.target):
        run.demand(node.value, new, uses.A_TOTAL)
        new = definition_sites.reduced(new)
    elif shown_elsewhere.changed(run, node, old, new):
        new = definition_sites.reduced(new)
    own = own_methods.in_place(run, node.target, operator, (node.target, old), (node.value, new))
    if own is not None:
        return own
    result = tensor_pairs.binary(run, node, operator, (node.target, old), (node.value, new))
    totals.added(run, node, old, new, result)
    if unread:
        totals.added_to_attribute(run, node, unread, (old, new), result)
    return result


def assign(run: RunState, target: cst.BaseExpression, new: Value) -> None:
    """Assign a value to a target of any form."""
    if isinstance(target, cst.Name):
        new = relative_ranks.rooted(new, target)
        run.facts.record(target, new)
        set_attributes.rebound(run.frame, target.value)
        run.bind(target.value, new)
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(run, target, new)
    elif isinstance(target, cst.StarredElement):
        assign(run, target.value, new)
    elif isinstance(target, cst.Attribute):
        _assign_attribute(run, target, new)
    elif isinstance(target, cst.Subscript):
        _assign_item(run, target, new)


def _unpack(
    run: RunState,
    target: cst.Tuple | cst.List,
    new: Value,
    shown: cst.BaseExpression | None = None,
) -> None:
    """Assign the parts of a value; a partial one that is named here can be reduced here.

    ``shown`` is the expression that gives the value, if what it gives has its first name here.
    """
    new = starred_targets.lined_up(target, _one_by_one(run, target, new, shown))
    count = len(target.elements)
    for position, element in enumerate(target.elements):
        part = elements.unpacked(run, new, position, count)
        part = loaded_files.one_result(run, element.value, new, part)
        if isinstance(element, cst.StarredElement) and _are_several(new):
            part = new
        if shown is not None and isinstance(element.value, cst.Name):
            seen = _is_of_a_model(run, shown) or _is_a_size(shown)
            part = part if seen else handmade_batches.unpacked(run, part)
            part = defined(run, part, element.value, always=True)
            part = handmade_batches.split(
                run, element.value, handmade_batches.defined(run, part, element.value)
            )
            if element.value in run.choices.reduced:
                part = run.reduce(element.value, part)
        assign(run, element.value, part)


def _are_several(held: Value) -> bool:
    """Whether these are several tensors with rows: ``first, *others = x.unbind(1)`` tells apart."""
    atoms = [one for one in held.atoms if isinstance(one, Data)]
    return bool(atoms) and all(one.form in SEVERAL_TENSORS for one in atoms)


def _one_by_one(
    run: RunState, target: cst.Tuple | cst.List, new: Value, shown: cst.BaseExpression | None
) -> Value:
    """A batch of which ``first, *others = rows`` takes the samples apart is that of all ranks."""
    starred = any(isinstance(one, cst.StarredElement) for one in target.elements)
    run.lengthen(new.atoms if starred else ())
    rows = [d for d in new.data if indexed_rows.is_plain_batch(d)]
    if not starred or not rows or shown is None:
        return new
    run.demand(shown, value(*rows), uses.A_STATISTIC)
    return definition_sites.reduced(new)


def _assign_attribute(run: RunState, target: cst.Attribute, new: Value) -> None:
    owner = run.eval(target.value)
    local = any(data.placement.local for data in new.data)
    of_tensor = not (
        _is_of_the_project(owner) or persistent_state.is_of_parameters(run, target.value)
    )
    if target.attr.value == "data" and local and of_tensor:
        assign(run, target.value, new)  # the tensor takes other values, and is this from now on
        return
    for atom in owner.atoms:
        if isinstance(atom, (Class, Instance)) and attributes.set_by_class(run, target, atom, new):
            continue
        if isinstance(atom, Instance):
            attributes.attribute_set(run, target, atom, new)
            run.put(atom, target.attr.value, new)
        elif isinstance(atom, Class):
            atom.scope.names[target.attr.value] = new
        elif isinstance(atom, Params) and target.attr.value == "requires_grad":
            run.facts.event(atom.owner, "change", run.site(target))
        elif atom == QualifiedName("sys") and target.attr.value in ("stdout", "stderr"):
            _prints_into(run, target, new)
        elif isinstance(atom, QualifiedName):
            replaced_functions.put(run, atom, target.attr.value, new)
    set_attributes.note(run, target, owner, new)


def _is_of_the_project(owner: Value) -> bool:
    """Whether this is an object of a project's class that derives from none of a library."""
    classes = [one.type for one in owner.atoms if isinstance(one, Instance)]
    own = [one for one in classes if isinstance(one, Class) and not [*one.library_bases()]]
    return bool(owner) and len(own) == len(owner.atoms)


def _prints_into(run: RunState, node: cst.BaseExpression, stream: Value) -> None:
    """Whatever is printed from now on calls the methods of an object of the project."""
    for made in stream.of(Instance):
        for name, given in (("write", [REPLICATED]), ("flush", [])):
            found = made.type.find(name) if isinstance(made.type, Class) else None
            bound = [Bound(made, one) for one in (found or UNKNOWN).of(Function)]
            if bound:
                run.call(node, value(*bound), given, {})


def _assign_item(run: RunState, target: cst.Subscript, new: Value) -> None:
    owner = run.eval(target.value)
    key = elements.subscript_key(run, target)
    _set_own(run, target, owner, new)
    row_writes.write(run, target, owner, new)
    picked_views.change(run, owner)
    _set_variable(run, target, new)
    picked = any(d.placement is Placement.ROWS for d in new.data)
    for atom in owner.of(Instance):
        assert isinstance(atom, Instance)
        kept = run.keeps_from_batch(atom, target, new) if picked else new
        if atom.type == "list":
            samples_by_place.put_into_list(run, target, new)
        run.put(atom, key, kept)


def _set_on_tensor(
    run: RunState, target: cst.Subscript, shown: cst.BaseExpression, new: Value
) -> None:
    """``table.__dict__["mean"] = value`` sets an attribute of a tensor."""
    owner, part = tensor_attributes.with_variables(run, target.value), target.slice[0].slice
    key = run.seen(part.value).constant() if isinstance(part, cst.Index) else ...
    if owner is not None and isinstance(key, str):
        tensor_attributes.put(run, run.seen(owner), key, shown, new)
    elif owner is not None:
        tensor_attributes.put_any(run, run.seen(owner), shown, new)


def _set_variable(run: RunState, target: cst.Subscript, new: Value) -> None:
    """``model.__dict__["act"] = value`` and ``vars(model)["act"] = value`` set an attribute."""
    owner = tensor_attributes.with_variables(run, target.value)
    part = target.slice[0].slice
    key = run.seen(part.value).constant() if isinstance(part, cst.Index) else ...
    for atom in run.seen(owner).of(Instance) if owner is not None else ():
        if isinstance(key, str) and is_model(atom):
            run.put(atom, key, new)


def _set_own(run: RunState, target: cst.Subscript, owner: Value, new: Value) -> None:
    """``x[i] = value`` calls the method of an object of the project."""
    part = target.slice[0].slice
    index = run.seen(part.value) if isinstance(part, cst.Index) else REPLICATED
    at = part.value if isinstance(part, cst.Index) else target
    own_methods.called(run, target, owner, "setitem", (at, index or REPLICATED), (target, new))
