"""``ddpify doctor``, ``env``, ``profile`` and ``plan``: what training on many devices meets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ddpify.cli.app import app
from ddpify.cli.counts import counts


@app.command()
def doctor(
    nproc: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Ranks to start for the test; default: one a GPU, or 2."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds that ranks wait for each other to start.")
    ] = 60.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print Markdown for a bug report, with versions.")
    ] = False,
) -> None:
    """Examine this environment, and let ranks exchange data; also under torchrun.

    Exit codes: 0 nothing found, 1 findings, 2 wrong usage.
    """
    from ddpify.doctor.command import as_json, as_text, examine, exit_code
    from ddpify.doctor.report import doctor_report

    findings = examine(nproc, wait)
    if findings is not None:
        text = as_json(findings) if json_output else as_text(findings)
        print(doctor_report(findings, text) if report else text, flush=True)
        raise typer.Exit(exit_code(findings))


@app.command()
def env() -> None:
    """Print versions, limits, and variables of launchers and backends, for a bug report."""
    from ddpify.doctor.report import environment_report

    print(environment_report())


@app.command()
def profile(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The distributed script.")],
    nproc: Annotated[
        str, typer.Option(metavar="N,N", help="Numbers of processes, as in 1,2,4.")
    ] = "1,2",
    steps: Annotated[int, typer.Option(min=2, help="Optimizer steps to measure.")] = 50,
    warm_up: Annotated[int, typer.Option(min=0, help="Steps before them.")] = 10,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one run may take.")] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write a page with the plots, one HTML file, there."),
    ] = None,
    weak: Annotated[
        str,
        typer.Option(
            metavar="OPTION",
            help="Weak scaling: multiply this option of the script (--batch-size) by the ranks.",
        ),
    ] = "",
    trace: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FOLDER", help="Also trace 5 steps of each rank, for ui.perfetto.dev."
        ),
    ] = None,
) -> None:
    """Measure how a script scales: steps per second, waiting, memory; with advice.

    The script runs in a copy of its folder, and ends after the measured steps. Arguments after --
    go to it.
    """
    from ddpify.profiling.command import profile as run_profile
    from ddpify.profiling.page import as_html
    from ddpify.profiling.report import as_json, as_text
    from ddpify.profiling.runs import Request
    from ddpify.source import write_atomically

    request = Request(script, context.obj or (), steps, warm_up, timeout, trace, weak)
    found = run_profile(request, counts(nproc), lambda line: print(line, file=sys.stderr))
    if report is not None:
        write_atomically(report, as_html(found).encode())
    print(as_json(found) if json_output else as_text(found))


@app.command()
def plan(
    context: typer.Context,
    script: Annotated[
        Path, typer.Argument(help="The training script, converted or not; it is run.")
    ],
    memory: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(min=0.0001, help="GiB of a GPU. Default: of this machine's."),
    ] = None,
    mixed_precision: Annotated[
        Optional[Literal["bfloat16", "float16"]],  # noqa: UP045
        typer.Option(help="Measure activations under autocast to it; FSDP gathers in it."),
    ] = None,
    offload: Annotated[
        bool,
        typer.Option("--offload", help="Also say what FSDP needs where parts lie on the host."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that the script may take to its first backward.")
    ] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how much memory a GPU needs under DDP and FSDP, and which batch fits, for 1 to 512.

    Runs the script as one process up to its first backward, and again without memory, to try other
    batches. Arguments after -- go to the script.
    """
    from ddpify.sizing.measuring import measure
    from ddpify.sizing.table import as_json, plan_of, render

    precision = mixed_precision or "float32"
    found = measure(script, context.obj or (), timeout, precision)
    given = round(memory * 2**30) if memory else None
    try:
        planned = plan_of(script, found, given, precision, offload=offload)
    finally:
        found.close()
    print(as_json(planned) if json_output else render(planned))
