"""``ddpify convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ddpify.cli.app import app
from ddpify.errors import DdpifyError, ExitCode

if TYPE_CHECKING:
    from ddpify.planning.options import Options


@app.command()
def convert(
    script: Annotated[
        Path,
        typer.Argument(
            help="The training script, a project's folder, or a launch file; - is standard input."
        ),
    ],
    output: Annotated[
        Optional[Path],  # noqa: UP045 - typer resolves this at run time on 3.10
        typer.Option("-o", "--output", help="Where to write it; - is standard output."),
    ] = None,
    entry: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="The script in the folder that starts the training; may be repeated."),
    ] = None,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place", help="Write over the script itself, or over a project that is in git."
        ),
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the diff.")] = False,
    vendor: Annotated[
        bool,
        typer.Option("--vendor", help="Write the runtime helper beside the output as one file."),
    ] = False,
    sampler: Annotated[
        str,
        typer.Option(
            help="'exact': the script's own order, split; 'distributed': DistributedSampler."
        ),
    ] = "exact",
    sync_batchnorm: Annotated[
        bool,
        typer.Option(
            "--sync-bn/--no-sync-bn",
            "--sync-batchnorm/--no-sync-batchnorm",
            help="Synchronise BatchNorm statistics among the ranks.",
        ),
    ] = True,
    batch: Annotated[
        str,
        typer.Option(help="Whose the script's batch size is: 'global', or 'per-rank' for each."),
    ] = "global",
    scale_lr: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="With --batch per-rank: scale learning rates, 'linear' or 'sqrt'."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Convert what can be converted, mark the rest with comments, and exit with 1.",
        ),
    ] = False,
    strategy: Annotated[
        str,
        typer.Option(
            help="'ddp': the model whole on every rank; 'fsdp': sharded; 'auto': by what fits."
        ),
    ] = "ddp",
    mixed_precision: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="With fsdp, run the model in bfloat16 or float16."),
    ] = None,
    activation_checkpointing: Annotated[
        bool, typer.Option(help="Compute the activations of blocks again in backward.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Take snapshots, from which a restarted training goes on."),
    ] = False,
    snapshot_steps: Annotated[
        int,
        typer.Option(min=0, help="With --resume: steps between snapshots. Default: 10 minutes."),
    ] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output file that is there already.")
    ] = False,
    copy_all: Annotated[
        bool,
        typer.Option("--copy-all", help="Of a folder, also copy large files and folders of data."),
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only errors.")] = False,
) -> None:
    """Rewrite a single-GPU training script, or a project, into one for torchrun.

    A shell script that starts torch.distributed.launch is rewritten into one that starts torchrun.
    """
    from ddpify.convert import Options
    from ddpify.convert.command import Request, run

    request = Request(
        script=script,
        output=output,
        entries=tuple(entry or ()),
        in_place=in_place,
        diff=diff,
        overwrite=overwrite,
        copy_all=copy_all,
        quiet=quiet,
    )
    options = Options(
        sampler=sampler,
        batch=batch,
        scale_lr=scale_lr or "",
        sync_batchnorm=sync_batchnorm,
        force=force,
        vendored=vendor,
        strategy=strategy,
        mixed_precision=mixed_precision,
        activation_checkpointing=activation_checkpointing,
        resume=resume,
        snapshot_steps=snapshot_steps,
    )
    _check(options)
    raise typer.Exit(run(request, options))


def _check(options: Options) -> None:
    """A usage error for words that are no choices, and for options that exclude each other."""
    _check_choice("sampler", options.sampler, "exact", "distributed")
    _check_choice("strategy", options.strategy, "ddp", "fsdp", "auto")
    if options.mixed_precision is not None:
        _check_choice("dtype", options.mixed_precision, "bfloat16", "float16")
        _check_choice("strategy for mixed precision", options.strategy, "fsdp")
    _check_choice("batch", options.batch, "global", "per-rank")
    if options.scale_lr:
        _check_choice("rule", options.scale_lr, "linear", "sqrt")
        if options.batch != "per-rank":
            raise DdpifyError(
                "--scale-lr is for global batches that grow with the number of ranks",
                remedy="add --batch per-rank, or leave it out",
                exit_code=ExitCode.USAGE,
            )


def _check_choice(what: str, given: str, *choices: str) -> None:
    """A usage error for anything but one of a few words."""
    if given not in choices:
        remedy = f"use {' or '.join(choices)}"
        raise DdpifyError(f"unknown {what} {given!r}", remedy=remedy, exit_code=ExitCode.USAGE)
