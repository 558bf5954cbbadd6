"""``ddpify lint`` and ``ddpify rule``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ddpify.cli.app import app
from ddpify.errors import DdpifyError


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
        typer.Option(metavar="RULE", help="Rules to run: names, codes, prefixes of codes, ALL."),
    ] = None,
    ignore: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="RULE", help="Rules not to run."),
    ] = None,
    extend_select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="RULE", help="Rules to run beside the selected ones."),
    ] = None,
    exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="PATH", help="Files and folders to leave out, instead of the defaults."
        ),
    ] = None,
    extend_exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="PATH", help="More files and folders to leave out."),
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            metavar="full|concise|json|github|gitlab|sarif|junit", help="How findings are written."
        ),
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
        bool, typer.Option("--strict", help="Report also what is possible only.")
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

    Exit codes: 0 nothing found, 1 findings, 2 wrong usage or configuration, or a
    file that was not analysed to its end.
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
    output_format: Annotated[
        str, typer.Option(metavar="text|json", help="How it is written.")
    ] = "text",
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
