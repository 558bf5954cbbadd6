"""Python's own functions, and those of itertools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import alternatives, narrowing, uses
from ddpify.understanding.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.arithmetic import across_samples, single_samples, tensor_pairs
from ddpify.understanding.batching import (
    batch_parts,
    collating,
    collating_order,
    current_batch,
    earlier_samples,
    handmade_batches,
    joint_loaders,
    left_out_samples,
    named_parts,
    per_sample_lists,
    ragged_samples,
    sample_totals,
)
from ddpify.understanding.definition_sites import reduced
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries import (
    full_data_batches,
    instances,
    lookup_by_name,
    own_methods,
    sorting,
)
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Class,
    Const,
    Data,
    Instance,
    Namespace,
    Number,
    QualifiedName,
    Super,
    Tup,
    Value,
    deep_atoms,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_A_NAME = re.compile(r"[^\W\d]\w*")
UNREAD_FUNCTION = "eval.function"  # that a text makes
_MOST_TOGETHER = 5
_OF_ONE = frozenset("float int bool round str".split())
# These say nothing of what a tensor holds; all others may read it.
_SAYING_NOTHING = frozenset(
    "type isinstance issubclass hasattr callable id dir delattr object property help".split()
)


def builtin(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, name: str, args, kwargs
) -> Value:
    """Call one of Python's own functions."""
    if name == "dict":
        return _dict(run, node, args, kwargs)
    own = own_methods.builtin(run, node, name, args)
    if own:
        return own
    handler = _BUILTINS.get(name)
    if name in sorting.ORDERING:
        sorting.compared(run, node, args, kwargs)
    if name in _OF_ONE and run.collating and args and _is_of_one_sample(args[0]):
        return value(*args[0].atoms)
    if handler is not None:
        result = handler(run, node, args)
        return result if name in _COLLECTING else instances.passes_on(run, args, result)
    if name == "int" and len(args) == 1 and _is_count(args[0]):
        return value(*map(_rounded, args[0].atoms))
    if name not in _SAYING_NOTHING:
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, f"{name}()")
            run.demand(expression, per_sample_lists.numbers(one), f"{name}()")
    if name in ("max", "min"):
        return join(REPLICATED, *(_reduced_in(one) for one in args))
    return REPLICATED


def _reduced_in(one: Value) -> Value:
    """The tensors that reductions over the ranks gave: one may be what comes back."""
    held = (a for a in deep_atoms(one) if isinstance(a, Data) and a.reduced)
    return value(*(a for a in held if a.form is Layout.TENSOR))


def _is_of_one_sample(one: Value) -> bool:
    """Whether this is a sample, or a part of it."""
    return bool(one) and all(isinstance(a, Data) and a.dim == NO_ROWS for a in one.atoms)


def _is_count(one: Value) -> bool:
    """Whether something is a number of rows, and nothing else."""
    counts = [a for a in one.atoms if isinstance(a, Data) and a.placement is Placement.COUNT]
    return bool(counts) and len(counts) == len(one.atoms)


def _rounded(atom: Atom) -> Atom:
    """``int(0.3 * n)``: that of all rows is not the sum of the ranks'."""
    if isinstance(atom, Data) and atom.form is NumberKind.MULTIPLE:
        return replace(atom, form=NumberKind.ROUNDED)
    return atom


def _abs(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``abs(x)``: of each element of a tensor."""
    return tensor_function(run, node, "torch.abs", "abs", args, {})


def _len(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    own = own_methods.called(run, node, args[0], "len") if args else None
    if own is not None and own.data:  # of a batch's rows
        return value(*own.data)
    if run.collating and args:
        samples = collating.length(args[0])
        if samples is not None:
            return tensor_sizes.count(samples, node)
        if any(isinstance(a, Data) and a.dim == NO_ROWS for a in args[0].atoms):
            return args[0]  # of each sample, its own
    results = []
    for one in args:
        if not any(isinstance(a, Instance) and a.each for a in one.atoms):
            run.demand(node, per_sample_lists.numbers(one), "len()")  # range(0, n, 2)
    for atom in (
        per_sample_lists.rows(value(*alternatives.taken_apart(args[0].atoms))).atoms if args else ()
    ):
        atom = per_sample_lists.one_each(run, atom) or atom
        if batch_parts.are_several(atom, run, _argument(node, 0)):
            results.append(REPLICATED)
            continue
        sizes = isinstance(atom, Data) and atom.form is NumberKind.SHAPE
        if (
            not sizes
            and isinstance(atom, Data)
            and atom.opaque
            and atom.placement is Placement.SHARD
        ):
            run.demand(_argument(node, 0), value(atom), "len()")  # perhaps of several tensors
            results.append(REPLICATED)
            continue
        rows = (
            isinstance(atom, Data)
            and atom.placement is Placement.SHARD
            and atom.form is not NumberKind.SHAPE
            and atom.dim == 0
            and not (atom.form in SEVERAL_TENSORS and narrowing.is_shown_listed(run, node))
        )
        if isinstance(atom, Data) and not sizes and _is_counted_by_all(atom):
            results.append(tensor_sizes.elements(atom))
            continue
        gathered = isinstance(atom, Data) and atom.form is Layout.GATHERED and atom.dim == 0
        results.append(tensor_sizes.count(atom, node) if rows or gathered else REPLICATED)  # type: ignore[arg-type]
    return join(*results) if results else REPLICATED


def _is_counted_by_all(rows: Data) -> bool:
    """Whether only the rows of all ranks tell how many these are: those at places, or pairs."""
    picked = rows.placement is Placement.ROWS and bool(rows.definition_sites)
    return picked or rows.placement is Placement.COUPLED


def _sum(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``sum(tensor)`` adds up its rows; ``sum(values)`` adds values, which keep their placement."""
    results = []
    if len(args) == 2 and run.collating:
        lists = run.iterate(_argument(node, 0), args[0])
        joined = ragged_samples.joined(run, node, lists)
        if joined is not None:
            return joined
    total = sample_totals.total(run, node, _argument(node, 0), args[0]) if args else None
    if total is not None:
        return total
    for atom in args[0].atoms if args else ():
        numbers = per_sample_lists.numbers(value(atom))
        if numbers:
            run.demand(node, numbers, "sum()")
            continue
        if isinstance(atom, Data) and atom.form is NumberKind.SHAPE:
            run.demand(_argument(node, 0), value(atom), "sum()")
            continue
        if isinstance(atom, Data) and (atom.form is Layout.PIECES or atom.dim > 0):
            results.append(value(_added_tensors(atom)))
            continue
        if isinstance(atom, Data):
            rows = atom.placement is Placement.SHARD
            added = atom.placed(Placement.SUM if rows else atom.placement)
            results.append(value(replace(added, one_each=atom.ndim < 2)))
            continue
        items = per_sample_lists.of_list(atom) if isinstance(atom, Instance) else None
        items = items or per_sample_lists.one_each(run, atom)
        if items is not None:
            results.append(value(replace(items.placed(Placement.SUM), one_each=True)))
            continue
        summed = atom.elements if isinstance(atom, Instance) else value(atom)
        held = [a for a in deep_atoms(summed) if isinstance(a, Data)]
        if any(map(_is_of_all, held)) and len({a.placement for a in held}) > 1:
            _sum_whole(run, _argument(node, 0), held)
        results += [value(_as_sum(a)) for a in held]
    return join(*results) if results else REPLICATED


def _sum_whole(run: RunState, shown: cst.BaseExpression, held: list[Data]) -> None:
    """Ask for all of what is added to something of all ranks: no part stays one beside that."""
    listed = [(one, run.seen(one).data) for one in displayed(shown) or ()]
    for one, parts in listed or [(shown, held)]:
        run.demand(one, value(*(d for d in parts if d.placement.partial)), uses.ARITHMETIC)


def _is_of_all(part: Data) -> bool:
    """Whether this is computed of all ranks' rows, or will be, or meets a rank's own."""
    rows = part.placement in (Placement.COUPLED, Placement.SHARD)
    return rows or tensor_pairs.is_loss_of_all(part)


def _added_tensors(several: Data) -> Data:
    """The sum of several tensors with rows, or of what lies before the dimension of the rows."""
    left = replace(several, form=Layout.TENSOR, definition_sites=frozenset())
    if several.form is Layout.PIECES:
        return left
    return replace(left, dim=several.dim - 1, ndim=max(several.ndim - 1, 0))


def _as_sum(part: Data) -> Data:
    """What several such values add up to: numbers of rows are still numbers of rows.

    Of means with denominators of their own, each is reduced by itself.
    """
    kept = part.placement is Placement.COUNT or part.form is Layout.GATHERED
    form = part.form if kept else Layout.TENSOR
    opaque, one_each = part.opaque, part.one_each
    definition_sites = part.definition_sites if part.placement is Placement.ROWS else frozenset()
    added = replace(part.placed(part.placement), opaque=opaque, form=form, one_each=one_each)
    return part if part.counted else replace(added, definition_sites=definition_sites)


def _set(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``set(values)``: of rows, those of the whole batch have others in common."""
    rows = [d for one in args for d in one.data if d.placement is Placement.SHARD]
    if run.frames_forward():
        plain = [d for d in rows if d.form is Layout.TENSOR and d.dim == 0 and not d.opaque]
        for data in plain:
            across_samples.of_all_rows(run, _argument(node, 0), data)
        return REPLICATED if plain else _same_elements(run, node, args)
    if not rows:
        return _same_elements(run, node, args)
    names = frozenset({_argument(node, 0)})
    return value(*(replace(d.placed(Placement.COUPLED), names=names) for d in rows))


def _enumerate(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    element = run.iterate(_argument(node, 0), args[0]) if args else UNKNOWN
    rows = [a for a in deep_atoms(element) if isinstance(a, Data)]
    collating.note_numbers(run, rows)
    picked = [d for d in rows if d.placement is Placement.ROWS and d.definition_sites]
    _take_alike(run, node, made, args[:1])
    made.hold("*", value(Tup((_position(picked), element))))
    return value(made)


def _zip(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    if run.collating and len(args) == 1 and isinstance(node, cst.Call) and node.args[0].star:
        whole = [a for a in args[0].atoms if isinstance(a, Data) and a.dim == NO_ROWS]
        if whole:  # zip(*samples): for each part of a sample, that of all samples
            many = whole[0].form is Layout.SEVERAL
            known = whole[0].form is Layout.SAMPLE
            parts = list(collating.parts_of(whole[0])) if known else []
            for position, part in enumerate(parts):
                made.hold(f"[{position}]", value(part))
            if parts:
                return value(made)
            all_ = collating.stacked(whole[0], 0) if many else collating.samples_of(whole[0])
            made.hold("*", value(all_))
            return value(made)
    if isinstance(node, cst.Call) and any(one.star for one in node.args):
        for one, held in zip(node.args, args, strict=False):  # zip(*pairs)
            run.demand_held(one.value, held, uses.POSITIONS)
    else:
        _take_alike(run, node, made, args)
    each = [run.iterate(_argument(node, i), a) for i, a in enumerate(args)]
    collating_order.put_beside(run, node, args, each)
    if joint_loaders.are_one(each):
        each = [current_batch.perhaps_earlier(run, one) for one in each]
    together = value(Tup(tuple(each)))
    if _are_spread(node, args) and joint_loaders.sources(together):
        together = _in_turn(run, node, join(*each))
    made.hold("*", together)
    return value(made)


def _in_turn(run: RunState, node: cst.BaseExpression, batch: Value) -> Value:
    """As many batches as there are loaders, which nothing tells."""
    batches = run.instance(node, run.module, "list")
    run.put(batches, "*", current_batch.perhaps_earlier(run, batch))
    return value(batches)


def _are_spread(node: cst.BaseExpression, args: list[Value]) -> bool:
    """Whether an argument stands for any number of them, as in ``zip(*loaders)``."""
    given = node.args if isinstance(node, cst.Call) else ()
    return len(given) == len(args) and any(one.star for one in given)


def _take_alike(
    run: RunState, node: cst.BaseExpression, made: Instance, args: Sequence[Value]
) -> None:
    """Ask for the rows of all ranks where others go through those of all beside a rank's own."""
    shown = [(_argument(node, i), per_sample_lists.rows(a)) for i, a in enumerate(args)]
    held = tensor_pairs.held_tensors(shown)
    if not run.collating:
        tensor_pairs.beside_replicated(run, held)
    if any(data is not None and data.form is Layout.GATHERED for _, data in held):
        run.of_all_ranks.add(made)
    if any(data.placement is Placement.ROWS for one in args for data in one.data):
        run.of_some_samples.add(made)


def _range(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """Up to the number of a batch's rows, positions in it."""
    counting = [
        replace(data, definition_sites=frozenset({_argument(node, i)}))
        for i, one in enumerate(args)
        for data in one.data
        if data.placement is Placement.COUNT
    ]
    if not counting and not any(map(_is_total, args)):
        first = args[0].constant() if len(args) == 2 else ...
        return value(Number(least=first)) if isinstance(first, int) else REPLICATED
    collating.note_numbers(run, (data for one in args for data in one.data))
    made = run.instance(node, run.module, "generator")
    made.each = len(counting) == len(args) == 1
    if run.collating and not made.each:  # every other sample, or all but the first of a rank's
        run.mixes(node, *counting)
    made.hold("*", _position(counting) if counting else value(_OF_ALL_ROWS))
    if not counting:
        run.of_all_ranks.add(made)
    return value(made)


def _is_total(one: Value) -> bool:
    """Whether this is the number of all rows."""
    return any(isinstance(atom, Data) and atom.form is NumberKind.TOTAL for atom in one.atoms)


_OF_ALL_ROWS = Data(Placement.REPLICATE, form=NumberKind.PLACE)


def _position(counting: list[Data]) -> Value:
    """A number that counts a rank's rows, where their definition sites allow it."""
    if not counting:
        return REPLICATED
    loaders = frozenset(loader for data in counting for loader in data.loaders)
    definition_sites = frozenset(
        definition_site for data in counting for definition_site in data.definition_sites
    )
    return value(Data(Placement.REPLICATE, loaders, definition_sites, form=NumberKind.POSITION))


def _argument(node: cst.BaseExpression, number: int) -> cst.BaseExpression:
    """The expression of a call's argument, or the whole call where it is not written out."""
    given = node.args if isinstance(node, cst.Call) else ()
    plain = number < len(given) and not any(a.star or a.keyword for a in given[: number + 1])
    return given[number].value if plain else node


def _same_elements(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    shapes = [a for one in args[:1] for a in one.data if a.form is NumberKind.SHAPE]
    if shapes:
        return value(
            *(replace(a, definition_sites=frozenset({_argument(node, 0)})) for a in shapes)
        )
    made = run.instance(node, run.module, "list")
    for one in args[:1]:
        for source in one.of(Instance):
            if source.type == "list":
                for key, held in list(source.attributes.items()):
                    run.put(made, key, held)
        rows = any(isinstance(a, Data) and a.form is Layout.TENSOR for a in one.atoms)
        run.put(made, "*", run.collected(_argument(node, 0) if rows else node, one))
    return value(made)


def _sorted(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``sorted(values)`` puts the samples of all ranks in order."""
    for shown, one in argument_pairs(node, args[:1], {}):
        run.demand_held(shown, one, "sorted()")
    return _same_elements(run, node, args)


def _reversed(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``reversed(samples)`` of a rank's own has others at each place than that of all."""
    if run.collating:
        atoms = (atom for one in args[:1] for atom in one.atoms)  # or those of one sample alone
        many = (a for a in atoms if not isinstance(a, Data) or a.dim != NO_ROWS)
        held = local_data(value(*many))
        run.mixes(node, *(replace(data, form=Layout.TENSOR, dim=0) for data in held))
    result = _same_elements(run, node, args)
    for made in result.of(Instance):
        for key, one in list(made.attributes.items()):
            made.hold(key, collating_order.out_of_order(run, node, one))
    return result


def _listed(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``list(values)`` has an item for each row where what it is made of has one."""
    if _is_only_counted(run, node) and any(instances.loaders_of(run, one) for one in args[:1]):
        run.iterate(_argument(node, 0), args[0])
        return REPLICATED
    result = _same_elements(run, node, args)
    for made in result.of(Instance):
        filled_from(run, made, _argument(node, 0), join(*args[:1]))
    return result


def filled_from(run: RunState, made: Instance, shown: cst.BaseExpression, source: Value) -> None:
    """Note whether a list that holds what an iterable gives has an item for each row."""
    sources = [atom for atom in source.atoms if isinstance(atom, (Instance, Data))]
    made.each = bool(sources) and all(map(_has_each_row, sources))
    if per_sample_lists.goes_through_all(run, shown):
        run.of_all_ranks.add(made)


def _is_only_counted(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether a list of batches is made for their number alone, as in ``len(list(loader))``."""
    argument = run.module.parents.get(node)
    call = run.module.parents.get(argument) if isinstance(argument, cst.Arg) else None
    counting = QualifiedName("builtins.len")
    return isinstance(call, cst.Call) and list(run.seen(call.func).atoms) == [counting]


def _has_each_row(source: Atom) -> bool:
    """Whether what is gone through has an item for each of a rank's rows."""
    if isinstance(source, Data):
        return source.placement is Placement.SHARD and source.form is Layout.TENSOR
    return isinstance(source, Instance) and source.each


def _dict(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """A new dictionary: of another one, of pairs, and of named values."""
    made = run.instance(node, run.module, "dict")
    for shown, one in argument_pairs(node, args[:1], {}):
        if any(a.type == "generator" for a in one.of(Instance)):
            run.demand_held(shown, one, "dict()")  # a key that comes again counts once
    for one in args[:1]:
        others = [a for a in one.of(Instance) if a.type == "dict"]
        for other in others:
            for key, held in list(other.attributes.items()):
                run.put(made, key, held)
        for pair in _pairs(run, node, one) if not others else ():
            name = pair.items[0].constant() if pair.items else ...
            run.put(made, "*" if name is ... else f"[{name!r}]", join(*pair.items[1:]))
    for key, held in kwargs.items():
        if key == "**":
            run.put(made, "*", named_parts.any_part(held))
        else:
            run.put(made, f"[{key!r}]", held)
    return value(made)


def _pairs(run: RunState, node: cst.BaseExpression, one: Value) -> Iterator[Tup]:
    """The pairs that a dictionary is made of, each by itself where they are written out."""
    for atom in one.atoms:
        told = isinstance(atom, Instance) and atom.type == "list" and "*" not in atom.attributes
        parts = [*atom.attributes.values()] if told else atom.items if type(atom) is Tup else ()  # type: ignore[attr-defined]
        for part in parts or [run.collected(node, value(atom))]:
            yield from part.of(Tup)


def _iter(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    if args and full_data_batches.is_taken(run, node, args[0]):
        made.hold("*", handmade_batches.yielded(run))
        return value(made)
    # What is taken of it by ``next()`` is a sample by its place among all.
    rows = _rows_of_all(run, node, 0, args[0]) if args else UNKNOWN
    made.hold("*", run.iterate(node, rows))
    return value(made)


def _next(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    earlier_samples.advanced(run, node)
    element = run.iterate(node, args[0]) if args else UNKNOWN
    loop = run.frame.loops[-1] if run.frame.loops else None
    whole = instances.replicated_loaders(run, args[0]) if args else frozenset()
    if whole and loop is not None and not loop.taken:
        loop.takes_replicated = True
    current_batch.took_replicated(run, whole)
    if any(isinstance(a, Data) for a in deep_atoms(element)):
        shown = node.args[0].value if isinstance(node, cst.Call) and node.args else None
        run.takes_batch(shown.value if isinstance(shown, cst.Name) else "")
        joint_loaders.taken_at_once(run, node, element)
        joint_loaders.taken_besides(run, node, element)
        current_batch.asked(run, joint_loaders.last(run, element), element)
    if run.collating:
        element = value(*map(single_samples.first, element.atoms))
    if len(args) < 2:
        return element
    run.demand(_argument(node, 1), args[1], uses.A_STATISTIC)
    return join(element, reduced(args[1]))


def _map(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    one = args[1] if len(args) == 2 else UNKNOWN
    for tup in one.of(Tup):
        parts = tuple(run.call(node, args[0], [item], {}) for item in tup.items)
        return value(Tup(parts))
    made = run.instance(node, run.module, "generator")
    each = [run.iterate(node, a) for a in args[1:]]
    rows = bool(each) and all(per_sample_lists.are_rows(one) for one in each)
    made.each = rows
    _take_alike(run, node, made, [UNKNOWN, *args[1:]])
    begun = len(run.batches_so_far)
    with earlier_samples.in_turn(run, node, samples=rows):
        made.hold("*", run.call(node, args[0], each, {}) if args else UNKNOWN)
    if len(run.batches_so_far) > begun:  # each round takes one, as map(next, iterators) does
        made.hold("*", current_batch.perhaps_earlier(run, made.elements))
    made.each = made.each and not earlier_samples.go_on(run, node)
    return value(made)


def _filter(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``filter(kept, values)``: the function is asked about each of the values."""
    if len(args) != 2:
        return UNKNOWN
    made = run.instance(node, run.module, "list")
    element = run.iterate(_argument(node, 1), _rows_of_all(run, node, 1, args[1]))
    run.call(node, args[0], [element], {})
    run.put(made, "*", left_out_samples.in_filter(run, node, element))
    return value(made)


def _super(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    names = run.frame.scope.names
    first = next(iter(names.values()), UNKNOWN)
    for atom in first.of(Instance, Class):
        if isinstance(atom, Class) or isinstance(atom.type, Class):
            return value(Super(atom))
    return UNKNOWN


_OF_FUNCTIONS = frozenset(
    "torch torch.nn.functional torch.linalg torch.fft torch.special numpy numpy.linalg".split()
)


def _getattr(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    given = args[1].atoms if len(args) > 1 else ()
    names = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    found = [run.attribute_of(node, a, n) for a in args[0].atoms for n in names]
    if not names or len(names) < len(given):
        run.demand(_argument(node, 0), args[0], uses.A_STATISTIC)  # it may be any method
        # A setting: any class or function of a module
        modules = [a for a in args[0].atoms if isinstance(a, Namespace)]
        found += [run.defined_in(node, module).elements for module in modules]
        found += lookup_by_name.attributes_of(node, args[0])
        if any(one.name in _OF_FUNCTIONS for one in args[0].of(QualifiedName)):
            found.append(library_value(UNREAD_FUNCTION))
    return join(*found, *args[2:]) if found else UNKNOWN


def _exec(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``exec(text)`` runs what ddpify cannot read."""
    given = args[0].atoms if args and len(args) == 1 else ()
    _of_text(run, node, [a.value for a in given if isinstance(a, Const)])
    return REPLICATED


def _compile(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``compile(text, ..)``, which is as good as its text."""
    return args[0] if args else UNKNOWN


def _of_text(run: RunState, node: cst.BaseExpression, texts: Sequence[object]) -> Value:
    """What code in a text gives, which gets all samples of the rows that it names."""
    names = {name for text in texts if isinstance(text, str) for name in _A_NAME.findall(text)}
    held = [run.lookup(name) for name in sorted(names)]
    for data in (data for one in held for data in local_data(one)):
        run.demand(node, value(replace(data, form=Layout.PACKED)), uses.UNREADABLE_CODE)
    whole = [a for one in held for a in one.of(Data) if a.form is Layout.GATHERED]
    return across_samples.perhaps_rows("eval", value(*whole[:1]))


def _eval(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``eval(name)``: the object of that name, as far as the name is known; else unread code."""
    given = args[0].atoms if args else ()
    texts = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    found = join(*(run.lookup(text) for text in texts if text.isidentifier()))
    written = bool(texts) and any("lambda" in text for text in texts)
    if not found and not written:
        return _of_text(run, node, texts)
    return found or (library_value(UNREAD_FUNCTION) if written else UNKNOWN)


def _import(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``__import__(name)``: the module of that name; of a name with dots, the outermost."""
    name = args[0].constant() if args else ...
    return run.module_named(name.partition(".")[0]) if isinstance(name, str) else UNKNOWN


def _type(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``type(x)``; a class that ``type(name, bases, body)`` makes is not known."""
    if len(args) < 3:
        return UNKNOWN if any(one.data for one in args) else REPLICATED
    for place, one in enumerate(args):
        run.demand_held(_argument(node, place), one, "type()")
    return UNKNOWN


def _cycle(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    made = _iter(run, node, args)
    if any(joint_loaders.sources(held.elements) for held in made.of(Instance)):
        run.facts.batches.cycled.setdefault(node, run.site(node))
    return made


def _elements(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return _iter(run, node, args)


def _groups(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """Some of the elements of an iterable together, in each way."""
    element = run.iterate(_argument(node, 0), args[0]) if args else UNKNOWN
    count = args[1].constant() if len(args) > 1 else ...
    made = run.instance(node, run.module, "generator")
    known = isinstance(count, int) and 0 < count < _MOST_TOGETHER
    made.hold("*", value(Tup((element,) * count)) if known else element)  # type: ignore[operator]
    return value(made)


def _starmap(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``map`` whose function gets the parts of each element as its arguments."""
    if len(args) != 2:
        return UNKNOWN
    made = run.instance(node, run.module, "generator")
    element = run.iterate(_argument(node, 1), args[1])
    taken = [list(one.items) for one in element.of(Tup)] or [[element]]
    made.hold("*", join(*(run.call(node, args[0], one, {}) for one in taken)))
    made.each = all(one.each for one in args[1].of(Instance))
    return value(made)


def _of_all(handler: Callable[..., Value]) -> Callable[..., Value]:
    """What takes some samples, or each with others: those of all ranks."""

    def taking(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        return handler(
            run, node, [_rows_of_all(run, node, i, one) for i, one in enumerate(args)], kwargs
        )

    return taking


def _rows_of_all(run: RunState, node: cst.BaseExpression, place: int, held: Value) -> Value:
    """An argument with its rows those of all ranks."""
    rows = [d for d in held.data if d.placement is Placement.SHARD and d.form is Layout.TENSOR]
    if rows and not run.collating:
        run.demand(_argument(node, place), value(*rows), uses.A_STATISTIC)
        held = reduced(held)
    for made in held.of(Instance):
        if made.each:
            run.demand_held(_argument(node, place), value(made), uses.POSITIONS)
    return held


def _chained(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """One iterable after the other."""
    made = run.instance(node, run.module, "generator")
    made.hold("*", join(*(run.iterate(node, one) for one in args)))
    return value(made)


def _chained_from(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    each = run.iterate(node, args[0]) if args else UNKNOWN
    return _chained(run, node, [each], kwargs)


def _deque(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """A list of which the first elements may be gone."""
    if len(args) > 1 or "maxlen" in kwargs:
        args = [_rows_of_all(run, node, i, one) for i, one in enumerate(args[:1])]
    return _listed(run, node, args or [kwargs.get("iterable", UNKNOWN)])


def _reduce(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``functools.reduce``: the function on a result so far and an element, until nothing is new.

    What the samples of a batch make together, all ranks make of the samples of all.
    """
    if len(args) < 2:
        return UNKNOWN
    if args[1].data:
        run.demand(_argument(node, 1), args[1], uses.A_STATISTIC)
        return REPLICATED
    each = run.iterate(node, args[1])
    result = join(each, args[2]) if len(args) > 2 else each
    for _ in range(2):
        result = join(result, run.call(node, args[0], [result, each], {}))
    return result


_BUILTINS: dict[str, Callable[..., Value]] = {
    "len": _len, "sum": _sum, "enumerate": _enumerate, "zip": _zip, "list": _listed,
    "tuple": _listed, "sorted": _sorted, "reversed": _reversed, "iter": _iter,
    "next": _next, "map": _map, "super": _super, "getattr": _getattr,
    "set": _set, "frozenset": _set,
    **dict.fromkeys(("setattr", "__setattr__"), lookup_by_name.set_attribute),
    "range": _range, "filter": _filter, "eval": _eval, "abs": _abs,
    "exec": _exec, "compile": _compile,
    "__import__": _import,
    "type": _type,
    "globals": lookup_by_name.module_globals, "vars": lookup_by_name.variables,
}  # fmt: skip


_COLLECTING = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "reversed"}
)  # all that an iterable gives


def _passing_on(handler: Callable[..., Value]) -> Callable[..., Value]:
    return lambda run, node, args, kwargs: instances.passes_on(
        run, args, handler(run, node, args, kwargs)
    )


_ITERTOOLS = {
    "combinations": _of_all(_groups), "permutations": _of_all(_groups),
    "combinations_with_replacement": _of_all(_groups), "cycle": _of_all(_cycle),
    "islice": _of_all(_elements), "chain": _of_all(_chained),
    "chain.from_iterable": _chained_from, "starmap": _starmap,
}  # fmt: skip
OF_ITERABLES: dict[str, Callable[..., Value]] = {
    "collections.deque": _deque,
    "functools.reduce": _passing_on(_reduce),
    **{f"itertools.{name}": _passing_on(handler) for name, handler in _ITERTOOLS.items()},
}
