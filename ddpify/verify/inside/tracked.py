"""Python numbers that remember what they were computed from.

They are floats and integers in every respect: same values, same text, same bytes when pickled. What
arithmetic makes of them remembers, too.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ddpify.verify.inside.origins import Origins, merged
from ddpify.verify.inside.patching import replace

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs")
_COMPARING = ("lt", "le", "gt", "ge")
_REDUCTIONS = ("mean", "sum", "average", "median", "max", "min", "exp", "log", "sqrt", "round")
"""NumPy's functions of lists of numbers, or of one."""


class Watch:
    """What is told of tracked numbers: their texts, and comparisons between them."""

    text: Callable[[str, Origins], None] = staticmethod(lambda text, origins: None)
    decision: Callable[[bool, Origins, Any], None] = staticmethod(lambda result, origins, f: None)


class TrackedFloat(float):
    """A float with its origins."""

    ddpify_origins: Origins = ()

    def __reduce__(self) -> Any:
        return float, (float(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __round__(self, digits: Any = None) -> Any:
        return tracked(float.__round__(self, digits), self.ddpify_origins)

    def __int__(self) -> int:
        return float.__int__(self)


class TrackedInt(int):
    """An integer with its origins."""

    ddpify_origins: Origins = ()

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def plain(value: Any) -> Any:
    """``value`` as an ordinary number; in lists and dictionaries, too, which are copied if so."""
    if isinstance(value, TrackedFloat):
        return float(value)
    if isinstance(value, TrackedInt):
        return int(value)
    if hasattr(type(value), "ddpify_origins"):  # NumPy's
        return type(value).__mro__[1](value)
    if type(value) in (list, tuple):
        items = [plain(item) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if type(value) is dict:
        found = {key: plain(item) for key, item in value.items()}
        return value if all(found[key] is value[key] for key in value) else found
    return value


def numbers(value: Any) -> Origins:
    """The origins of the numbers in lists and dictionaries; tensors do not count."""
    if isinstance(value, dict):
        return merged(map(numbers, value.values()))
    if isinstance(value, (list, tuple)):
        return merged(map(numbers, value))
    return _origins(value)


def tracked(value: Any, origins: Origins) -> Any:
    """``value`` with ``origins`` if it is a float or an integer and there are any."""
    kind = _KINDS.get(type(value)) if origins else None
    if kind is None:
        return value
    result = kind(value)
    result.ddpify_origins = origins
    return result


_KINDS: dict[type, Any] = {float: TrackedFloat, int: TrackedInt}
"""The class that stands for each class of numbers; NumPy's is added where it is loaded."""


def install() -> None:
    """Give the classes their operators, and follow numbers through ``sum``, ``math`` and NumPy."""
    if "numpy" in sys.modules:
        _numpy(sys.modules["numpy"])
    for kind in _KINDS.values():
        base: Any = kind.__mro__[1]
        for name in _BINARY:
            _binary(kind, base, f"__{name}__")
            _binary(kind, base, f"__r{name}__")
        for name in _UNARY:
            _unary(kind, base, f"__{name}__")
        for name in _COMPARING:
            _comparing(kind, base, f"__{name}__")
        for name in ("__format__", "__str__", "__repr__"):
            _text(kind, base, name)
    importlib.import_module("torch._dynamo")  # it compares the signature of the real sum
    _sum()
    for name in ("exp", "log", "log2", "log10", "sqrt", "pow"):
        _function(math, name)
    for name in ("mean", "fmean", "median"):
        _function(statistics, name)


def _numpy(numpy: Any) -> None:
    """Follow lists of numbers through NumPy's reductions, and what these make."""

    class TrackedFloat64(numpy.float64):  # type: ignore[misc]
        """NumPy's float with its origins."""

        ddpify_origins: Origins = ()

        def __round__(self, digits: Any = None) -> Any:
            return tracked(numpy.float64.__round__(self, digits), self.ddpify_origins)

        def __reduce__(self) -> Any:
            return numpy.float64(self).__reduce__()

        def __reduce_ex__(self, protocol: Any) -> Any:
            return self.__reduce__()

    _KINDS[numpy.float64] = TrackedFloat64
    for name in _REDUCTIONS:
        _function(numpy, name)


def _origins(value: Any) -> Origins:
    found: Origins = getattr(value, "ddpify_origins", ())
    return found


def _binary(kind: Any, base: Any, name: str) -> None:
    real = getattr(base, name)

    def operator(self: Any, other: Any, *rest: Any) -> Any:
        result = real(self, other, *rest)
        if result is NotImplemented:
            return result
        return tracked(result, merged([_origins(self), _origins(other)]))

    setattr(kind, name, operator)


def _unary(kind: Any, base: Any, name: str) -> None:
    real = getattr(base, name)
    setattr(kind, name, lambda self: tracked(real(self), _origins(self)))


def _comparing(kind: Any, base: Any, name: str) -> None:
    real = getattr(base, name)

    def compare(self: Any, other: Any) -> Any:
        result = real(self, other)
        if result is not NotImplemented and not getattr(result, "ndim", 0):
            origins = merged([_origins(self), _origins(other)])
            Watch.decision(bool(result), origins, sys._getframe(1))
        return result

    setattr(kind, name, compare)


def _text(kind: Any, base: Any, name: str) -> None:
    real = getattr(base, name)

    def text(self: Any, *args: Any) -> str:
        result: str = real(self, *args)
        Watch.text(result, _origins(self))
        return result

    setattr(kind, name, text)


def _sum() -> None:
    real = builtins.sum

    def total(items: Iterable[Any], /, start: Any = 0) -> Any:
        known = items if isinstance(items, (list, tuple)) else list(items)
        origins = merged(map(_origins, known))
        if not origins:
            return real(known, start)
        return tracked(real([plain(item) for item in known], plain(start)), origins)

    replace(builtins, "sum", total)


def _function(owner: Any, name: str) -> None:
    real = getattr(owner, name)

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        origins = numbers(args)
        if not origins:
            return real(*args, **kwargs)
        return tracked(real(*map(plain, args), **kwargs), origins)

    replace(owner, name, call)
