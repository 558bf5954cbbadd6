"""``ddpify check``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ddpify.cli.app import app
from ddpify.cli.signals import exit_on_signals
from ddpify.errors import DdpifyError, ExitCode

if TYPE_CHECKING:
    from ddpify.checking import Report


@app.command()
def check(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The training script for torchrun.")],
    nproc: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 2,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Stop the script after so many optimizer steps."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that the run may take.")] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    sarif: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write the findings as SARIF there."),
    ] = None,
    page: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--report", help="Write a page about it, one HTML file, there."),
    ] = None,
    light: Annotated[
        bool, typer.Option("--light", help="Under torchrun: fingerprints and collectives alone.")
    ] = False,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Under torchrun: train on after --steps.")
    ] = False,
) -> None:
    """Run a torchrun script, and report what its ranks do wrong against each other.

    On the CPU, in a copy of the folder; or, started by torchrun itself (torchrun ... -m ddpify
    check), on the real devices with the real data. Arguments after -- go to the script.
    """
    for path in (sarif, page):
        if path is not None and not path.parent.is_dir():
            raise DdpifyError("its folder does not exist", path=path, exit_code=ExitCode.USAGE)
    from ddpify.checking import check as run_check
    from ddpify.checking import under_torchrun

    def show(report: Report) -> None:
        _show(report, sarif, page, json_output=json_output)

    if under_torchrun.launched():
        args = tuple(context.obj or ())
        code = under_torchrun.run(script, args, steps=steps, go_on=go_on, light=light, show=show)
        raise typer.Exit(code)
    if light or go_on:
        raise DdpifyError(
            "--light and --go-on are for jobs that torchrun starts",
            remedy="torchrun --nproc_per_node=N -m ddpify check ... --light",
            exit_code=ExitCode.USAGE,
        )
    with exit_on_signals():
        report = run_check(
            script,
            nproc=nproc,
            steps=steps,
            script_args=context.obj or (),
            timeout=timeout,
            echo=lambda line: print(line, file=sys.stderr),
        )
    show(report)
    raise typer.Exit(report.exit_code)


def _show(report: Report, sarif: Path | None, page: Path | None, *, json_output: bool) -> None:
    from ddpify.checking import as_html, as_json, as_sarif, render
    from ddpify.source import write_atomically

    if sarif is not None:
        write_atomically(sarif, as_sarif(report).encode())
    if page is not None:
        write_atomically(page, as_html(report).encode())
    print(as_json(report) if json_output else render(report), flush=True)
