"""The command line: typer commands that turn results into text and exit codes.

Only the standard library and typer are imported here; each command imports what it needs, so that
help and linting start without torch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ddpify import __version__
from ddpify.errors import DdpifyError, ExitCode

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Take a PyTorch training script from one GPU to many, and show that it trains the same.",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 not converted, 2 usage or bad input."""
    own, script = _split_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        result = app(own, standalone_mode=False, obj=script)
    except DdpifyError as error:
        print(f"ddpify: {error}", file=sys.stderr)
        return int(error.exit_code)
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130  # as a shell says that Ctrl-C ended a command
    except Exception as error:
        return _usage_error(error)
    return result if isinstance(result, int) else ExitCode.DONE


def _split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What follows ``--`` belongs to the script that is verified."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _usage_error(error: Exception) -> int:
    """Typer's own errors (an unknown option, a missing argument) show themselves."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    return ExitCode.USAGE


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

    _check_choice("sampler", sampler, "exact", "distributed")
    _check_choice("strategy", strategy, "ddp", "fsdp", "auto")
    if mixed_precision is not None:
        _check_choice("dtype", mixed_precision, "bfloat16", "float16")
        _check_choice("strategy for mixed precision", strategy, "fsdp")
    _check_choice("batch", batch, "global", "per-rank")
    if scale_lr is not None:
        _check_choice("rule", scale_lr, "linear", "sqrt")
        if batch != "per-rank":
            raise DdpifyError(
                "--scale-lr is for global batches that grow with the number of ranks",
                remedy="add --batch per-rank, or leave it out",
                exit_code=2,
            )
    if resume and strategy != "ddp":
        raise DdpifyError(
            "--resume does not yet store the state of a sharded model",
            remedy="leave out --strategy, or use dd.save_sharded and dd.load_sharded",
            exit_code=2,
        )
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
        sync_batchnorm=sync_batchnorm,
        force=force,
        vendored=vendor,
        strategy=strategy,
        mixed_precision=mixed_precision,
        activation_checkpointing=activation_checkpointing,
        resume=resume,
        snapshot_steps=snapshot_steps,
    )
    raise typer.Exit(run(request, options))


def _check_choice(what: str, given: str, *choices: str) -> None:
    """A usage error for anything but one of a few words."""
    if given not in choices:
        remedy = f"use {' or '.join(choices)}"
        raise DdpifyError(f"unknown {what} {given!r}", remedy=remedy, exit_code=2)


@app.command()
def lint(
    paths: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(help="Files and folders; - for standard input. Default: this folder."),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="With --fix or --diff, also likely fixes.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change.")] = False,
    select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Rules to run: names, codes, prefixes of codes, ALL."),
    ] = None,
    ignore: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Rules not to run."),
    ] = None,
    extend_select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Rules to run beside the selected ones."),
    ] = None,
    exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Files and folders to leave out, instead of the defaults."),
    ] = None,
    extend_exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="More files and folders to leave out."),
    ] = None,
    output_format: Annotated[
        str, typer.Option(help="full, concise, json, github, gitlab, sarif or junit.")
    ] = "full",
    output_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("-o", "--output-file", help="Write the report there."),
    ] = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="Count by rule.")] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 also where something is found.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Report also what depends on code that is not seen.")
    ] = False,
    stdin_filename: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The name of what is read from standard input."),
    ] = None,
    force_exclude: Annotated[
        bool, typer.Option("--force-exclude", help="Leave out excluded files also where named.")
    ] = False,
    baseline: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Report only what goes beyond this file of known findings."),
    ] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write the findings to the --baseline file.")
    ] = False,
    config: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A pyproject.toml, instead of the nearest one."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Lint every file anew.")] = False,
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-j", "--jobs", help="Processes to use."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Nothing where all is well.")
    ] = False,
) -> None:
    """Find what goes wrong, or must be looked after, on several processes.

    Exit codes: 0 nothing found, 1 findings, 2 wrong usage or configuration.
    """
    from ddpify.lint.command import Options, run

    options = Options(
        select=select or (),
        ignore=ignore or (),
        extend_select=extend_select or (),
        exclude=exclude or (),
        extend_exclude=extend_exclude or (),
        fix=fix,
        unsafe_fixes=unsafe_fixes,
        diff=diff,
        output_format=output_format,
        output_file=output_file,
        statistics=statistics,
        exit_zero=exit_zero,
        strict=strict,
        stdin_filename=stdin_filename,
        force_exclude=force_exclude,
        baseline=baseline,
        write_baseline=write_baseline,
        config=config,
        no_cache=no_cache,
        jobs=jobs,
        quiet=quiet,
    )
    raise typer.Exit(run(paths or [], options))


@app.command()
def rule(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="A rule's name or code."),
    ] = None,
    all_rules: Annotated[bool, typer.Option("--all", help="List all rules.")] = False,
    output_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Explain a rule of `ddpify lint`, or list all."""
    from ddpify.lint import explain

    if output_format not in ("text", "json"):
        raise DdpifyError(
            f"unknown output format {output_format!r}", remedy="use text or json", exit_code=2
        )
    if name is None and not all_rules:
        raise DdpifyError("which rule?", remedy="name one, or give --all", exit_code=2)
    if name is None:
        print(explain.overview(output_format))
    else:
        print(explain.as_json(name) if output_format == "json" else explain.explain(name))


@app.command()
def verify(
    context: typer.Context,
    original: Annotated[Path, typer.Argument(help="The single-GPU training script.")],
    converted: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="Its torchrun version; converted on the fly when left out."),
    ] = None,
    nproc: Annotated[str, typer.Option(help="Numbers of processes to try, as in 2,3.")] = "2",
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, help="Compare only so many optimizer steps, and stop the runs after them."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 600.0,
    allow: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="A cause to accept: order, batch-size, padding or batchnorm."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, or cuda to run on this machine's GPUs, one for each process.")
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
    from ddpify.convert import convert_file
    from ddpify.source import write_atomically
    from ddpify.verify import as_html, as_json, render
    from ddpify.verify import verify as run_verify

    verdict = run_verify(
        original,
        converted,
        nproc=_counts(nproc),
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


@app.command()
def launch(
    context: typer.Context,
    script: Annotated[str, typer.Argument(help="The distributed script, as the nodes see it.")],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 1,
    gpus_per_node: Annotated[
        int, typer.Option(min=1, help="GPUs, and so processes, on each node.")
    ] = 1,
    on: Annotated[
        str,
        typer.Option(help="torchrun, slurm, kubernetes (Indexed Job) or kubeflow (PyTorchJob)."),
    ] = "torchrun",
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("-o", "--output", help="Write it there instead of printing it."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output file that is there already.")
    ] = False,
    cpu: Annotated[bool, typer.Option("--cpu", help="Train on the CPU: ask for no GPU.")] = False,
    name: Annotated[str, typer.Option(help="The job's name; default: the script's.")] = "",
    hosts: Annotated[
        str, typer.Option(help="The nodes' names or addresses for torchrun, as in a,b,c.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=1024, max=65535, help="The rendezvous's port on the first node.")
    ] = 29500,
    interface: Annotated[
        str, typer.Option(help="The network interface between the nodes, such as eth0.")
    ] = "",
    cpus_per_process: Annotated[
        int, typer.Option(min=1, help="CPU cores for each process and its loader workers.")
    ] = 8,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="How often to start again after a failure.")
    ] = 0,
    time: Annotated[str, typer.Option(help="The time limit of a Slurm job.")] = "",
    image: Annotated[str, typer.Option(help="The container image for Kubernetes.")] = "",
) -> None:
    """Write a launch file: for torchrun by hand, Slurm, or Kubernetes.

    Arguments after -- go to the script.
    """
    from ddpify.launching.command import launch_file
    from ddpify.launching.launch import Launch
    from ddpify.launching.output import put

    request = Launch(
        script,
        context.obj or (),
        nodes=nodes,
        per_node=gpus_per_node,
        cpu=cpu,
        name=name,
        hosts=[host for host in hosts.split(",") if host],
        port=port,
        interface=interface,
        cpus_per_process=cpus_per_process,
        max_restarts=max_restarts,
        time=time,
        image=image,
    )
    put(launch_file(request, on), output, overwrite=overwrite)


@app.command()
def doctor(
    nproc: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Ranks to start for the test; default: one a GPU, or 2."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Examine this environment, and let ranks exchange data; also under torchrun.

    Exit codes: 0 nothing found, 1 findings, 2 wrong usage.
    """
    from ddpify.doctor.command import as_json, as_text, examine, exit_code

    findings = examine(nproc)
    if findings is not None:
        print(as_json(findings) if json_output else as_text(findings), flush=True)
        raise typer.Exit(exit_code(findings))


@app.command()
def profile(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The distributed script.")],
    nproc: Annotated[str, typer.Option(help="Numbers of processes, as in 1,2,4.")] = "1,2",
    steps: Annotated[int, typer.Option(min=2, help="Optimizer steps to measure.")] = 50,
    warm_up: Annotated[int, typer.Option(min=0, help="Steps before them.")] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write a page with the plots, one HTML file, there."),
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

    request = Request(script, context.obj or (), steps=steps, warm_up=warm_up, timeout=timeout)
    found = run_profile(request, _counts(nproc), lambda line: print(line, file=sys.stderr))
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
        typer.Option(help="GiB of a GPU. Default: of this machine's."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that the script may take to its first batch.")
    ] = 600.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how much memory a GPU needs under DDP and FSDP, for 1 to 512 of them.

    Runs the script, as one process, up to its first batch. Arguments after -- go to the script.
    """
    from ddpify.sizing.measuring import measure
    from ddpify.sizing.table import as_json, plan_of, render

    found = measure(script, context.obj or (), timeout)
    planned = plan_of(script, found, round(memory * 2**30) if memory else None)
    print(as_json(planned) if json_output else render(planned))


def _counts(text: str) -> list[int]:
    """``2,3`` as numbers of processes."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DdpifyError(
            f"not numbers of processes: {text!r}",
            remedy="use --nproc 2 or --nproc 2,3",
            exit_code=2,
        )
    return counts
