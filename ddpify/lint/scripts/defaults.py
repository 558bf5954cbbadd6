"""The answers of conditions by what commands give, and by the defaults of what they do not give."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import libcst as cst

from ddpify.lint.scripts.given import Spelling, is_given, text_given
from ddpify.records import record
from ddpify.understanding.settings import UNREAD, named_by, values_of
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.texts import gives_more
from ddpify.understanding.three_valued import COMPARING, holds
from ddpify.understanding.values import CONTAINERS, Class, Value

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood
    from ddpify.understanding.taint.flow import Flow

_COMPARING: dict[type[cst.BaseCompOp], Callable[[Any, Any], object]] = {
    **COMPARING,
    cst.Is: operator.is_,
    cst.IsNot: operator.is_not,
}
_TYPES: dict[str, Callable[..., object]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": bool,
    "builtins.str": str,
}
_READING = {name: kind for name, kind in _TYPES.items() if kind is not bool}  # "False" is true
_LITERALS = (cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation)
_SWITCHES = {"store_true": False, "store_false": True}
_DEEPEST = 6


@record
class Held:
    """All that an expression may be by default, and whether an option or a setting decides it."""

    values: frozenset[object]
    chosen: bool = False


class Defaults:
    """The answers of conditions in runs that some commands start.

    ``nothing``: whether an option without a value, such as a checkpoint to go on from, stays so;
    ``unsaid``: whether anything is known of what the commands do not give.
    """

    def __init__(
        self,
        script: Understood,
        flow: Flow,
        commands: Collection[str],
        *,
        nothing: bool = True,
        unsaid: bool = True,
    ) -> None:
        self.script, self.flow, self.commands = script, flow, commands
        self.nothing, self.unsaid = nothing, unsaid
        self._more = any(map(gives_more, commands))
        self._settings = named_by(commands, script.settings)
        self._known: dict[cst.BaseExpression, bool | None] = {}

    def answer(self, test: cst.BaseExpression) -> bool | None:
        """Whether a test holds, where options or settings decide it; None: not known."""
        if test not in self._known:
            self._known[test] = holds(test, self._answer)
        return self._known[test]

    def _answer(self, test: cst.BaseExpression) -> bool | None:
        """The same for one that nothing joins."""
        answers = self._answers(test)
        return answers.pop() if len(answers) == 1 else None

    def values(self, node: cst.BaseExpression) -> frozenset[object]:
        """All that a setting or an option may be by default; nothing where that is not known."""
        held = self._held(node)
        return held.values if held is not None and held.chosen else frozenset()

    def _answers(self, test: cst.BaseExpression) -> set[bool]:
        """The answers with each of the values that are known; none where one is not."""
        if not isinstance(test, cst.Comparison):
            held = self._held(test)
            return {bool(one) for one in held.values} if held is not None and held.chosen else set()
        left, right = self._held(test.left), self._held(test.comparisons[0].comparator)
        compare = _COMPARING.get(type(test.comparisons[0].operator))
        if len(test.comparisons) != 1 or left is None or right is None or compare is None:
            return set()
        if not (left.chosen or right.chosen):
            return set()
        try:
            return {bool(compare(one, other)) for one in left.values for other in right.values}
        except TypeError:
            return set()

    def _held(self, node: cst.BaseExpression, depth: int = 0) -> Held | None:
        """What an expression is by default; None where that is not known."""
        if isinstance(node, _LITERALS) or code_of(node) in ("True", "False", "None"):
            return _constant(self.script.value(node))
        if isinstance(node, cst.Call):
            return self._called(node, depth)
        if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
            key = node.slice[0].slice.value
            told = isinstance(key, cst.SimpleString) and self._is_read(node)
            return self._set(self.script.value(key).constant()) if told else None
        if isinstance(node, (cst.Name, cst.Attribute)) and depth < _DEEPEST:
            return self._named(node, depth)
        return None

    def _called(self, node: cst.Call, depth: int) -> Held | None:
        """``int(x)``; ``settings.get("key", default)``."""
        given = [one.value for one in node.args]
        for name in self.script.names(node.func) & _TYPES.keys() if len(given) == 1 else ():
            held = self._held(given[0], depth)
            return None if held is None else _converted(held, _TYPES[name])
        is_get = isinstance(node.func, cst.Attribute) and node.func.attr.value == "get"
        if not is_get or not given or not isinstance(given[0], cst.SimpleString):
            return None
        if not self._is_read(node):
            return None
        default = self._held(given[1], depth) if len(given) == 2 else Held(frozenset({None}))
        return self._set(str(given[0].evaluated_value), default) if default is not None else None

    def _named(self, node: cst.Name | cst.Attribute, depth: int) -> Held | None:
        """What is assigned to a name or an attribute, and what an option of its name offers."""
        module, names = self.script.owners.get(node, self.script.module), self.flow.names
        if isinstance(node, cst.Name):
            kept = names.of_name(node, module)
        else:
            kept = names.of_attribute(node, module)
        edges = self.flow.edges_into({*kept})
        assigned = [one for one in edges if not one.offers]
        held = list[Held | None]()
        for one in assigned:
            known = self._held(one.value, depth + 1) if one.value is not None else None
            if known is None or one.adds:
                return None
            held.append(known)
        if isinstance(node, cst.Attribute):
            held += self._declared(node)
            held += [self._set(node.attr.value)] if not held and self._is_read(node) else []
        return _joined(held)

    def _is_read(self, node: cst.BaseExpression) -> bool:
        """Whether what an entry is taken from may be a file's, and is none of the script's own."""
        while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
            node = node.func if isinstance(node, cst.Call) else node.value
        return all(
            isinstance(one.type, str)
            and one.role is None
            and one.type not in CONTAINERS
            and not one.type.startswith("torch.")
            for one in self.script.instances(node)
        )

    def _declared(self, node: cst.Attribute) -> list[Held | None]:
        """The defaults of options, and of fields of data classes, that an attribute may read."""
        name, objects = node.attr.value, self.script.instances(node.value)
        classes = [one.type for one in objects if isinstance(one.type, Class)]
        fields = [one.find(name) for one in classes if name in one.fields()]
        if fields:
            values = [None if one is None else _constant(one) for one in fields]
            return [None if one is None else self._set(name, one) for one in values]
        if any(one.type != "argparse.Namespace" for one in objects):
            return []
        return [self._option(one, name) for one in self._options(name)]

    def _options(self, name: str) -> list[cst.Call]:
        """The calls of ``add_argument`` that declare an option."""
        declared = self.script.method_calls("add_argument", everywhere=True)
        return [one for one in declared if name in _attributes(one)]

    def _option(self, call: cst.Call, name: str) -> Held | None:
        """What an option is by a command, or by default where that does not give it."""
        action, default = argument(call, "action"), argument(call, "default")
        kind = code_of(action.value).strip("\"'") if action is not None else "store"
        if kind != "store" and kind not in _SWITCHES:
            return None
        spelling = _spelling(name, [str(one) for one in _flags(call)])
        if len(self.commands) == 1 and not self._more and self._is_given(spelling):
            return self._given(call, kind, spelling)
        held: object = _SWITCHES.get(kind)
        if default is not None:
            held = self.script.value(default.value).constant()
        return None if held is ... else self._set(name, Held(frozenset({held})), spelling)

    def _given(self, call: cst.Call, kind: str, spelling: Spelling) -> Held | None:
        """What the only command gives an option."""
        if kind in _SWITCHES:
            return Held(frozenset({not _SWITCHES[kind]}), chosen=True)
        (command,) = self.commands
        text, wanted = text_given(spelling, command), argument(call, "type")
        if text is None or argument(call, "nargs") is not None:
            return None
        held = Held(frozenset({text}), chosen=True)
        kinds = self.script.names(wanted.value) & _READING.keys() if wanted is not None else ()
        if wanted is None:
            return held
        return _converted(held, _READING[next(iter(kinds))]) if kinds else None

    def _is_given(self, spelling: Spelling) -> bool:
        return any(is_given(spelling, one) for one in self.commands)

    def _set(
        self, key: object, default: Held | None = None, spelling: Spelling | None = None
    ) -> Held | None:
        """A setting as the project's files have it, and its default, where no command gives it."""
        spelling = spelling or _spelling(str(key))
        if not self.unsaid or self._more or self._is_given(spelling):
            return None
        read = (values_of(one, self._settings) for one in spelling.names)
        found = frozenset[object]().union(*read)
        found |= default.values if default is not None else frozenset()
        unsaid = UNREAD in found or not (self.nothing or found.isdisjoint((None, "")))
        return Held(found, chosen=True) if found and not unsaid else None


def _constant(one: Value) -> Held | None:
    return None if one.constant() is ... else Held(frozenset({one.constant()}))


def _joined(parts: list[Held | None]) -> Held | None:
    """All that any of some values may be; None where one is not known, or there is none."""
    known = [one for one in parts if one is not None]
    if not known or len(known) < len(parts):
        return None
    values = frozenset[object]().union(*(one.values for one in known))
    return Held(values, any(one.chosen for one in known))


def _converted(held: Held, kind: Callable[..., object]) -> Held | None:
    try:
        return Held(frozenset(kind(one) for one in held.values), held.chosen)
    except (TypeError, ValueError):
        return None


def _flags(call: cst.Call) -> list[object]:
    """``"-n", "--number"`` of ``add_argument("-n", "--number", type=int)``."""
    return [
        one.value.evaluated_value
        for one in call.args
        if one.keyword is None and isinstance(one.value, cst.SimpleString)
    ]


def _attributes(call: cst.Call) -> set[str]:
    """The names that an option may be read by."""
    dest = argument(call, "dest")
    named = (
        [dest.value.evaluated_value] if dest and isinstance(dest.value, cst.SimpleString) else []
    )
    return {str(one).lstrip("-").replace("-", "_") for one in named or _flags(call)}


def _spelling(key: str, flags: Iterable[str] = ()) -> Spelling:
    names = frozenset({key, key.replace("_", "-")})
    return Spelling(frozenset({*flags, *(f"--{one}" for one in names)}), names)
