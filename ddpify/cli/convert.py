"""``ddpify convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from ddpify.cli.app import app
from ddpify.errors import DdpifyError, ExitCode

if TYPE_CHECKING:
    from ddpify.planning.conversion_options import Options

_TRAINING, _LARGE = "How samples and steps are shared", "Models that do not fit on one GPU"
_RESUME = "Restarts"


@app.command()
def convert(
    context: typer.Context,
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
        typer.Option(
            metavar="PATH",
            help="The script in the folder that starts the training; may be repeated.",
        ),
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
        Literal["exact", "distributed"],
        typer.Option(
            help="exact: the script's own order, split; distributed: DistributedSampler.",
            rich_help_panel=_TRAINING,
        ),
    ] = "exact",
    sync_batchnorm: Annotated[
        bool,
        typer.Option(
            "--sync-bn/--no-sync-bn",
            "--sync-batchnorm/--no-sync-batchnorm",
            help="Synchronise BatchNorm statistics among the ranks.",
            rich_help_panel=_TRAINING,
        ),
    ] = True,
    batch: Annotated[
        Literal["global", "per-rank"],
        typer.Option(help="Whose the script's batch size is.", rich_help_panel=_TRAINING),
    ] = "global",
    scale_lr: Annotated[
        Optional[Literal["linear", "sqrt"]],  # noqa: UP045
        typer.Option(
            help="With --batch per-rank: scale learning rates by N, or its square root.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Convert what can be converted, mark the rest with comments, and exit with 1.",
        ),
    ] = False,
    strategy: Annotated[
        Literal["ddp", "fsdp", "auto"],
        typer.Option(
            help="ddp: a full model on every rank; fsdp: sharded; auto: by what fits.",
            rich_help_panel=_LARGE,
        ),
    ] = "ddp",
    mixed_precision: Annotated[
        Optional[Literal["bfloat16", "float16"]],  # noqa: UP045
        typer.Option(help="The dtype to compute in; ddp: bfloat16.", rich_help_panel=_LARGE),
    ] = None,
    activation_checkpointing: Annotated[
        bool,
        typer.Option(
            "--activation-checkpointing",
            help="Compute the activations of blocks again in backward.",
            rich_help_panel=_LARGE,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Take snapshots, from which a restarted training continues.",
            rich_help_panel=_RESUME,
        ),
    ] = False,
    snapshot_steps: Annotated[
        int,
        typer.Option(
            min=0,
            help="With --resume: steps between snapshots; 0: every 10 minutes.",
            rich_help_panel=_RESUME,
        ),
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
    Arguments after -- are those that the script is started with: they decide its branches.
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
        arguments=tuple(context.obj or ()),
    )
    _check(options)
    raise typer.Exit(run(request, options))


def _check(options: Options) -> None:
    """A usage error for options that exclude each other."""
    if options.mixed_precision == "float16" and options.strategy != "fsdp":
        raise DdpifyError(
            f"--mixed-precision float16 is not for --strategy {options.strategy}",
            remedy="use bfloat16, or torch.autocast with a GradScaler in the script",
            exit_code=ExitCode.USAGE,
        )
    if options.scale_lr and options.batch != "per-rank":
        raise DdpifyError(
            "--scale-lr is for global batches that grow with the number of ranks",
            remedy="add --batch per-rank, or leave it out",
            exit_code=ExitCode.USAGE,
        )
