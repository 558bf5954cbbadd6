"""Let an error in the training end the run, where one rank alone would handle it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.reachability import leading_to
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import dotted, statements

_FLOW = (StopIteration, StopAsyncIteration, ImportError)
_GOING_ON = (cst.Continue, cst.Break, cst.Return)
Handler = cst.ExceptHandler | cst.Finally


def edit(plan: Plan, edits: Edits) -> None:
    """Raise errors again that ranks may not share; after all other edits."""
    for handler, module in _around_training(plan):
        if isinstance(handler, cst.ExceptHandler):
            ends = _ends_by_raising(module.structure, handler) and not _is_changed(
                module.structure, handler, edits
            )
            wanted = _may_be_of_one_rank(handler) and not ends
        else:
            wanted = _is_changed(module.structure, handler, edits)
        if not wanted:
            continue
        site = Site(handler, module)
        if not module.editable:
            message = "this continues after an error of the training, which one rank alone may have"
            remedy = "convert the whole project, or let the error end the run"
            plan.refuse(Refusal(module, handler, message, remedy))
            continue
        first = statements(handler.body)[0]
        edits.insert_before(first, f"{plan.options.alias}.reraise()\n")
        text = "an error of one rank ends the run: the others would wait for it"
        edits.note(site, text, attention=True)


def _around_training(plan: Plan) -> Iterator[tuple[Handler, ModuleFile]]:
    """The handlers of what leads to a forward or a backward."""
    facts = plan.facts
    calls = (e.site for m in facts.models for e in facts.events.get(m, ()) if e.kind == "call")
    backwards = (site for site, _ in facts.backwards.values())
    training = {site.node for site in leading_to(facts, *calls, *backwards)}
    for file in plan.project.files:
        for tried in file.structure.all(cst.Try):
            if training.intersection(file.structure.below(tried.body)):
                yield from ((handler, file) for handler in tried.handlers)
                if tried.finalbody is not None:
                    yield tried.finalbody, file


def _goes_on(structure: Structure, handler: Handler, edits: Edits) -> bool:
    """Whether one rank alone may go on there after an error, or do what all ranks are to do."""
    if isinstance(handler, cst.Finally):
        return _is_changed(structure, handler, edits)
    ends = _ends_by_raising(structure, handler) and not _is_changed(structure, handler, edits)
    return _may_be_of_one_rank(handler) and not ends


def _may_be_of_one_rank(handler: cst.ExceptHandler) -> bool:
    """Whether it catches errors of Python's or PyTorch's."""
    given = handler.type
    if given is None:
        return True
    elements = given.elements if isinstance(given, cst.Tuple) else [cst.Element(given)]
    return any(_is_error((dotted(one.value) or "").rsplit(".", 1)[-1]) for one in elements)


def _is_error(name: str) -> bool:
    kind = getattr(builtins, name, None)
    known = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _FLOW)
    return known or name in ("BaseException", "OutOfMemoryError")


def _ends_by_raising(structure: Structure, handler: cst.ExceptHandler) -> bool:
    """Whether every way through a handler raises."""
    last = statements(handler.body)[-1]
    if any(isinstance(one, _GOING_ON) for one in structure.below(handler)):
        return False
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise)


def _is_changed(structure: Structure, handler: Handler, edits: Edits) -> bool:
    """Whether the conversion changes anything there: perhaps to a collective."""
    changed = (edits.changes, edits.before, edits.after, edits.blocks, edits.parts)
    return any(node in held for node in structure.below(handler) for held in changed)
