"""What the mean of a loss divides by, where that is not the number of rows."""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst

from ddpify.understanding.batching.handmade_batches import Operand
from ddpify.understanding.marked_targets import IGNORED
from ddpify.understanding.operators.loss_options import (
    PARAMETERS,
    WEIGHED,
    given_to_class,
    given_to_function,
)
from ddpify.understanding.syntax import bare_code, code_of, operand_code
from ddpify.understanding.values import UNKNOWN, Instance, Value

# Their mean divides by the weights of the targets' classes, or by the targets that count.
_CLASSIFYING = ("nll_loss", "cross_entropy")
_CLASSIFYING_MODULES = ("torch.nn.NLLLoss", "torch.nn.CrossEntropyLoss")
_COUNTING = ("weight", "ignore_index")
_TENSORS = frozenset(
    "input target input1 input2 anchor positive negative log_probs targets".split()
)
_ROWS = "len("
HELPER = "{dd}"
"""The runtime helper's name, where code for a denominator calls it."""


class LossCall(NamedTuple):
    """A call of one of PyTorch's losses."""

    node: cst.BaseExpression
    name: str  # of its functional form
    args: list[Value]
    kwargs: dict[str, Value]
    module: Instance | None = None  # where it is called as a module

    @property
    def options(self) -> dict[str, Value]:
        """What the loss is told, or its module was where there is one, by parameter."""
        if self.module is None or not isinstance(self.module.type, str):
            return given_to_function(self.name, self.args, self.kwargs)
        return given_to_class(self.module.type.rsplit(".", 1)[-1], self.module.arguments)

    def shown(self) -> list[Operand]:
        """The positional arguments, and tensors that are given by name, each with its value."""
        given = self.node.args if isinstance(self.node, cst.Call) else ()
        expressions = [a.value for a in given if a.keyword is None]
        named = self.arguments()
        tensors = [one for one in PARAMETERS.get(self.name, ()) if one in _TENSORS]
        return [
            *zip(expressions, self.args, strict=False),
            *((named[t], self.kwargs[t]) for t in tensors if t in self.kwargs and t in named),
        ]

    def argument(self, name: str) -> cst.BaseExpression | None:
        """The expression that the call gives for a parameter."""
        return self.arguments().get(name)

    def arguments(self) -> dict[str, cst.BaseExpression]:
        """The expressions that the call gives, by parameter."""
        given = self.node.args if isinstance(self.node, cst.Call) else ()
        positional = [a.value for a in given if a.keyword is None and not a.star]
        named = {a.keyword.value: a.value for a in given if a.keyword is not None}
        return {**dict(zip(PARAMETERS.get(self.name, ()), positional, strict=False)), **named}


def denominator(loss: LossCall, *, masked: bool, marked: bool) -> tuple[str, ...]:
    """Code for what a loss divides by, empty where that is the number of rows of the batch.

    Args:
        loss: The call.
        masked: Whether it gets those rows that a mask leaves of the batch.
        marked: Whether the script may mark targets as ones that do not count.
    """
    counted = _of_targets(loss, marked) if loss.name in _CLASSIFYING else ()
    if loss.name in WEIGHED and loss.module is None and _given(loss, "weight"):
        counted = (f"{_option(loss, 'weight')}.sum()",)
    return counted or (_number_of_rows(loss) if masked else ())


def _of_targets(loss: LossCall, marked: bool) -> tuple[str, ...]:
    """Code for what a classification loss divides by, where it weighs or leaves out targets."""
    target = loss.argument("target")
    names = [name for name in _COUNTING if _given(loss, name)]
    if target is not None and not names and marked:
        return (f"({operand_code(target)} != {IGNORED}).sum()",)
    if target is None or not names or _are_probabilities(loss):
        return ()
    code = {name: _option(loss, name) for name in names}
    rows = operand_code(target)
    if "weight" not in code:
        return (f"({rows} != {code['ignore_index']}).sum()",)
    # Targets may be probabilities; weights may be None at run time, and what is ignored no class.
    ignored = f", ignore_index={code['ignore_index']}" if "ignore_index" in code else ""
    return (f"{HELPER}.target_weight({rows}, {code['weight']}{ignored})",)


def _are_probabilities(loss: LossCall) -> bool:
    """Whether targets have a number for each class: their mean goes by the samples alone."""
    given = given_to_function(loss.name, loss.args, loss.kwargs)
    scores, targets = (
        {d.ndim for d in given.get(name, UNKNOWN).data} for name in ("input", "target")
    )
    return len(scores) == 1 and scores == targets and scores != {0}


def of_any(
    loss: cst.BaseExpression, callee: Value, counted: set[tuple[str, ...]]
) -> tuple[str, ...]:
    """Code for what a loss divides by, whichever of the ways that are counted so it goes."""
    told = [one for one in counted if one]
    # Rows that a mask may leave are counted right without a mask, too.
    if len(told) == 1 and (len(counted) == 1 or told[0][0].startswith(_ROWS)):
        return told[0]
    return _of_any_module(loss, callee)


def _of_any_module(loss: cst.BaseExpression, callee: Value) -> tuple[str, ...]:
    """Code for what a classification loss divides by, whichever of these objects it is."""
    if not isinstance(loss, cst.Call) or not loss.args or not callee:
        return ()
    if not all(isinstance(a, Instance) and a.type in _CLASSIFYING_MODULES for a in callee.atoms):
        return ()
    call = LossCall(loss, _CLASSIFYING[0], [], {})
    target, function = call.argument("target"), _function_of(loss)
    if target is None:
        return ()
    options = f"{function}.weight, ignore_index={function}.ignore_index"
    return (f"{HELPER}.target_weight({code_of(target)}, {options})",)


def number_of_rows(rows: cst.BaseExpression) -> str:
    """Code for how many rows a mask leaves."""
    return f"{_ROWS}{bare_code(rows)})"


def _number_of_rows(loss: LossCall) -> tuple[str, ...]:
    rows = loss.argument("target")
    return (number_of_rows(rows),) if rows is not None else ()


def _given(loss: LossCall, name: str) -> bool:
    held = _held(loss, name)
    default = (None, IGNORED) if name == "ignore_index" else (None,)
    return held.constant() not in default and (bool(held) or name in loss.options)


def _held(loss: LossCall, name: str) -> Value:
    """The value of an option, empty where it is not given or not known."""
    return loss.options.get(name, UNKNOWN)


def _option(loss: LossCall, name: str) -> str:
    """Code for an option's value."""
    if loss.module is not None:
        return f"{_function_of(loss.node)}.{name}"
    given = loss.argument(name)
    known = _held(loss, name).constant()
    return operand_code(given) if given is not None else str(known) if known is not ... else name


def _function_of(node: cst.BaseExpression) -> str:
    assert isinstance(node, cst.Call)  # its target was shown
    return code_of(node.func)
