"""Where a script chooses a device by its number."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.spread_options import option
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.libraries.side_effects import VISIBLE, environment_key
from ddpify.understanding.syntax import argument

_MOVES = ("to", "cuda")
_SETS = ("torch.cuda.set_device", "torch.accelerator.set_device_index")


def device_numbers(script: Script) -> Iterator[cst.BaseExpression]:
    """Expressions that are the number of a device, or its name: ``set_device(n)``, ``x.to(n)``."""
    for call in script.calls(*_SETS):
        if call.args:
            yield call.args[0].value
    for call in script.calls("torch.device"):
        yield from _of_device(call)
    for call in script.calls(DDP):
        for keyword, at in (("device_ids", 1), ("output_device", 2)):
            given = option(script, call, keyword, at)
            if given is None or script.owners.get(given) is not script.module:
                continue
            if isinstance(given, cst.List):
                yield from (element.value for element in given.elements)
            elif keyword == "output_device":
                yield given
    for assign in script.structure.all(cst.Assign):
        if environment_key(script.facts, assign.targets[0].target) == VISIBLE:
            yield from _in_text(script, assign.value)
    yield from _moved_to(script)


def _of_device(call: cst.Call) -> Iterator[cst.BaseExpression]:
    if len(call.args) > 1:
        yield call.args[1].value
    elif call.args:
        yield from _within(call.args[0].value)


def _moved_to(script: Script) -> Iterator[cst.BaseExpression]:
    """Arguments of ``to`` and ``cuda``; a name may also be that of a data type or a tensor."""
    for call in script.structure.all(cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _MOVES or not call.args:
            continue
        given = argument(call, "device", 0)
        if given is None or given.star:
            continue
        if isinstance(given.value, (cst.Name, cst.Attribute)):
            yield given.value
        else:
            yield from _within(given.value)


def _within(text: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The number in ``f"cuda:{n}"``."""
    if isinstance(text, cst.FormattedString):
        for part in text.parts:
            if isinstance(part, cst.FormattedStringExpression):
                yield part.expression


def _in_text(script: Script, text: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The number in ``f"{n}"`` and ``str(n)``, which a variable of the environment gets."""
    if isinstance(text, cst.Call) and "builtins.str" in script.names(text.func):
        yield from (one.value for one in text.args[:1])
    yield from _within(text)


def comes_from(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An expression, and those that a copy of its value comes from."""
    todo, seen = [node], set[cst.CSTNode]()
    while todo:
        one = todo.pop()
        seen.add(one)
        yield one
        locations = script.flow.locations(one, script.owners.get(one, script.module))
        todo += [
            edge.value
            for edge in script.flow.edges_into(locations)
            if edge.value and edge.value not in seen
        ]


def is_number(script: Script, node: cst.BaseExpression) -> bool:
    """Whether it is a number itself, and not a device that was made of one elsewhere."""
    devices = set(script.calls("torch.device", everywhere=True))
    return not any(
        _is_text(one) or not devices.isdisjoint(_choices(one)) for one in comes_from(script, node)
    )


def _choices(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """``a if cuda else b`` gives one of two."""
    if isinstance(node, cst.IfExp):
        yield from _choices(node.body)
        yield from _choices(node.orelse)
    else:
        yield node


def _is_text(node: cst.BaseExpression) -> bool:
    """``f"cuda:{n}"``, ``"cuda:" + str(n)``, ``"cuda:{}".format(n)``."""
    if isinstance(node, cst.BinaryOperation):
        return _is_text(node.left)
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and _is_text(node.func.value)
    return isinstance(node, (cst.FormattedString, cst.SimpleString, cst.ConcatenatedString))


def local_rank_at(script: Script, node: cst.BaseExpression, os_name: str) -> str | None:
    """The code of torchrun's local rank in place of ``node``; None where quotes do not allow it.

    ``os_name``: what the script calls the module os.
    """
    above = next((a for a in script.structure.up(node) if isinstance(a, cst.FormattedString)), None)
    if above is None:
        return f'int({os_name}.environ["LOCAL_RANK"])'
    quote = "'" if '"' in above.start else '"'
    return f"int({os_name}.environ[{quote}LOCAL_RANK{quote}])" if len(above.end) == 1 else None
