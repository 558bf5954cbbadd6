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
        Path, typer.Argument(help="The single-GPU training script; - is standard input.")
    ],
    output: Annotated[
        Optional[Path],  # noqa: UP045 - typer resolves this at run time on 3.10
        typer.Option("-o", "--output", help="Where to write it; - is standard output."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write over the script itself.")
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
        bool, typer.Option(help="Synchronise BatchNorm statistics among the ranks.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output file that is there already.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only errors.")] = False,
) -> None:
    """Rewrite a single-GPU training script into one for torchrun."""
    from ddpify.convert import Options, convert_file
    from ddpify.convert.output import choose_output, report, write

    if sampler not in ("exact", "distributed"):
        raise DdpifyError(
            f"unknown sampler {sampler!r}", remedy="use exact or distributed", exit_code=2
        )
    target = choose_output(
        script, output, in_place=in_place, diff=diff, vendor=vendor, overwrite=overwrite
    )
    options = Options(sampler=sampler, sync_batchnorm=sync_batchnorm, vendored=vendor)
    conversion = convert_file(script, options)
    if diff:
        print(conversion.diff(str(target or script)), end="")
    if target is not None:
        write(conversion, target, vendor=vendor)
    if not quiet:
        print(report(conversion, target), file=sys.stderr)


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
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write a page about it, one HTML file, there."),
    ] = None,
) -> None:
    """Run the original and its torchrun version on the CPU, and compare them step by step.

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
    )
    if report is not None:
        write_atomically(report, as_html(verdict).encode())
    print(as_json(verdict) if json_output else render(verdict))
    raise typer.Exit(verdict.exit_code)


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
