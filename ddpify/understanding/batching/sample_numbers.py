"""Numbers of the samples in a collate function: values, or places alone.

A rank's collate function numbers the rank's own samples. Such numbers may be places: the index in
``padded[i, :n] = sequence``, the image that a row of boxes belongs to, and what is added to the
edges of a graph that lies under others. What is computed with one beside a sample's elements, and
what has nothing of the sample but its number, is a value: another one than in the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.forms import Layout
from ddpify.understanding.liveness import assigned
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, names_of
from ddpify.understanding.values import NO_ROWS, Data, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Through = cst.For | cst.CompFor
_FILLING = frozenset("append fill_ full_like insert new_full".split())


def samples_in(held: Value) -> list[Data]:
    """What is one sample, or a part of one."""
    return [a for a in deep_atoms(held) if isinstance(a, Data) and a.dim == NO_ROWS]


def counters(run: RunState, loop: Through, body: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names that count samples, ``n += 1``, and those that add up sizes, ``first += size``.

    Sizes are added to what numbers a sample's rows: then it numbers those of a rank's batch.
    """
    counting: set[str] = set()
    offsets: set[str] = set()
    others: set[str] = set()
    for node in walk(body) if isinstance(loop, cst.For) else ():
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            adds = isinstance(node.operator, cst.AddAssign) and not has_sample(run, node.value)
            literal = isinstance(run.seen(node.value).constant(), int)
            kind = (counting if literal else offsets) if adds else others
            kind.add(node.target.value)
        else:
            others |= assigned(node) if isinstance(node, (cst.Assign, cst.AnnAssign)) else set()
    return counting - others - offsets, offsets - others - counting


def has_sample(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is of a sample's elements, and not of its sizes alone."""
    return any(map(is_of_a_sample, run.seen(node).atoms))


def is_of_a_sample(atom: object) -> bool:
    """Whether this is elements of one sample."""
    return isinstance(atom, Data) and atom.dim == NO_ROWS and isinstance(atom.form, Layout)


def enter(
    run: RunState, loop: Through, body: cst.CSTNode, counting: set[str], offsets: set[str]
) -> bool:
    """Whether a loop computes with the numbers of samples, or keeps them for what they are."""
    numbers = counting | _numbers(run, loop)
    return _are_computed_with(run, body, numbers, offsets) or any(
        _is_a_number(run, one, numbers) for one in _of_each(run, loop, body)
    )


def _of_each(run: RunState, loop: Through, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the rounds of a loop keep, one for each sample."""
    if isinstance(loop, cst.CompFor):
        yield from [body] if isinstance(body, cst.BaseExpression) else ()
        return
    for one in kept(body):
        around = (a for a in run.module.structure.up(one) if isinstance(a, (cst.For, cst.While)))
        if next(around, None) is loop and not _is_for_a_slice(run, one):
            yield one


def _is_for_a_slice(run: RunState, held: cst.BaseExpression) -> bool:
    """Whether something fills a slice, perhaps of rows of which a sample has several."""
    above = run.module.parents[held]
    targets = [one.target for one in above.targets] if isinstance(above, cst.Assign) else ()
    return any(isinstance(node, cst.Slice) for target in targets for node in walk(target))


def _is_a_number(run: RunState, held: cst.BaseExpression, numbers: set[str]) -> bool:
    """Whether this is made of a sample's number and nothing of the sample: not the place of it."""
    names = {node.value for node in walk(held) if isinstance(node, cst.Name)}
    shown = (node for node in walk(held) if isinstance(node, cst.BaseExpression))
    return bool(names & numbers) and not any(samples_in(run.seen(node)) for node in shown)


def _are_computed_with(
    run: RunState, body: cst.CSTNode, numbers: set[str], offsets: set[str]
) -> bool:
    """Whether numbers of samples are computed with, and are no places of them alone."""
    for name in (one for one in walk(body) if isinstance(one, cst.Name)):
        if name.value in numbers and _enters(run, name, added=False):
            return True
        if name.value in offsets and _enters(run, name, added=True):
            return True
    return False


def _enters(run: RunState, number: cst.Name, *, added: bool) -> bool:
    """Whether a sample's elements, or what is done with them, go by a number.

    ``added``: it may be added to them.
    """
    parents = run.module.parents
    node: cst.CSTNode = number
    while isinstance(above := parents[node], cst.BaseExpression | cst.Arg | cst.If):
        if isinstance(above, (cst.If, cst.IfExp)):
            return above.test is node
        if isinstance(above, (cst.Comparison, cst.BooleanOperation, cst.Subscript)):
            return not isinstance(above, cst.Subscript)
        if isinstance(above, cst.BinaryOperation):
            other = above.right if above.left is node else above.left
            if has_sample(run, other):
                return not (added and isinstance(above.operator, cst.Add))
        if isinstance(above, cst.Call) and _is_given_samples(run, above, node):
            return True
        node = above
    return False


def _is_given_samples(run: RunState, call: cst.Call, number: cst.CSTNode) -> bool:
    """Whether a function gets a sample's elements beside a number; some only fill with it."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if method in _FILLING or number is call.func:
        return False
    return any(has_sample(run, one.value) for one in call.args if one is not number)


def _numbers(run: RunState, loop: Through) -> set[str]:
    """The names that count the samples of a rank."""
    targets = [one.value for one in names_of(loop.target) if isinstance(one, cst.Name)]
    if run.calls_builtin(loop.iter, "enumerate") and isinstance(loop.target, UNPACKED):
        return set(targets[:1])
    return set(targets) if run.calls_builtin(loop.iter, "range") else set()


def kept(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the rounds of a loop put into lists and tensors, and what they yield."""
    for node in walk(body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("append", "extend", "add"):
                yield from (one.value for one in node.args)
        elif isinstance(node, cst.Assign):
            if any(isinstance(one.target, cst.Subscript) for one in node.targets):
                yield node.value
        elif isinstance(node, cst.Yield) and isinstance(node.value, cst.BaseExpression):
            yield node.value
