"""What a script asks about its launch is answered as in one process.

Helpers that are copied from distributed scripts (``reduce_value``, ``is_main_process``) ask whether
there is a process group, or which rank this is. With the group that the runtime starts, they would
add up replicated values over the ranks, or keep ranks out of what all of them do together.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.distributed import IS_INITIALIZED
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import ENVIRONMENT_READERS, environment_labels
from ddpify.understanding.values import UNKNOWN, QualifiedName

_ENVIRONMENT = QualifiedName("os.environ")
_AVAILABLE = "torch.distributed.is_available"
_NEGATED = {"True": "False", "False": "True"}


def edit(plan: Plan, edits: Edits) -> None:
    """Let the script find no process group, and no variables of a launcher."""
    answered: dict[cst.CSTNode, tuple[Site, str]] = {}
    for site, answer in _queries(plan):
        if not site.module.editable:
            message = "this runs on one of several processes, but never where there is only one"
            plan.refuse(Refusal(site.module, site.node, message, "convert the whole project"))
            continue
        node, text = _decided(plan, site, answer)
        answered.setdefault(node, (site, text))
    for node, (site, text) in answered.items():
        if answered.keys().isdisjoint(site.module.structure.up(node)):
            edits.put(node, text)
            edits.note(site, f"{code_of(site.node)}: answered as in one process")


def _queries(plan: Plan) -> Iterator[tuple[Site, str]]:
    """What is asked about the launch, with the answers."""
    for _, site in plan.facts.calls_to(IS_INITIALIZED):
        yield site, "False"
    for name in ENVIRONMENT_READERS:
        for node, site in plan.facts.library_calls.get(name, {}).items():
            if isinstance(node, cst.Call) and _is_of_launch(plan, node.args[0].value):
                default = argument(node, "default", 1)
                yield site, code_of(default.value) if default is not None else "None"
    for module in plan.project.files:
        yield from _searches(plan, module)


def _searches(plan: Plan, module: ModuleFile) -> Iterator[tuple[Site, str]]:
    """``"RANK" in os.environ``, and whether it is not."""
    for node in module.structure.all(cst.Comparison):
        target = node.comparisons[0]
        held = plan.facts.values.get(target.comparator, UNKNOWN)
        if _ENVIRONMENT in held.atoms and _is_of_launch(plan, node.left):
            yield Site(node, module), "False" if isinstance(target.operator, cst.In) else "True"


def _is_of_launch(plan: Plan, key: cst.BaseExpression) -> bool:
    return any(environment_labels(plan.facts.values.get(key, UNKNOWN)))


def _decided(plan: Plan, site: Site, answer: str) -> tuple[cst.CSTNode, str]:
    """The expression that a question decides, as far as nothing else has a say in it."""
    node = site.node
    while answer in _NEGATED:
        above = site.module.parents[node]
        if isinstance(above, cst.UnaryOperation) and isinstance(above.operator, cst.Not):
            answer = _NEGATED[answer]
        elif not isinstance(above, cst.BooleanOperation) or not _decides(plan, above, node, answer):
            break
        node = above
    return node, answer


def _decides(plan: Plan, whole: cst.BooleanOperation, node: cst.CSTNode, answer: str) -> bool:
    """Whether an operand settles it: ``False and x``, ``True or x``, ``available and False``."""
    settles = cst.And if answer == "False" else cst.Or
    first = whole.left
    known = isinstance(first, cst.Call) and first in plan.facts.library_calls.get(_AVAILABLE, ())
    return isinstance(whole.operator, settles) and (node is first or known)
