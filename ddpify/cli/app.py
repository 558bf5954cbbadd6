"""The command itself, to which each module beside this one adds its commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ddpify import __version__
from ddpify.cli.settings import use_settings


class _Group(TyperGroup):
    """Shows flags in the help as flags: they take no value, and ``<bool>`` would say that."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_values(command, ctx)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _without_values(self, ctx)
        super().format_help(ctx, formatter)


def _without_values(command: Any, ctx: Any) -> None:
    for parameter in command.get_params(ctx):
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["--help", "-h"],
        # torchrun and Accelerate take --nproc_per_node and --nproc-per-node alike.
        "token_normalize_func": lambda name: name.replace("_", "-"),
    },
    pretty_exceptions_enable=False,
    help="Take a PyTorch training script from one GPU to many, and show that it trains the same.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"ddpify {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take a PyTorch training script from one GPU to many, and show that it trains the same."""
    use_settings(context)
