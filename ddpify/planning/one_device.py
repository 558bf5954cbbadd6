"""Branches that a script takes where it sees several GPUs, to spread a batch over them itself.

The training to convert is that of one device, which never takes them.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from ddpify.planning.other_kinds import GPUS_BY_HAND
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.three_valued import COMPARING, holds

_COUNT = "torch.cuda.device_count"
_ASKED = (_COUNT, "torch.cuda.is_available")
_SEEN = (0, 1)  # the numbers of GPUs that a script for one device may find


def leave_out(plan: Plan) -> bool:
    """Decide the tests that guard all of what is spread over GPUs; whether there are new ones."""
    guards = _Guards(plan.facts)
    spread = [site for _, site in plan.facts.calls_to(*GPUS_BY_HAND)]
    if not spread or not all(guards.lead_to(site) for site in spread):
        return False
    plan.choices.one_device.update(guards.tests)
    plan.choices.left_out |= guards.functions
    return True


class _Guards:
    """The tests for several GPUs that lead to places.

    Attributes:
        tests: Those, with whether they hold where there is one GPU.
        functions: The functions that are called only under them.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.tests: dict[cst.CSTNode, bool] = {}
        self.functions: set[cst.CSTNode] = set()

    def lead_to(self, site: Site) -> bool:
        """Whether only such tests lead to a place; they are noted."""
        for guard in site.module.structure.guards(site.node):
            if _is_branch(guard) and _is_against(self.facts, guard):
                self.tests[guard.test] = not guard.positive
                return site.module.editable
        function = site.module.structure.function(site.node)
        callers = self.facts.callers.get(function, ()) if function is not None else ()
        if function is None or not callers:
            return False
        if function in self.functions:
            return True
        self.functions.add(function)
        return all(self.lead_to(one) for one in callers)


def _is_branch(guard: Guard) -> bool:
    return isinstance(guard.statement, (cst.If, cst.IfExp)) and not guard.left_early


def _is_against(facts: Facts, guard: Guard) -> bool:
    """Whether one GPU, or none, surely leads elsewhere."""
    return _on_one_device(facts, guard.test) is (not guard.positive)


def _on_one_device(facts: Facts, test: cst.BaseExpression) -> bool | None:
    """Whether a test holds where there is one GPU, or none; None where that is not known."""
    asked = [one for name in _ASKED for one in facts.library_calls.get(name, ())]
    calls = (one for one in walk(test) if isinstance(one, (cst.Call, cst.NamedExpr, cst.Await)))
    if any(one not in asked for one in calls):
        return None  # which may do something, too
    first, second = (holds(test, partial(_compared, facts, number)) for number in _SEEN)
    return first if first is second else None


def _compared(facts: Facts, number: int, test: cst.BaseExpression) -> bool | None:
    """What a comparison of numbers gives where there are so many GPUs."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    target = test.comparisons[0]
    compare = COMPARING.get(type(target.operator))
    left = _number(facts, test.left, number)
    right = _number(facts, target.comparator, number)
    if compare is None or left is None or right is None:
        return None
    return bool(compare(left, right))


def _number(facts: Facts, node: cst.BaseExpression, number: int) -> int | None:
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    return number if node in facts.library_calls.get(_COUNT, {}) else None
