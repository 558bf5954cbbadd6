"""Lints one document: suppressions, rules, launch files, notebooks. It writes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ddpify.codes import BY_NAME
from ddpify.errors import DdpifyError
from ddpify.lint import suppressions
from ddpify.lint.checking import NOTHING, Read, read_by_rules
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic, by_place
from ddpify.lint.files import notebooks
from ddpify.lint.files.document import LAUNCH, NOTEBOOK, Document
from ddpify.lint.files.relevance import files_without_training
from ddpify.lint.unreadable import unreadable
from ddpify.records import record
from ddpify.source import source_from_bytes
from ddpify.stack import roomy
from ddpify.understanding.libraries.runtime_names import is_vendored

_CUT_SHORT = BY_NAME["analysis-cut-short"]
_OF_INTEREST = re.compile(rb"\b(?:torch|apex|fairscale|ddpify)\b")


@record
class Result:
    """What came of one document: its findings, sorted.

    ``given`` is what scripts that it takes part in need in it; None where there are none.
    """

    found: tuple[Diagnostic, ...] = ()
    read: Read = NOTHING
    given: tuple[Diagnostic, ...] | None = None

    @property
    def failure(self) -> str | None:
        """Why it was not analysed."""
        return self.read.failure


@roomy
def lint(
    document: Document, settings: Settings, given: tuple[Diagnostic, ...] | None = None
) -> Result:
    """The findings of a document, with those that others ``given`` for it, sorted."""
    codes = settings.codes - settings.ignored_in(Path(document.path))
    if document.kind == LAUNCH:
        from ddpify.lint.launch_files import check_launch_file

        return Result(tuple(check_launch_file(document, codes)))
    if not _OF_INTEREST.search(document.data):
        found = _syntax(document, codes)
        if found or b"__main__" not in document.data or not _starts_a_training(document):
            return Result(tuple(found))
    if is_vendored(document.data[:400].decode("utf-8", "replace")):
        return Result()  # ddpify's own file, not the user's code
    return _lint_python(document, settings, codes, given)


def _syntax(document: Document, codes: set[str]) -> list[Diagnostic]:
    """Files that have nothing to do with PyTorch are only compiled, and only where named so."""
    if document.kind == NOTEBOOK or b"ddpify" in document.data:
        return []
    if not document.data.strip():
        return []
    try:
        source_from_bytes(document.data, document.path)
    except DdpifyError as error:
        return unreadable(document, document.data, error, codes)
    return []


def _starts_a_training(document: Document) -> bool:
    """Whether files of the project that a script imports may train, which the script starts."""
    source = source_from_bytes(document.data, document.path)
    return files_without_training(source, document.project) is None


def _lint_python(
    document: Document,
    settings: Settings,
    codes: set[str],
    given: tuple[Diagnostic, ...] | None,
) -> Result:
    cells: notebooks.Cells | None = None
    data = document.data
    try:
        if document.kind == NOTEBOOK:
            text, cells = notebooks.join(data)
            data = text.encode()
        source = source_from_bytes(data, document.path)
        read = read_by_rules(source, document.project, settings, codes)
    except DdpifyError as error:
        return Result(tuple(unreadable(document, data, error, codes, cells)))
    except ValueError as error:
        return Result(tuple(unreadable(document, data, DdpifyError(str(error)), codes)))
    return _settled(document.path, source.text, read, codes, given, cells)


def joined(
    document: Document, settings: Settings, result: Result, given: tuple[Diagnostic, ...]
) -> Result:
    """The result of a document that takes part in trainings which other files start."""
    codes = settings.codes - settings.ignored_in(Path(document.path))
    try:
        text = source_from_bytes(document.data, document.path).text
    except DdpifyError:
        return result  # which says so
    return _settled(document.path, text, result.read, codes, given)


def _settled(
    path: str,
    text: str,
    read: Read,
    codes: set[str],
    given: tuple[Diagnostic, ...] | None,
    cells: notebooks.Cells | None = None,
) -> Result:
    """What is left when the comments of a file have silenced what they are about."""
    found = list(read.found) if given is None else _with_given(path, read, codes, given)
    comments = suppressions.read(text)
    kept = suppressions.apply(found, comments)
    complete = read.failure is None and not any(one.code == _CUT_SHORT for one in read.found)
    if "DDP001" in codes and complete:
        idle = suppressions.unused(path, text, comments, codes - {"DDP001"})
        kept += suppressions.apply(idle, [])
    if cells is not None:
        kept = [notebooks.in_cell(one, cells) for one in kept]
    return Result(tuple(sorted(kept, key=by_place)), read, given)


def _with_given(
    path: str, read: Read, codes: set[str], given: tuple[Diagnostic, ...]
) -> list[Diagnostic]:
    """The findings in a file that others start, with those that were found from there."""
    # What it would need as a script of its own is beside the point where nobody runs it so.
    own = [one for one in read.found if read.covers or not one.single]
    known = {one.subject for one in own}
    known |= {(one.code, one.span) for one in (*own, *given) if not one.single}
    more = {
        one.subject: one
        for one in given
        if one.code in codes
        and one.subject not in known
        and not (one.single and (one.code, one.span) in known)
    }
    return [
        *(_surest(one, given) for one in own),
        *(replace(one, path=path) for one in more.values()),
    ]


def _surest(own: Diagnostic, given: tuple[Diagnostic, ...]) -> Diagnostic:
    """A finding, as sure as who calls the file makes it."""
    same = [one.confidence for one in given if (one.code, one.span) == (own.code, own.span)]
    return replace(own, confidence=max([own.confidence, *same])) if not own.single else own
