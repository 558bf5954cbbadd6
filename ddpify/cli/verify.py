"""``ddpify verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ddpify.cli.app import app
from ddpify.cli.counts import counts
from ddpify.cli.signals import exit_on_signals
from ddpify.errors import DdpifyError, ExitCode


@app.command()
def verify(
    context: typer.Context,
    original: Annotated[Path, typer.Argument(help="The single-GPU training script.")],
    converted: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="Its torchrun version; converted on the fly when left out."),
    ] = None,
    nproc: Annotated[
        str, typer.Option(metavar="N,N", help="Numbers of processes to try, as in 2,3.")
    ] = "2",
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, help="Compare only so many optimizer steps, and stop the runs after them."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one run may take.")] = 600.0,
    allow: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="order|batch-size|padding|batchnorm",
            help="A cause to accept; may be repeated.",
        ),
    ] = None,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="cuda: on this machine's GPUs, one for each process."),
    ] = "cpu",
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write a page about it, one HTML file, there."),
    ] = None,
) -> None:
    """Run the original and its torchrun version, and compare them step by step.

    Arguments after -- go to the script.
    """
    if report is not None and not report.parent.is_dir():
        raise DdpifyError("its folder does not exist", path=report, exit_code=ExitCode.USAGE)
    from ddpify.convert import convert_file
    from ddpify.source import write_atomically
    from ddpify.verify import as_html, as_json, render
    from ddpify.verify import verify as run_verify

    with exit_on_signals():
        verdict = run_verify(
            original,
            converted,
            nproc=counts(nproc),
            steps=steps,
            script_args=context.obj or (),
            timeout=timeout,
            convert=lambda script, output: write_atomically(output, convert_file(script).data),
            echo=lambda line: print(line, file=sys.stderr),
            allow=[name for names in allow or () for name in names.split(",")],
            detail=report is not None,
            device=device,
        )
    if report is not None:
        write_atomically(report, as_html(verdict).encode())
    print(as_json(verdict) if json_output else render(verdict).rstrip())
    raise typer.Exit(verdict.exit_code)
