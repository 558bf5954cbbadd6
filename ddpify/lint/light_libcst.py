"""Makes LibCST cheaper in a process that only lints: to import, and to make nodes with.

Importing LibCST defines two hundred frozen dataclasses, and most of that time goes into guards
against changes, representations that are replaced at once, and constructors of which a script needs
a third. Each node that the parser makes is guarded and validated anew, though it stands for code
that has just been parsed. A linter changes no node and writes no code from nodes, so that its own
process can do without. It needs none of LibCST's metadata providers either.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_NODES = "libcst._nodes."
_METADATA = "libcst.metadata"


def install() -> None:
    """Let LibCST, where it is not imported yet, be imported so."""
    if "libcst" not in sys.modules:
        dataclasses.dataclass = _light(dataclasses.dataclass)
        _postpone_metadata()


def _light(dataclass: Callable[..., Any]) -> Any:
    """The decorator, with less to do for nodes and the same for all other classes."""

    def decorator(made: type | None = None, /, **options: Any) -> Any:
        if made is None:
            return lambda cls: decorator(cls, **options)
        if made.__module__.startswith(_NODES):
            options |= {"frozen": False, "repr": False, "eq": False, "init": False}
            if "__post_init__" in vars(made):  # it does nothing but validate
                del made.__post_init__  # type: ignore[attr-defined]
            if "__init__" not in vars(made):
                made.__init__ = _first_init  # type: ignore[misc]
        return dataclass(made, **options)

    return decorator


def _first_init(self: Any, *given: object, **named: object) -> None:
    """The constructor of a class of nodes of which there is none yet: it makes the real one.

    Of that class: a class derived from it, which calls this, keeps its own.
    """
    kind: Any = next(one for one in type(self).__mro__ if vars(one).get("__init__") is _first_init)
    kind.__init__ = _init_of(kind)
    kind.__init__(self, *given, **named)


def _init_of(kind: type) -> Any:
    """What a dataclass would be made with: parameters for its fields, and their defaults."""
    missing = dataclasses.MISSING
    held: dict[str, Any] = {"missing": missing}
    parameters, body = ["self"], []
    for field in dataclasses.fields(kind):
        name = field.name
        value = name
        if field.default is not missing:
            held[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        elif field.default_factory is not missing:
            held[f"make_{name}"] = field.default_factory
            parameters.append(f"{name}=missing")
            value = f"make_{name}() if {name} is missing else {name}"
        else:
            parameters.append(name)
        body.append(f" self.{name} = {value}")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *body, " return"]), held)
    return held["__init__"]


def _postpone_metadata() -> None:
    """Let the package of the providers run no code before something asks it for a name."""
    found = find_spec("libcst")
    for root in found.submodule_search_locations or () if found is not None else ():
        folder = Path(root, "metadata")
        spec = spec_from_file_location(
            _METADATA, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is not None and spec.loader is not None:
            sys.modules[_METADATA] = package = module_from_spec(spec)
            package.__getattr__ = _Postponed(package, spec.loader)  # type: ignore[method-assign]
            return


class _Postponed:
    """What a package is asked for names with: at the first one, it runs the package's code."""

    def __init__(self, package: Any, loader: Any) -> None:
        self.package, self.loader = package, loader

    def __call__(self, name: str) -> object:
        vars(self.package).pop("__getattr__", None)
        self.loader.exec_module(self.package)
        return getattr(self.package, name)
