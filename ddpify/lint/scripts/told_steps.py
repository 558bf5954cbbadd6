"""The numbers that optimizers and schedulers are made with, which all ranks must have alike."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.rates import group_rates
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Function

_OPTIMS = "torch.optim."
_NUMBERS = frozenset(
    "lr weight_decay momentum alpha gamma step_size milestones T_max T_0 eta_min total_steps"
    " steps_per_epoch max_lr base_lr lr_lambda num_warmup_steps num_training_steps".split()
)


def told_numbers(script: Script) -> Iterator[cst.BaseExpression]:
    """Those in this file: of optimizers, of their groups of parameters, and of schedulers."""
    made = [one.site for one in script.facts.optimizers]
    calls = [one for one in made if isinstance(one, cst.Call)] + script.calls(_OPTIMS)
    for call in dict.fromkeys(calls):
        if script.owners.get(call) is script.module:
            yield from _given(script, call)
    if script.facts.optimizers:
        yield from group_rates(script)


def _given(script: Script, call: cst.Call) -> Iterator[cst.BaseExpression]:
    known = any(name.startswith(_OPTIMS) for name in script.names(call.func))
    for position, one in enumerate(call.args):
        if one.star == "**":
            yield from _entries(script, one.value)
        elif one.keyword.value in _NUMBERS if one.keyword is not None else known and position == 1:
            yield from _results(script, one.value)


def _entries(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """``SGD(parameters, **settings)``: what the entries with such names are set to."""
    locations = script.flow.locations(node, script.module)
    for edge in script.flow.edges_into(locations):
        if edge.key in _NUMBERS and edge.value is not None and edge.value in script.structure.order:
            yield edge.value


def _results(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An expression; of a function, what it gives."""
    functions = [one.node for one in script.value(node).of(Function)]
    if not functions:
        yield node
    for one in functions:
        if isinstance(one, cst.Lambda):
            yield from _read(script, one.body)
        else:
            given = (x.value for x in walk(one.body) if isinstance(x, cst.Return))
            yield from (x for x in given if x is not None and x in script.structure.order)


def _read(script: Script, body: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a lambda reads of the names around it: nothing in sight calls it."""
    for one in walk(body):
        above = script.structure.parents.get(one)
        if isinstance(one, cst.Name) and not (
            isinstance(above, cst.Attribute) and one is above.attr
        ):
            yield one if not isinstance(above, cst.Attribute) else above
