"""What an editor offers where something was found: fixes, and comments that silence it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lsprotocol import types

from ddpify.editor.findings import Findings
from ddpify.lint import suppressions
from ddpify.lint.diagnostics import Applicability, Diagnostic, Edit
from ddpify.lint.fixer import chosen

FIX_ALL = "source.fixAll.ddpify"
Change = Callable[[Sequence[types.TextEdit]], types.WorkspaceEdit]
"""Makes a change of the text out of edits."""


def actions(
    findings: Findings, wanted: types.Range, change: Change, *, python: bool
) -> Iterator[types.CodeAction]:
    """The fixes of what a range touches, a fix of all, and comments that silence it.

    Args:
        findings: Those of the text as it is now.
        wanted: Where the cursor is, or what is selected.
        change: Makes a change of the text.
        python: Whether it is Python, where comments silence findings.
    """
    here = findings.at(wanted)
    for one in here:
        if one.fix is not None:
            safe = one.fix.applicability is Applicability.SAFE
            title = f"{one.code}: {one.fix.title}" + ("" if safe else " (look at it: unsafe)")
            yield types.CodeAction(
                title,
                types.CodeActionKind.QuickFix,
                [findings.diagnostic(one)],
                is_preferred=safe,
                edit=change(findings.text.edits(one.fix.edits)),
            )
    yield from _all_fixes(findings, change)
    for one in here:
        # What convert does is no finding to silence: it does it all the same.
        edit = ignored(findings.text.source, one) if python and not one.single else None
        if edit is not None:
            yield types.CodeAction(
                f"{one.code}: ignore {one.name} here",
                types.CodeActionKind.QuickFix,
                [findings.diagnostic(one)],
                edit=change(findings.text.edits([edit])),
            )


def _all_fixes(findings: Findings, change: Change) -> Iterator[types.CodeAction]:
    safe = [
        one.fix
        for one in findings.found
        if one.fix is not None and one.fix.applicability is Applicability.SAFE
    ]
    edits, count = chosen(safe)
    if count:
        fixes = "the safe fix" if count == 1 else f"all {count} safe fixes"
        edit = change(findings.text.edits(edits))
        yield types.CodeAction(f"ddpify: apply {fixes} of this file", FIX_ALL, edit=edit)


def ignored(source: str, one: Diagnostic) -> Edit | None:
    """What puts a comment that silences a finding; None where none can stand."""
    for edit in _comments(source, one):
        text = source[: edit.start] + edit.text + source[edit.end :]
        moved = edit.text.count("\n")
        span = one.span._replace(line=one.span.line + moved, end_line=one.span.end_line + moved)
        there = Diagnostic(one.path, span, one.code, one.name, one.message)
        if _compiles(text) == _compiles(source) and not suppressions.apply(
            [there], suppressions.read(text)
        ):
            return edit
    return None


def _comments(source: str, one: Diagnostic) -> Iterator[Edit]:
    """At the end of each of its lines, else on a line before them; or one more code in a comment.

    A line may end in a string, or go on after a backslash, where no comment can stand.
    """
    from ddpify.lines import line_starts

    starts = [*line_starts(source), len(source)]
    for line in range(one.span.line, one.span.end_line + 1):
        begin, end = starts[line - 1], starts[min(line, len(starts) - 1)]
        content = source[begin:end].rstrip("\r\n")
        end = begin + len(content)
        known = content.rfind("# ddpify: ignore[")
        if known >= 0 and content.rstrip().endswith("]"):
            place = begin + len(content.rstrip()) - 1
            yield Edit(place, place, f", {one.code}")
        elif known < 0:
            yield Edit(begin + len(content.rstrip()), end, f"  # ddpify: ignore[{one.code}]")
    begin = starts[one.span.line - 1]
    content = source[begin : starts[min(one.span.line, len(starts) - 1)]]
    indent = content[: len(content) - len(content.lstrip())]
    newline = "\r\n" if content.endswith("\r\n") else "\n"
    yield Edit(begin, begin, f"{indent}# ddpify: ignore[{one.code}]{newline}")


def _compiles(source: str) -> bool:
    try:
        compile(source, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
