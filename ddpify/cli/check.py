"""``ddpify check``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ddpify.cli.app import app


@app.command()
def check(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The training script for torchrun.")],
    nproc: Annotated[int, typer.Option(help="Number of processes.")] = 2,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Stop the script after so many optimizer steps."),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that the run may take.")] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a torchrun script on the CPU, and report what its ranks do wrong against each other.

    Arguments after -- go to the script.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from ddpify.checking import as_json, render
    from ddpify.checking import check as run_check

    report = run_check(
        script,
        nproc=nproc,
        steps=steps,
        script_args=context.obj or (),
        timeout=timeout,
        echo=lambda line: print(line, file=sys.stderr),
    )
    print(as_json(report) if json_output else render(report))
    raise typer.Exit(report.exit_code)
