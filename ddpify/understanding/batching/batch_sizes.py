"""Sizes of batches that a script gives by a setting's name instead of asking the batch.

``torch.ones(batch_size, 1)`` is meant for the rows of a batch where a loader is made with that same
``batch_size``, and a batch of it is current.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Data, Instance, Number, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

MAKING = frozenset(
    "ones zeros full empty rand randn randint normal uniform random standard_normal Tensor"
    " FloatTensor LongTensor DoubleTensor random_sample choice binomial beta gamma laplace"
    " exponential".split()
)

_OF_SIZES_ALONE = frozenset(
    "ones zeros empty rand randn standard_normal Tensor FloatTensor LongTensor DoubleTensor".split()
)
# Where others take the sizes, among their arguments; none of these is a bound or what fills them.
_SIZE_AT = {
    **dict.fromkeys("full random random_sample sample ranf standard_cauchy".split(), 0),
    "standard_exponential": 0,
    **dict.fromkeys(
        "choice exponential chisquare dirichlet geometric logseries pareto poisson power rayleigh"
        " standard_gamma standard_t weibull zipf".split(),
        1,
    ),
    **dict.fromkeys(
        "normal uniform randint integers random_integers binomial beta f gamma gumbel laplace"
        " logistic lognormal multinomial multivariate_normal negative_binomial vonmises"
        " wald".split(),
        2,
    ),
    **dict.fromkeys("hypergeometric triangular".split(), 3),
}


def sized_like(run: RunState, call: cst.BaseExpression) -> frozenset[Instance]:
    """The loaders whose batch size is the first of the sizes that a call names.

    States of layers have it second: they are split where the layers get them.
    """
    if not isinstance(call, cst.Call) or not run.in_batch_loop():
        return frozenset()
    name = (dotted(call.func) or "").rpartition(".")[2]
    given = call.args[:1] if name in _OF_SIZES_ALONE else _of_sizes(name, call)
    sizes = [part for argument in given for part in _first_parts(argument.value)][:1]
    return frozenset(
        loader for loader in run.facts.loaders if any(_is_size(run, loader, one) for one in sizes)
    )


def _of_sizes(name: str, call: cst.Call) -> list[cst.Arg]:
    """The argument that says how large something is that is drawn between bounds, or filled."""
    named = [one for one in call.args if one.keyword and one.keyword.value in ("size", "shape")]
    plain = [one for one in call.args if one.keyword is None and not one.star]
    at = _SIZE_AT.get(name, 0)
    if name == "randint" and len(plain) == 2 and isinstance(plain[1].value, (cst.Tuple, cst.List)):
        at = 1  # torch.randint(high, (n, 3))
    return named or plain[at : at + 1]


def kept_for(run: RunState, call: cst.BaseExpression) -> frozenset[Instance]:
    """The loaders whose batch size is the first size of a tensor that is made before the batches.

    One process uses it with each batch; a rank has fewer rows, and takes as many of it.
    """
    if not isinstance(call, cst.Call) or run.choices.by_hand or run.in_batch_loop():
        return frozenset()
    first = next((part for argument in call.args[:1] for part in _parts(argument.value)), None)
    if first is None or not run.module.editable or run.frames_forward():
        return frozenset()
    return frozenset(one for one in run.facts.loaders if _is_size(run, one, first))


def split_where_they_meet(run: RunState, operands: list[tuple[cst.BaseExpression, Value]]) -> None:
    """Note what is as large as a whole batch, and meets this rank's rows of one."""
    shards = [d for _, one in operands for d in one.data if d.placement is Placement.SHARD]
    rows = {loader for data in shards if data.dim == 0 for loader in data.loaders}
    for shown, one in operands if rows and run.in_batch_loop() else ():
        sized = [a for a in one.atoms if isinstance(a, Data) and a.form is Layout.SIZED]
        if any(not rows.isdisjoint(data.loaders) for data in sized):
            run.facts.rows.replicated_rows.setdefault(shown, run.site(shown))


def names_size(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether an expression is the name of the batch size of a loader, or the same option."""
    return run.in_batch_loop() and any(_is_size(run, one, node) for one in run.facts.loaders)


def _is_size(run: RunState, loader: Instance, node: cst.BaseExpression) -> bool:
    name = dotted(node)
    if name is None or any(d.placement is Placement.COUNT for d in run.seen(node).data):
        return False
    given = setting(loader.arguments.get("batch_size", UNKNOWN))
    same = name == size_of(loader) and not _is_a_functions_own(run, loader, node)
    return same or (given is not None and given == setting(run.seen(node)))


def _is_a_functions_own(run: RunState, loader: Instance, node: cst.BaseExpression) -> bool:
    """Whether a name is set in the function in progress, which does not make the loader."""
    if not isinstance(node, cst.Name) or run.frame.runs is None:
        return False
    scope = run.frame.scope
    own = node.value in scope.names and node.value not in scope.passed | scope.shared
    return own and not run.frame.module.holds(run.frame.runs, loader.site)


def setting(one: Value) -> tuple[Instance, str] | None:
    """The option of the command line that a number surely is, by whatever name it goes."""
    found = {atom.setting for atom in one.atoms if isinstance(atom, Number)}
    return found.pop() if len(found) == 1 else None


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A size, or those of a tuple of them; of ``2 * n`` that of which it is a multiple."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _parts(element.value)
    elif (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Multiply)
        and any(isinstance(side, cst.Integer) for side in (node.left, node.right))
    ):
        counted = isinstance(node.left, cst.Integer)
        yield node.right if counted else node.left
    else:
        yield node


def _first_parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A size, or the first of a tuple of them."""
    displayed = isinstance(node, (cst.Tuple, cst.List)) and bool(node.elements)
    yield from _parts(node.elements[0].value if displayed else node)  # type: ignore[attr-defined]


def size_of(loader: Instance) -> str | None:
    """The name of the setting that a loader takes for its batch size."""
    if not isinstance(loader.site, cst.Call):
        return None
    arguments = loader.site.args
    for argument in arguments:
        if argument.keyword is not None and argument.keyword.value == "batch_size":
            return dotted(argument.value)
    second = arguments[1] if len(arguments) > 1 else None
    return dotted(second.value) if second is not None and second.keyword is None else None
