"""``[tool.ddpify.launch]`` of pyproject.toml, as defaults of ``launch`` and ``run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ddpify.errors import DdpifyError, ExitCode

COMMANDS = ("launch", "run")


def from_command_line(context: typer.Context) -> Iterator[str]:
    """The options that were given on the command line, not in a file, as they are written."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name.replace("_", "-")


def use_settings(context: typer.Context) -> None:
    """Let the command that follows take its defaults from the nearest pyproject.toml.

    A key is an option's name without dashes before it; ``launch`` and ``run`` take those that they
    have.

    Raises:
        DdpifyError: With exit code 2: neither command has an option of that name.
    """
    if context.invoked_subcommand not in COMMANDS:
        return
    path, table = _nearest(Path.cwd())
    names = {name: _options(context, name) for name in COMMANDS}
    known = sorted(set().union(*names.values()))
    for key in table:
        if key not in known:
            raise DdpifyError(
                f"unknown key {key!r} in [tool.ddpify.launch]",
                path=path,
                remedy=f"known keys are {', '.join(known)}",
                exit_code=ExitCode.USAGE,
            )
    context.default_map = {
        name: dict(options[key].default(value) for key, value in table.items() if key in options)
        for name, options in names.items()
    }


@dataclass(frozen=True)
class _Option:
    """An option's parameter, and whether it may be repeated."""

    name: str
    repeated: bool

    def default(self, value: Any) -> tuple[str, Any]:
        """The parameter and its value; a list stands for words with commas, as in ``hosts``."""
        joined = isinstance(value, list) and not self.repeated
        return self.name, ",".join(map(str, value)) if joined else value


def _options(context: typer.Context, command: str) -> dict[str, _Option]:
    """The parameter that each long option of a command sets."""
    group: Any = context.command
    return {
        flag.removeprefix("--"): _Option(parameter.name, getattr(parameter, "multiple", False))
        for parameter in group.commands[command].params
        for flag in parameter.opts
        if flag.startswith("--")
    }


def _nearest(start: Path) -> tuple[Path | None, dict[str, Any]]:
    """The settings of the nearest pyproject.toml that has any for launching."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
            raise DdpifyError(
                f"cannot read this file: {failure}", path=path, exit_code=ExitCode.USAGE
            ) from failure
        found = table.get("tool", {}).get("ddpify", {}).get("launch")
        if isinstance(found, dict):
            return path, found
    return None, {}
