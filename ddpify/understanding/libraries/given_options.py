"""What options of the command line are where the script's arguments are told.

An option that the arguments name has what they say, and another its default. Numbers that are
defaults stay unknown: they are sizes and rates, which hardly decide what a script does. So does
all that argparse reads in another way than by one option and one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ddpify.understanding.values import REPLICATED, Const, QualifiedName, Value, join, value

_FLAGS = {"store_true": (False, True), "store_false": (True, False)}  # left out, and given
_TYPES: dict[str, Callable[[str], object]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
}


def option(arguments: Sequence[str], names: Sequence[Value], told: Mapping[str, Value]) -> Value:
    """What ``add_argument(*names, **told)`` makes of the script's ``arguments``."""
    default = told.get("default")
    unknown = REPLICATED if default is None else join(REPLICATED, default)
    flags = [name for name in (one.constant() for one in names) if isinstance(name, str)]
    action = told["action"].constant() if "action" in told else "store"
    plain = len(flags) == len(names) and all(flag.startswith("-") for flag in flags)
    if not plain or "nargs" in told or not (action == "store" or action in _FLAGS):
        return unknown
    at = [place for place, one in enumerate(arguments) if _names(one, flags)]
    if not at:
        return _default(action, default, unknown)
    written, _, attached = arguments[at[-1]].partition("=")
    if len(at) > 1 or written not in flags:
        return unknown  # twice, or shortened
    if action in _FLAGS:
        return value(Const(_FLAGS[str(action)][1]))
    text = attached or (arguments[at[0] + 1] if at[0] + 1 < len(arguments) else "")
    return _read(text, told.get("type"), unknown)


def _names(argument: str, flags: Sequence[str]) -> bool:
    """Whether an argument is one of the flags, ``--flag=x``, a shortened one, or ``-fx``."""
    written = argument.partition("=")[0]
    long = written.startswith("--") and any(flag.startswith(written) for flag in flags)
    short = (flag for flag in flags if len(flag) == 2)
    joined = not written.startswith("--") and any(written.startswith(flag) for flag in short)
    return written in flags or (long and len(written) > 2) or joined


def _default(action: object, default: Value | None, unknown: Value) -> Value:
    if default is None:
        return value(Const(_FLAGS[str(action)][0] if action in _FLAGS else None))
    known = default.constant()
    return default if known is None or isinstance(known, (bool, str)) else unknown


def _read(text: str, kind: Value | None, unknown: Value) -> Value:
    """A value as argparse reads it by its ``type``."""
    atoms = kind.atoms if kind is not None else (QualifiedName("builtins.str"),)
    names = [atom.name for atom in atoms if isinstance(atom, QualifiedName)]
    reader = _TYPES.get(names[0]) if len(names) == len(atoms) == 1 else None
    try:
        return value(Const(reader(text))) if reader is not None else unknown
    except ValueError:
        return unknown
