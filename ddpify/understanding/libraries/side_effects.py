"""What a script does to the world outside: devices, files, folders, downloads, logs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.libraries.actions import (
    ACCELERATORS,
    COMMANDS,
    CONTAINERS,
    DOWNLOADS,
    FETCHED,
    FILLED,
    FOLDERS,
    GIVE_TEXT,
    LOGFILES,
    LOGGING,
    OPENERS,
    PATH_METHODS,
    SAVED_BY_METHODS,
    SAVES,
    WRITERS,
    WRITES,
    WRITING_METHODS,
)
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.libraries.path_objects import PATH
from ddpify.understanding.libraries.system_commands import ASKING, TYPED, only_tells
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Device,
    Function,
    Instance,
    Method,
    Number,
    QualifiedName,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.facts import Facts
    from ddpify.understanding.run_state import RunState

Keywords = dict[str, Value]


# ---------------------------------------------------------------------- devices
VISIBLE = "CUDA_VISIBLE_DEVICES"


def environment_key(facts: Facts, target: cst.BaseExpression) -> str | None:
    """The variable that ``os.environ[...]`` names as a target; None for another target."""
    if not isinstance(target, cst.Subscript) or not isinstance(
        part := target.slice[0].slice, cst.Index
    ):
        return None
    owner = facts.values.get(target.value, UNKNOWN)
    if not any(
        isinstance(atom, QualifiedName) and atom.name == "os.environ" for atom in owner.atoms
    ):
        return None
    held = facts.values.get(part.value, UNKNOWN).constant()
    if held is ... and isinstance(part.value, cst.SimpleString):
        held = part.value.evaluated_value
    return held if isinstance(held, str) else None


def devices(given: Value, rest: list[Value]) -> list[Atom]:
    """The devices that ``torch.device(given)`` makes."""
    made: list[Atom] = []
    texts = dict.fromkeys(a.value for a in given.atoms if isinstance(a, Const))
    conditional = len(texts) > 1 or not all(isinstance(a, Const) for a in given.atoms)
    for text in texts:
        made.append(_device(text, rest, conditional))
    return made or [Number()]


def _device(text: object, rest: list[Value], conditional: bool) -> Atom:
    if isinstance(text, int):
        return Device(True, text, conditional)
    if not isinstance(text, str):
        return Number()
    kind, _, index = text.partition(":")
    position = rest[0].constant() if rest else ...
    number = int(index) if index.isdigit() else position if isinstance(position, int) else None
    return Device(kind in ACCELERATORS, number, conditional)


def moved(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> None:
    """Note a ``.to(...)`` or ``.cuda(...)`` and the device that it names."""
    target = args[0] if args else kwargs.get("device", UNKNOWN)
    run.facts.device_moves[node] = (run.site(node), target)


# ---------------------------------------------------------------------- effects
def acts(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> None:
    """Note what a library call does to files, folders and the network."""
    if not _may_act(name) and "download" not in kwargs:
        return  # whatever it gets
    if name in SAVES:
        if not _into_memory(args, kwargs):
            run.effect("save", node, name)
        saved(run, node, args)
    elif _into_memory(args, kwargs):
        return
    elif name in FOLDERS:
        run.effect("folder", node, name)
    elif name in GIVE_TEXT and not _has_stream(args, kwargs):
        return
    elif name in WRITES or name in FILLED or _opens(name, args, kwargs):
        run.effect("write", node, name)
        for shown, one in argument_pairs(node, args, kwargs):
            run.demand_held(shown, one, uses.A_FILE)
    elif name in COMMANDS and run.module.is_unused(node):
        run.effect("write", node, name)  # whatever the command does: nobody asks for its result
    elif name in TYPED or ((name in COMMANDS or name in ASKING) and not only_tells(node)):
        run.effect("command", node, name)
    elif name.startswith(LOGGING) and run.module.is_unused(node):
        run.effect("log", node, name)
    elif name in WRITERS:
        run.effect("writer", node, name)
    elif name in DOWNLOADS or name.startswith(FETCHED) or _may_download(kwargs):
        run.effect("download", node, name)
    elif name in LOGFILES or _adds_logfile(name, args, kwargs):
        run.effect("logfile", node, name)


_MAY_OPEN = ("numpy.memmap", *OPENERS, *CONTAINERS)
_MAY_LOG = ("logging.basicConfig", "loguru.logger.add", *LOGFILES)


@cache
def _may_act(name: str) -> bool:
    """Whether a function of this name does anything to the outside, as its arguments say."""
    plain = (SAVES, FOLDERS, WRITES, FILLED, COMMANDS, ASKING, TYPED, WRITERS, DOWNLOADS)
    named = (*plain, _MAY_OPEN, _MAY_LOG)
    return name.startswith((*LOGGING, *FETCHED)) or any(name in names for names in named)


def _has_stream(args: list[Value], kwargs: Keywords) -> bool:
    """Whether a call gets a stream to write into: ``yaml.dump(x)`` gives the text instead."""
    stream = args[1] if len(args) > 1 else kwargs.get("stream")
    return stream is not None and stream.constant() is not None


def _opens(name: str, args: list[Value], kwargs: Keywords) -> bool:
    """Whether a call opens a file to write into it."""
    if name == "numpy.memmap":
        return _for_writing([UNKNOWN, *args[2:]], kwargs)
    return (name in OPENERS or name in CONTAINERS) and _for_writing(args, kwargs)


def _adds_logfile(name: str, args: list[Value], kwargs: Keywords) -> bool:
    """Whether a call gives a logger a file, and no stream or function that takes what it logs."""
    if name == "logging.basicConfig":
        return "filename" in kwargs
    held = args[0].atoms if name == "loguru.logger.add" and args else ()
    return bool(held) and not any(
        isinstance(a, (QualifiedName, Function, Bound, Instance)) for a in held
    )


def _into_memory(args: list[Value], kwargs: Keywords) -> bool:
    """Whether a call gets a file that is no file: each rank has its own."""
    given = (atom for one in (*args, *kwargs.values()) for atom in one.atoms)
    files = ("io.BytesIO", "io.StringIO")
    return any(isinstance(atom, Instance) and atom.type in files for atom in given)


def saved(run: RunState, node: cst.BaseExpression, args: list[Value]) -> None:
    """What goes into a file is read: it must be global, and so must what a dictionary holds."""
    if not isinstance(node, cst.Call) or not node.args or not args:
        return
    shown = node.args[0].value
    run.demand_all(shown, args[0], uses.A_FILE)
    for held in args[0].of(Instance):
        for atom in deep_atoms(value(held)):
            if isinstance(atom, Data) and atom.placement.local and atom.definition_sites:
                run.demand(shown, value(atom), uses.A_FILE)


def _saves_itself(target: Instance, name: str) -> bool:
    """Whether an object's method writes it into a file: a picture, a sheet, a compiled model."""
    if name == "write":
        return target.kind.startswith("xml.etree.")
    known = target.kind.startswith(SAVED_BY_METHODS) or target.kind.endswith(".to_pil_image")
    return name == "save" and (known or is_model(target))


def acts_method(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    name: str,
    args: list[Value],
    kwargs: Keywords,
) -> None:
    """Note what a library object's method does to files and folders."""
    if _into_memory(args, kwargs):
        return
    if name in WRITING_METHODS or (
        name == "open" and target.type == PATH and _for_writing([UNKNOWN, *args], kwargs)
    ):
        run.effect("write", node, name)
    elif name == "mkdir" and target.type == PATH:
        run.effect("folder", node, name)
    elif _saves_itself(target, name) or (name in PATH_METHODS and target.type == PATH):
        run.effect("write", node, name)


def acts_unseen(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> None:
    """A method that writes a file, of what no library object is known: ``df.loc[mask].to_csv()``.

    Where its result is used, it gives the text instead.
    """
    writes = name in WRITING_METHODS and run.module.is_unused(node)
    if writes and not _into_memory(args, kwargs):
        run.effect("write", node, name)


def acts_array(run: RunState, node: cst.BaseExpression, method: Method) -> None:
    """``array.tofile(path)`` writes what the array holds."""
    if method.name != "tofile" or not isinstance(node, cst.Call):
        return
    run.effect("write", node, method.name)
    if isinstance(node.func, cst.Attribute):
        run.demand_held(node.func.value, method.receiver, uses.A_FILE)


def downloads(run: RunState, node: cst.BaseExpression, made: Instance, kwargs: Keywords) -> None:
    """A project data set that may be told to download."""
    if _may_download(kwargs) and isinstance(made.type, Class):
        run.effect("download", node, made.type.node.name.value)


def downloads_unseen(run: RunState, node: cst.BaseExpression, kwargs: Keywords) -> None:
    """A data set that may be told to download, of a class that the script chooses as it runs."""
    if _may_download(kwargs):
        run.effect("download", node, "download")


def _may_download(kwargs: Keywords) -> bool:
    """Whether a call is told to download, or may be: ``download=args.download``."""
    return "download" in kwargs and kwargs["download"].constant() not in (False, None)


def _for_writing(args: list[Value], kwargs: Keywords) -> bool:
    mode = args[1] if len(args) > 1 else kwargs.get("mode", UNKNOWN)
    text = mode.constant()
    return isinstance(text, str) and bool(set(text) & set("wax+"))


def number_or_name(given: Value) -> bool:
    """Whether a value is a literal that names an accelerator."""
    constants = [a.value for a in given.atoms if isinstance(a, Const)]
    return any(
        (isinstance(c, int) and not isinstance(c, bool))
        or (isinstance(c, str) and c.split(":")[0] in ACCELERATORS)
        for c in constants
    )
