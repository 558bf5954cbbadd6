"""Make losses, metrics and counts global where the script first reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import libcst as cst
from ddpify.codemods.data.batch_splits import stays_whole
from ddpify.codemods.data.global_sizes import global_count, global_shape
from ddpify.codemods.random.shared_draws import is_gathered
from ddpify.codemods.synchronisation.hoisted_gathers import Known, is_named_before

from ddpify.planning.bindings import is_bound_name
from ddpify.planning.edits import Edits, wrapped
from ddpify.planning.plan import Plan, Reduction
from ddpify.planning.refusals import Refusal
from ddpify.planning.unshared import unused_losses
from ddpify.understanding.arithmetic import denominators
from ddpify.understanding.facts import Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import bare_code, brief, code_of
from ddpify.understanding.values import UNKNOWN, Tup, Value

_TEXT = {
    "mean": "the mean over the global batch",
    "sum": "the sum over all ranks",
    "gather": "all ranks' rows, in order",
    "count": "the size of the global batch",
    "shape": "the shape of the global batch",
}
_METRIC = "unreduced-metric"
_LOSSES = {
    "mean": "mean-of-means",
    "sum": "sum-or-token-normalised-loss",
}


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap each expression that is to be reduced."""
    _squeezes(plan, edits)  # what a reduction gets
    named: Known = {}
    for reduction in plan.reductions.values():
        if is_gathered(plan, reduction.node) or stays_whole(plan, reduction.node):
            continue  # what makes the whole batch's rows keeps them all
        site = plan.site(reduction.node)
        rule = _rule(reduction)
        edits.note(site, f"{brief(reduction.node)}: {_TEXT[reduction.how]}", rule=rule)
        if reduction.how == "gather" and reduction.node in plan.facts.rows.regrouped:
            continue  # rows in another order are all there before each rank takes its own
        if is_bound_name(site):
            _rebind(plan, reduction, edits)
        elif _is_changed(site):
            _rebind_before(plan, reduction, edits)
        elif reduction.how == "count":
            global_count(reduction.node, plan.options.alias, edits, _named(plan, reduction))
        elif reduction.how == "shape":
            extra = _along(plan, reduction) + _named(plan, reduction)
            global_shape(reduction.node, plan.options.alias, extra, edits)
        elif not is_named_before(plan, reduction, edits, named):
            function = f"{plan.options.alias}.{_function(plan, reduction)}"
            edits.wrap(reduction.node, function, _arguments(plan, reduction))
        if reduction.node in plan.assumed:
            edits.note(
                site,
                f"{brief(reduction.node)} is taken for a mean over the samples: ddpify cannot see"
                " what it divides by (ignored targets would make the ranks' parts unequal)",
                attention=True,
            )
    for node in plan.choices.split:
        split = f"{plan.options.alias}.split"
        several = any(isinstance(a, Tup) for a in plan.facts.values.get(node, UNKNOWN).atoms)
        edits.change(node, _of_each(split)) if several else edits.wrap(node, split)
        edits.note(plan.site(node), f"{brief(node)}: works on the whole batch; this rank's rows")
    for site in plan.facts.rows.taken_apart.values():
        text = f"{brief(site.node)} is taken for several tensors with a row for each sample: ddpify"
        edits.note(site, f"{text} cannot see what gives it", attention=True)
    for site in unused_losses(plan.facts):
        edits.note(site, "nothing here calls this: it stays as it is", attention=True)
    _named_sizes(plan, edits)
    _note_unreduced(plan, edits)
    _orders(plan, edits)


def _of_each(function: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """From ``f(x)``, which gives a tuple, to ``map(function, f(x))``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.BaseExpression)
        return cst.Call(
            cst.Name("map"), [cst.Arg(cst.parse_expression(function)), cst.Arg(updated)]
        )

    return change


def _arguments(plan: Plan, reduction: Reduction) -> Callable[[cst.CSTNode], str]:
    """What a reduction is given besides its value, for the value as it is after other changes."""
    named = _on_rows(plan, reduction) + _named(plan, reduction)
    if not reduction.weight:
        along = _along(plan, reduction)
        return lambda _: along + named
    weight = reduction.weight.replace(denominators.HELPER, plan.options.alias)
    given = _operands(reduction.node)
    return lambda mean: f", weight={_as_given(weight, given, _operands(mean))}{named}"


def _as_given(
    weight: str, before: list[cst.BaseExpression], after: list[cst.BaseExpression]
) -> str:
    """Code for a denominator, which goes by what a loss gets after all other changes."""
    pairs = [(bare_code(old), bare_code(new)) for old, new in zip(before, after, strict=False)]
    changed = {old: new for old, new in pairs if old != new}
    if not changed:
        return weight
    any_of = "|".join(map(re.escape, sorted(changed, key=len, reverse=True)))
    whole = rf"(?<![\w.])(?:{any_of})(?![\w=])"  # no part of a name, and no parameter's
    return re.sub(whole, lambda found: changed[found[0]], weight)


def _operands(call: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a function or method is given, its object first."""
    if not isinstance(call, cst.Call):
        return []
    owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    return [*owner, *(argument.value for argument in call.args)]


def _function(plan: Plan, reduction: Reduction) -> str:
    """The runtime's function: of the rows that a mask leaves, ranks have different numbers.

    Raises:
        Refusal: The rows may tell by a rank's own count which sample they belong to.
    """
    got = plan.facts.reductions.reduced.get(reduction.node, ())
    if reduction.how == "gather" and any(data.ragged for data in got):
        loading = plan.facts.loading  # in a batch that every rank puts together, numbers hold
        if any((loading.numbered - set(loading.mixed)) & data.loaders for data in got):
            site = plan.site(reduction.node)
            message = (
                "the collate function numbers the samples, and these rows of all ranks are read"
            )
            remedy = "read them on each rank alone, or number the samples in the dataset"
            plan.refuse(Refusal(site.module, site.node, message, remedy))
        if any(len(plan.facts.batches.joined & data.loaders) > 1 for data in got if data.ragged):
            plan.refuse(_of_two_loaders(plan.site(reduction.node)))
        if any(data.dim > 0 for data in got):
            plan.refuse(_behind_others(plan.site(reduction.node)))
        return "gather_ragged"
    return "global_shape" if reduction.how == "shape" else reduction.how


def _of_two_loaders(site: Site) -> Refusal:
    """Rows of one loader under those of another: all ranks' would be in another order."""
    message = (
        "the batches of two loaders lie under each other here, and those of all ranks are read"
    )
    return Refusal(site.module, site.node, message, "read each loader's batch by itself")


def _behind_others(site: Site) -> Refusal:
    """Any number of rows, which do not lie along the first dimension."""
    message = "ranks have different numbers of rows here, perhaps not along the first dimension"
    return Refusal(site.module, site.node, message, "put the samples first")


def _along(plan: Plan, reduction: Reduction) -> str:
    """The arguments for rows that do not come first, or come from several tensors.

    Raises:
        Refusal: They lie along one dimension in one call, and along another in the next.
    """
    if reduction.how not in ("gather", "shape"):
        return ""
    dims = {data.dim for data in plan.facts.reductions.reduced.get(reduction.node, ())}
    dim = _one_dimension(plan, plan.site(reduction.node), dims)
    forms = {d.form for d in plan.facts.reductions.reduced.get(reduction.node, ())}
    # Heads or steps, each of all rows.
    stacked = Layout.STACKED in forms or forms == {Layout.INTERLEAVED}
    return (", stacked=True" if stacked else "") + (f", dim={dim}" if dim > 0 else "")


def _one_dimension(plan: Plan, site: Site, dims: Collection[int]) -> int:
    """The dimension along which rows lie.

    Raises:
        Refusal: They lie along one dimension in one call, and along another in the next.
    """
    if len(dims) > 1:
        message = "the batch is the first dimension of this in one call, and not in another"
        plan.refuse(Refusal(site.module, site.node, message, "give each layout a call of its own"))
    return max(dims, default=0)


def _rebind(plan: Plan, reduction: Reduction, edits: Edits) -> None:
    name = code_of(reduction.node)
    statement = plan.module_of(reduction.node).part(reduction.node)
    function = f"{plan.options.alias}.{_function(plan, reduction)}"
    extra = _along(plan, reduction) + _on_rows(plan, reduction) + _named(plan, reduction)
    edits.rebind(statement, name, function, extra)


def _is_changed(site: Site) -> bool:
    """Whether this is what an assignment such as ``loss /= n`` reads and sets."""
    parent = site.module.parents[site.node]
    return isinstance(parent, cst.AugAssign) and parent.target is site.node


def _rebind_before(plan: Plan, reduction: Reduction, edits: Edits) -> None:
    name, extra = code_of(reduction.node), _arguments(plan, reduction)(reduction.node)
    statement = plan.module_of(reduction.node).part(reduction.node)
    function = f"{plan.options.alias}.{_function(plan, reduction)}"
    edits.insert_before(statement, f"{name} = {function}({name}{extra})\n")


def _on_rows(plan: Plan, reduction: Reduction) -> str:
    """The argument for what each rank goes on to use on its own rows, with gradients of its own."""
    got = plan.facts.reductions.reduced.get(reduction.node, ())
    sites = {loader.site for data in got for loader in data.loaders}
    used = reduction.how in ("mean", "sum") and reduction.node in plan.facts.reductions.used_on_rows
    return ", on_rows=True" if used and sites & plan.choices.trained else ""


def _named(plan: Plan, reduction: Reduction) -> str:
    """The argument that selects another loader's batch than the current one."""
    name = plan.choices.named.get(reduction.node)
    return f", of={name}" if name else ""


def _orders(plan: Plan, edits: Edits) -> None:
    """A permutation is of the whole batch, and so are the rows that it orders."""
    alias = plan.options.alias
    for draw in plan.facts.random.orders.values():
        if draw.site.module.editable:
            for size in draw.counts:
                global_count(size, alias, edits)
    for node, site in plan.facts.random.shared_draws.items():
        if site.module.editable:
            edits.change(node, _drawn_alike(alias))
            edits.note(site, f"{brief(node)}: the same numbers on all ranks")
    for node, site in plan.facts.random.alike.items():
        if site.module.editable:
            edits.change(node, _called_alike(alias))
            edits.note(site, f"{brief(node)}: the same numbers on all ranks")
    for node, site in plan.facts.rows.taken_rows.items():
        if node in plan.reductions:
            plan.refuse(_taken_twice(site))
        edits.change(node, _taken(alias))
        edits.note(site, f"{brief(node)}: rows of all ranks, unless the index is a mask")
    for node, regrouped in plan.facts.rows.regrouped.items():
        dim = _one_dimension(plan, regrouped.site, regrouped.dims)
        extra = (", stacked=True" if regrouped.stacked else "") + (f", dim={dim}" if dim else "")
        for rows in (regrouped.rows, *regrouped.others):
            if any(data.ragged for data in plan.facts.values.get(rows, UNKNOWN).data):
                plan.refuse(_of_any_number(Site(rows, regrouped.site.module)))
            edits.wrap(rows, f"{alias}.gather", extra)
        extra += ', backward="global"' if regrouped.own_backward else ""
        if node in plan.reductions and plan.reductions[node].how == "gather":
            continue
        edits.wrap(node, f"{alias}.split", extra)
        if regrouped.in_place:
            edits.wrap(node, f"{code_of(regrouped.rows)}.copy_")
        edits.note(
            regrouped.site,
            f"{brief(node)}: this rank's rows of a result that is computed from all rows",
        )


def _of_any_number(site: Site) -> Refusal:
    """What a sample has any number of is no row of it: a result of those of all has no own rows."""
    message = (
        "a sample has any number of these, and with those of all samples it is not known which of"
        " the result a rank's samples have"
    )
    return Refusal(site.module, site.node, message, "compute it of each sample by itself, by rows")


def _taken_twice(site: Site) -> Refusal:
    return Refusal(
        site.module,
        site.node,
        "the rows that are taken here are those of all ranks in one place, and a rank's in another",
        "take them by a mask, or in two lines of their own",
    )


def _drawn_alike(alias: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """Give a call the generator that ranks share, unless it has one of its own."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        named = {a.keyword.value: a.value for a in updated.args if a.keyword is not None}
        if "generator" in named:
            return updated
        device = code_of(named["device"]) if "device" in named else ""
        generator = cst.parse_expression(f"{alias}.shared_generator({device})")
        return updated.with_changes(args=[*updated.args, _keyword("generator", generator)])

    return change


def _called_alike(alias: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """From ``draw()`` to ``drawn_alike(lambda: draw())``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.BaseExpression)
        draw = cst.Lambda(cst.Parameters(), updated)
        return cst.Call(cst.parse_expression(f"{alias}.drawn_alike"), [cst.Arg(draw)])

    return change


def _keyword(name: str, given: cst.BaseExpression) -> cst.Arg:
    plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(given, keyword=cst.Name(name), equal=plain)


def _taken(alias: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """From ``x[index]`` to ``take(x, index)``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Subscript)
        index = updated.slice[0].slice
        assert isinstance(index, cst.Index)
        given = [cst.Arg(updated.value), cst.Arg(index.value)]
        return cst.Call(cst.parse_expression(f"{alias}.take"), given)

    return change


def _rule(reduction: Reduction) -> str:
    """The lint rule that a reduction satisfies."""
    if reduction.coupled:
        return "batch-coupled-loss"
    return _LOSSES.get(reduction.how, _METRIC) if reduction.trained_on else _METRIC


def _named_sizes(plan: Plan, edits: Edits) -> None:
    """``x.view(batch_size, -1)`` keeps this rank's rows."""
    for node, site in plan.facts.sizes.named_sizes.items():
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        edits.put(node.args[0].value, f"len({code_of(node.func.value)})")
        edits.note(site, f"{brief(node)}: as many rows as this rank has")


def _note_unreduced(plan: Plan, edits: Edits) -> None:
    """What each rank does with its own samples alone, where no wrapper reduces that."""
    for places, text in (
        (
            _unreduced(plan, plan.facts.forwards.statistics),
            " mixes samples inside of a model: if that dimension is the batch, each rank does so"
            " with its own samples alone",
        ),
    ):
        for node, site in places.items():
            edits.note(site, f"{brief(node)}{text}", attention=True)


def _unreduced(plan: Plan, statistics: dict[cst.CSTNode, Site]) -> dict[cst.CSTNode, Site]:
    """Those statistics of a rank's rows that are not made those of all ranks' where they stand."""
    inside = {part for node in plan.reductions for part in walk(node)}
    parts = {node for node in inside if _is_part(plan.facts.values.get(node, UNKNOWN))}
    return {n: site for n, site in statistics.items() if n not in parts | plan.reductions.keys()}


def _is_part(one: Value) -> bool:
    """Whether this is a sum or mean over a rank's rows, and known as one wherever it goes."""
    return bool(one.data) and all(data.placement.partial for data in one.data)


def _squeezes(plan: Plan, edits: Edits) -> None:
    """A bare squeeze() also drops the batch dimension when a rank has a single sample."""
    for node, (site, dim) in plan.facts.sizes.squeezes.items():
        if not site.module.editable or not isinstance(node, cst.Call):
            continue
        extra = f", dim={dim}" if dim > 0 else ""
        in_place = isinstance(node.func, cst.Attribute) and node.func.attr.value == "squeeze_"
        name = "squeeze_" if in_place else "squeeze"
        edits.change(node, _squeezing(f"{plan.options.alias}.{name}", extra))
        edits.note(site, f"{brief(node)}: keeps the dimension of the rows")


def _squeezing(function: str, extra: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """From ``x.squeeze()`` or ``torch.squeeze(x)`` to a call of the runtime's."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        rows = updated.args[0].value if updated.args else updated.func
        if not updated.args and isinstance(updated.func, cst.Attribute):
            rows = updated.func.value
        return wrapped(rows, function, extra)

    return change
