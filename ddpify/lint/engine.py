"""Lints one document: suppressions, rules, launch files, notebooks. It writes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ddpify.errors import DdpifyError
from ddpify.lint import suppressions
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic, Fix, Severity, Span
from ddpify.lint.document import LAUNCH, NOTEBOOK, Cells, Document, join_cells
from ddpify.records import record
from ddpify.source import Source, source_from_bytes
from ddpify.stack import roomy
from ddpify.understanding.libraries.frameworks import ALL, frameworks_of
from ddpify.understanding.libraries.runtime_names import is_vendored

# A file without any of these words has nothing that a rule could find, whatever it imports.
_OF_RULES = re.compile(
    r"backward|distributed|DataLoader|multiprocessing|cuda|\.to\(|torch\.save|torch\.load|random_split"
    r"|makedirs|mkdir|SummaryWriter|wandb|download|open\(|fairscale|apex|listdir|glob|ddpify"
)
# The same for the rules that no framework makes moot.
_OF_OLD_NAMES = re.compile(
    r"cuda\.amp|_six\b|_multigpu|DataParallelCPU|clip_grad_norm\b|NCCL_|distributed\.(?:launch|depr|pipe)"
    r"|apex|fairscale|_gather_base|_scatter_base|_into_tensor|_scatter_tensor|broadcast_buffers"
    r"|_composable|distributed\._tensor|_state_dict|state_dict_type|wrap_policy"
)
# The same for the rules that look at files without training, too.
_OF_ANY_FILE = re.compile(_OF_OLD_NAMES.pattern + r"|distributed|[sS]ampler|cuda import|ddpify")
# Groups of rules whose findings are about what a rank does.
_OF_RANKS = frozenset("data device wrapping synchronisation checkpoint rng performance".split())
_OF_INTEREST = re.compile(rb"\b(?:torch|apex|fairscale|ddpify)\b")


@record
class Result:
    """What came of one document; ``needs`` are the other files that the findings depend on."""

    found: tuple[Diagnostic, ...] = ()
    needs: tuple[str, ...] = ()
    failure: str | None = None


@roomy
def lint(document: Document, settings: Settings) -> Result:
    """The findings of a document, sorted."""
    codes = settings.codes - settings.ignored_in(Path(document.path))
    if document.kind == LAUNCH:
        from ddpify.lint.launch_files import check_launch_file

        return Result(tuple(check_launch_file(document, codes)))
    if not _OF_INTEREST.search(document.data):
        return Result(tuple(_syntax(document, codes)))
    if is_vendored(document.data[:400].decode("utf-8", "replace")):
        return Result()  # ddpify's own file, not the user's code
    return _lint_python(document, settings, codes)


def _syntax(document: Document, codes: set[str]) -> list[Diagnostic]:
    """Files that have nothing to do with PyTorch are only compiled, and only where named so."""
    if document.kind == NOTEBOOK or b"ddpify" in document.data:
        return []
    if not document.data.strip():
        return []
    try:
        source_from_bytes(document.data, document.path)
    except DdpifyError as error:
        return _unreadable(document, error, codes)
    return []


def _lint_python(document: Document, settings: Settings, codes: set[str]) -> Result:
    cells: Cells | None = None
    try:
        data = document.data
        if document.kind == NOTEBOOK:
            text, cells = join_cells(data)
            data = text.encode()
        source = source_from_bytes(data, document.path)
        found, needs, failure = _run_rules(source, settings, codes)
        if found:
            _ = source.module  # whether the tree gives back the text, in which findings have places
    except DdpifyError as error:
        return Result(tuple(_unreadable(document, error, codes, cells)))
    except ValueError as error:
        return Result(tuple(_unreadable(document, DdpifyError(str(error)), codes)))
    comments = suppressions.read(source.text)
    kept = suppressions.apply(found, comments)
    if "DDP001" in codes and failure is None:
        idle = suppressions.unused(document.path, source.text, comments, codes - {"DDP001"})
        kept += suppressions.apply(idle, [])
    if cells is not None:
        kept = [_in_cell(one, cells) for one in kept]
    return Result(tuple(sorted(kept)), needs, failure)


def _unreadable(
    document: Document, error: DdpifyError, codes: set[str], cells: Cells | None = None
) -> list[Diagnostic]:
    if "DDP000" not in codes:
        return []
    line, column = error.line or 1, error.column or 1
    span = Span(line, column, line, column + 1)
    message = error.message.removeprefix("syntax error: ")
    found = Diagnostic(document.path, span, "DDP000", "syntax-error", message, Severity.CRASH)
    return [_in_cell(found, cells) if cells is not None else found]


def _in_cell(found: Diagnostic, cells: Cells) -> Diagnostic:
    """A finding in a notebook; its fixes are shown, not applied."""
    cell, span = cells.locate(found.span)
    return replace(found, cell=cell, span=span, fix=None)


def _run_rules(
    source: Source, settings: Settings, codes: set[str]
) -> tuple[list[Diagnostic], tuple[str, ...], str | None]:
    """All findings of the rules; a defect of ours is reported, never raised.

    Where imports lead too deep, the file is understood alone.

    Raises:
        DdpifyError: The file itself cannot be parsed.
    """
    for most_files in (60, 1):
        try:
            return *_check(source, settings, codes, most_files), None
        except RecursionError:
            continue
        except DdpifyError:
            raise
        except Exception as error:
            return [], (), f"{type(error).__name__}: {error}"
    return [], (), "an expression or a chain of calls is nested too deeply"


def _check(
    source: Source, settings: Settings, codes: set[str], most_files: int
) -> tuple[list[Diagnostic], tuple[str, ...]]:
    covered = {group for one in frameworks_of(source.text) for group in one.covers}
    if not (_OF_OLD_NAMES if covered >= ALL else _OF_RULES).search(source.text):
        return [], ()
    from ddpify.lint.relevance import files_without_training

    quiet = files_without_training(source, most_files)
    if quiet is not None and not _OF_ANY_FILE.search(source.text):
        return [], quiet
    from ddpify.lint import registry
    from ddpify.lint.one_process import concerns_no_rank
    from ddpify.lint.script import Script

    alone = quiet is not None
    script = Script(
        source,
        strict=settings.strict,
        most_files=1 if alone else most_files,
        follow=not alone,
    )
    found: dict[tuple[str, Span], Diagnostic] = {}
    for rule in registry.load_all(codes):
        if script.kind not in rule.applies or rule.group in covered:
            continue
        for finding in rule.check(script):
            if rule.group in _OF_RANKS and concerns_no_rank(script.control, finding.node):
                continue
            one = _diagnostic(rule, script, source.path, finding)
            found.setdefault((rule.code, one.span), one)
    others = list(quiet or ())
    others += [str(f.path.resolve()) for f in script.project.files if f is not script.module]
    declared = script.__dict__.get("requirements")
    others += [str(declared)] if declared is not None else []
    return sorted(found.values()), tuple(sorted(others))


def _diagnostic(rule, script, path: str, finding) -> Diagnostic:  # type: ignore[no-untyped-def]
    fix: Fix | None = finding.fix
    return Diagnostic(
        path,
        script.positions.span(finding.node),
        rule.code,
        rule.name,
        finding.message,
        rule.severity,
        single=script.kind == "single",
        fix=fix,
    )
