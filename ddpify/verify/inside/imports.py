"""Where the script imports from: the copies of the user's folders, in place of the folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ddpify.verify.launch.python_path import Leads, is_project, led


def lead(leads: Leads) -> None:
    """Lead Python's path, this process's and its children's, to the copies."""
    # A worker's path begins with the working folder, a script's with the script's.
    entries = [entry for entry in sys.path if entry]
    sys.path[:] = [there for entry in entries for there in led(entry, leads)]
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if named:
        moved = [there for entry in named for there in led(entry, leads)]
        os.environ["PYTHONPATH"] = os.pathsep.join(moved)
    _lead_installed(leads)


def _lead_installed(leads: Leads) -> None:
    """The same for projects that setuptools installed as they lie, with a finder of their own."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("__editable__"):
            continue
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            for package, place in mapping.items():
                folder, file = os.path.split(place)
                mapping[package] = os.path.join(next(led(folder, leads)), file)


class Outside:
    """Modules that are imported from elsewhere than the sandbox, the interpreter and its packages.

    Made before the script begins: what is loaded then is not its own.
    """

    def __init__(self, sandbox: str) -> None:
        self._sandbox = Path(sandbox)
        self._before = frozenset(sys.modules)

    def found(self) -> dict[str, str]:
        """Each module or package with its folder."""
        outside: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name in self._before or not isinstance(file, str) or "." in name:
                continue
            path = Path(file).resolve()
            folder = path.parent.parent if path.stem == "__init__" else path.parent
            if self._sandbox not in path.parents and is_project(folder):
                outside[name] = str(folder)
        return outside
