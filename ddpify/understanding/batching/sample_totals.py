"""What the numbers of all samples add up to in a collate function: one number of the whole batch.

``sum(len(text) for text in texts)`` is that, where ``sum(text.tolist())`` is a number of a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import collating
from ddpify.understanding.forms import Layout
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import NO_ROWS, Data, Instance, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What gives an item for each that it gets, in any order.
_PASSING = frozenset("enumerate iter list map reversed sorted tuple zip".split())
_NUMBERS = frozenset("math.dist math.fsum math.prod math.sumprod".split())


def makes_a_number(name: str) -> bool:
    """Whether a function of Python's library makes one number of many."""
    return name in _NUMBERS or name.startswith("statistics.")


def note_list(run: RunState, made: Instance, through: cst.BaseExpression) -> None:
    """Note whether a list gets an item for every sample, or for each thing that one sample is."""
    of_all = _is_of_all(run, through) if run.collating else None
    if of_all is not None:
        run.of_each_sample[made] = of_all


def total(
    run: RunState,
    node: cst.BaseExpression,
    shown: cst.BaseExpression,
    held: Value,
    *,
    known: bool = True,
) -> Value | None:
    """The sum over a list of what samples are; None for one sample's own, and for other values.

    ``known``: that this is one number, and no tensor or list.
    """
    lists = [a for a in held.of(Instance) if set(a.attributes) == {"*"}] if run.collating else []
    rows = [one for a in lists for one in _items(a)]
    of_all = _is_of_all(run, shown)
    if not rows or of_all is False:
        return None
    met = collating.one_row(rows[0])
    return collating.mixed(run, node, met, known=known and of_all is True, rows=False)


def by_function(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value]
) -> Value | None:
    """What a function of Python's library makes of a list; None for one sample's, and for others.

    Of all samples, ``functools.reduce`` may make anything; the others make a number.
    """
    place = int(name == "functools.reduce")
    known = place or makes_a_number(name)
    if not run.collating or not known or len(args) <= place or not isinstance(node, cst.Call):
        return None
    return total(run, node, node.args[place].value, args[place], known=not place)


def _items(listed: Instance) -> list[Data]:
    """What a list holds of samples."""
    return [a for a in deep_atoms(listed.elements) if isinstance(a, Data) and a.dim == NO_ROWS]


def _is_of_all(run: RunState, shown: cst.BaseExpression) -> bool | None:
    """Whether an expression gives something of every sample; None where that is not known."""
    known = {_is_of_all_samples(run, atom) for atom in run.seen(shown).atoms}
    if len(known) == 1 and None not in known:
        return known.pop()
    if not isinstance(shown, cst.Call) or dotted(shown.func) not in _PASSING:
        return None
    parts = {_is_of_all(run, one.value) for one in shown.args} - {None}
    return parts.pop() if len(parts) == 1 else None


def _is_of_all_samples(run: RunState, atom: object) -> bool | None:
    if isinstance(atom, Data):
        samples = atom.form is Layout.SAMPLES
        return samples if samples or atom.dim == NO_ROWS else None
    return run.of_each_sample.get(atom) if isinstance(atom, Instance) else None
