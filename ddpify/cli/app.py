"""The command itself, to which each module beside this one adds its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpify import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Take a PyTorch training script from one GPU to many, and show that it trains the same.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"ddpify {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take a PyTorch training script from one GPU to many, and show that it trains the same."""
