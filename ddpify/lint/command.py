"""``ddpify lint``: from arguments to files, findings, fixes, output and an exit code."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.lint import baseline, config, report, runner
from ddpify.lint.config import Settings, usage
from ddpify.lint.diagnostics import Diagnostic, by_place
from ddpify.lint.engine import Result, lint
from ddpify.lint.files import discovery
from ddpify.lint.files.document import PYTHON, Document, kind_of
from ddpify.lint.lint_options import Options

CLEAN, FOUND = 0, 1


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    found: list[Diagnostic] = field(default_factory=list)
    texts: dict[tuple[str, int | None], str] = field(default_factory=dict)
    diffs: list[str] = field(default_factory=list)
    fixed: int = 0
    files: int = 0
    failed: int = 0


def run(paths: Sequence[Path], options: Options) -> int:
    """Lint, print, and give the exit code: 0 nothing found, 1 findings; errors of use raise.

    2 where a file was not analysed to its end for a defect of ddpify, whatever else is found.

    Raises:
        DdpifyError: With exit code 2: unknown options' values, unreadable configuration or paths.
    """
    if options.output_format not in report.FORMATS:
        known = ", ".join(report.FORMATS)
        raise usage(
            f"unknown output format {options.output_format!r}", remedy=f"use one of {known}"
        )
    if options.write_baseline and options.baseline is None:
        raise usage("--write-baseline needs a file", remedy="add --baseline FILE")
    settings = _settings(options, paths)
    _ = settings.codes
    outcome = (
        _from_stdin(options, settings)
        if _is_stdin(paths)
        else _from_files(paths, options, settings)
    )
    if options.write_baseline:
        assert options.baseline is not None
        baseline.write(options.baseline, outcome.found)
        print(f"{len(outcome.found)} findings written to {options.baseline}", file=sys.stderr)
        return CLEAN
    if options.baseline is not None:
        outcome.found = baseline.remove_known(options.baseline, outcome.found)
    _show(outcome, options)
    if outcome.failed:
        return ExitCode.USAGE
    failed = bool(outcome.diffs) if options.diff else bool(outcome.found)
    return FOUND if failed and not options.exit_zero else CLEAN


def _is_stdin(paths: Sequence[Path]) -> bool:
    return [str(path) for path in paths] == ["-"]


def _settings(options: Options, paths: Sequence[Path]) -> Settings:
    """The configuration nearest to the first path, with the command line on top."""
    start = Path.cwd()
    if paths and not _is_stdin(paths):
        first = paths[0].absolute()
        start = first if first.is_dir() else first.parent
    if options.config is not None and not options.config.is_file():
        raise usage("no such file", path=options.config)
    made = config.load(options.config or config.find(start) or config.find(Path.cwd()))
    return replace(
        made,
        select=_words(options.select) or made.select,
        ignore=made.ignore + _words(options.ignore),
        extend_select=made.extend_select + _words(options.extend_select),
        exclude=(_words(options.exclude) or made.exclude) + _words(options.extend_exclude),
        strict=options.strict or made.strict,
    )


def _words(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for one in given for word in one.split(",") if word)


# ---------------------------------------------------------------------- sources
def _from_files(paths: Sequence[Path], options: Options, settings: Settings) -> Outcome:
    files = discovery.discover(paths or [Path()], settings, force_exclude=options.force_exclude)
    outcome = Outcome(files=len(files))
    results = runner.lint_files(
        files,
        settings,
        folders=[path for path in paths or [Path()] if path.is_dir()],
        jobs=options.jobs,
        cached=not options.no_cache,
    )
    for document, result in results:
        _take(outcome, document, result, options, settings)
    if not options.quiet:
        _mention_others(results)
    return outcome


def _mention_others(results: Sequence[tuple[Document, Result]]) -> None:
    """Say which files that were not asked for there is something in, by what is started here."""
    asked = {os.path.realpath(document.path) for document, _ in results}
    others = sorted({one.path for _, result in results for one in result.read.elsewhere} - asked)
    if others:
        shown = ", ".join(os.path.relpath(path) for path in others[:3])
        more = f" and {len(others) - 3} more files" if len(others) > 3 else ""
        print(f"ddpify: there is more in {shown}{more}: lint the whole folder", file=sys.stderr)


def _from_stdin(options: Options, settings: Settings) -> Outcome:
    name = options.stdin_filename
    if name and options.force_exclude and discovery.excluded(Path(name), settings):
        return Outcome()
    kind = (kind_of(Path(name)) if name else None) or PYTHON
    document = Document(name or "<stdin>", sys.stdin.buffer.read(), kind)
    outcome = Outcome(files=1)
    _take(outcome, document, lint(document, settings), options, settings, to_stdout=True)
    return outcome


def _take(
    outcome: Outcome,
    document: Document,
    result: Result,
    options: Options,
    settings: Settings,
    *,
    to_stdout: bool = False,
) -> None:
    if result.failure is not None:
        outcome.failed += 1
        message = f"ddpify: {document.path}: not analysed to its end ({result.failure})"
        print(message, file=sys.stderr)
    if (options.fix or options.diff) and any(one.fixable for one in result.found):
        document, result = _fix(outcome, document, result, options, settings, to_stdout)
    elif options.fix and to_stdout:
        _write_stdout(document.data)
    outcome.found += result.found
    if result.found:
        texts = document.texts()
        outcome.texts |= {(document.path, cell): text for cell, text in texts.items()}


def _fix(
    outcome: Outcome,
    document: Document,
    result: Result,
    options: Options,
    settings: Settings,
    to_stdout: bool,
) -> tuple[Document, Result]:
    """Apply fixes to a file, or show what they would do; what is left afterwards."""
    from ddpify.lint import applied_fixes

    try:
        fixed, count = applied_fixes.apply(document, result, settings, unsafe=options.unsafe_fixes)
    except DdpifyError as error:
        print(f"ddpify: {document.path}: not fixed ({error})", file=sys.stderr)
        return document, result
    if options.diff:
        outcome.diffs += applied_fixes.diffs(document, fixed)
        return document, result
    outcome.fixed += count
    if to_stdout:
        _write_stdout(fixed.data)
    elif count:
        from ddpify.source import write_atomically

        write_atomically(document.path, fixed.data)
    return fixed, lint(fixed, settings, result.given) if count else result


def _write_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


# ---------------------------------------------------------------------- output
def _show(outcome: Outcome, options: Options) -> None:
    if options.diff:
        print("".join(outcome.diffs), end="")
        return
    # The fixed script of standard input takes stdout.
    stream = sys.stderr if options.fix and options.stdin_filename else sys.stdout
    if options.statistics:
        print(_statistics(outcome.found), end="", file=stream)
        return
    found = tuple(sorted(outcome.found, key=by_place))
    if options.quiet and not found and options.output_format in ("full", "concise"):
        return
    text = report.render(
        report.Report(found, outcome.texts, outcome.fixed, outcome.files, outcome.failed),
        options.output_format,
    )
    if options.output_file is not None:
        from ddpify.source import write_atomically

        write_atomically(options.output_file, f"{text}\n".encode())
    elif text:
        print(text, file=stream)


def _statistics(found: Sequence[Diagnostic]) -> str:
    """How often each rule was found, the most frequent first."""
    counts = Counter((one.code, one.name) for one in found)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    width = max((len(str(count)) for _, count in ordered), default=1)
    return "".join(f"{count:>{width}}  {code}  {name}\n" for (code, name), count in ordered)


__all__ = ["CLEAN", "FOUND", "ExitCode", "Options", "run"]
