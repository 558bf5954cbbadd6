"""Comments that silence findings: ``# ddpify: ignore[...]``, ``file-ignore`` and ``# noqa``."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

from ddpify.codes import code_of
from ddpify.lines import line_starts
from ddpify.lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span

_OWN = re.compile(r"#\s*ddpify:\s*(?P<kind>ignore|file-ignore)(?:\[(?P<names>[^\]]*)\])?")
_NOQA = re.compile(r"#\s*noqa:\s*(?P<names>[A-Za-z]+[0-9]+(?:[,\s]+[A-Za-z]+[0-9]+)*)", re.I)


@dataclass(eq=False, repr=False, slots=True)
class Suppression:
    """One comment. ``codes`` None: everything. ``lines`` None: the whole file."""

    comment: str
    line: int
    column: int
    codes: dict[str, str] | None  # code -> as it is written
    lines: frozenset[int] | None
    own: bool
    unknown: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set)

    def silences(self, found: Diagnostic) -> bool:
        """Whether a finding is silenced; notes that it was."""
        if self.lines is not None and self.lines.isdisjoint(
            range(found.span.line, found.span.end_line + 1)
        ):
            return False
        if self.codes is not None and found.code not in self.codes:
            return False
        self.used.add(found.code)
        return True


def read(text: str) -> list[Suppression]:
    """All suppressions of a file, in order."""
    if "ddpify:" not in text and "noqa" not in text.lower():
        return []
    found: list[Suppression] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found += _of_comment(token)
    except (tokenize.TokenError, SyntaxError):
        pass  # the file does not parse: that finding cannot be silenced from inside
    return found


def _of_comment(token: tokenize.TokenInfo) -> list[Suppression]:
    found: list[Suppression] = []
    line, column = token.start
    alone = not token.line[:column].strip()
    if match := _OWN.search(token.string):
        where = None if match["kind"] == "file-ignore" else _lines(line, alone)
        codes, unknown = _codes(match["names"])
        place = column + match.start()
        found.append(Suppression(match[0], line, place, codes, where, True, unknown))
    elif match := _NOQA.search(token.string):
        codes, _ = _codes(match["names"])
        if codes:
            place = column + match.start()
            found.append(Suppression(match[0], line, place, codes, _lines(line, False), False))
    return found


def _lines(line: int, alone: bool) -> frozenset[int]:
    """The lines that a comment speaks for: its own, and the next where it stands alone."""
    return frozenset({line, line + 1} if alone else {line})


def _codes(names: str | None) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    if names is None:
        return None, ()
    codes: dict[str, str] = {}
    unknown = []
    for name in re.split(r"[,\s]+", names.strip()):
        code = code_of(name)
        if code is not None:
            codes[code] = name
        elif name:
            unknown.append(name)
    return codes, tuple(unknown)


def apply(found: list[Diagnostic], suppressions: list[Suppression]) -> list[Diagnostic]:
    """The findings that no comment silences."""
    kept = []
    for one in found:
        silencers = [s for s in suppressions if s.silences(one)]
        if not silencers:
            kept.append(one)
    return kept


def unused(
    path: str, text: str, suppressions: list[Suppression], selected: set[str]
) -> list[Diagnostic]:
    """Own comments, or names in them, that silence nothing though their rules ran."""
    starts = line_starts(text)
    found = []
    for one in suppressions:
        idle = _idle(one, selected)
        if not one.own or not idle:
            continue
        whole = one.codes is None or len(idle) == len(one.codes) + len(one.unknown)
        fix = _removal(one, idle, whole, text, starts[one.line - 1])
        what = ", ".join(idle) if one.codes is not None else "anything"
        found.append(
            Diagnostic(
                path,
                Span(one.line, one.column + 1, one.line, one.column + 1 + len(one.comment)),
                "DDP001",
                "unused-suppression",
                f"this comment does not silence {what}: there is nothing to silence here",
                Severity.STYLE,
                fix=fix,
            )
        )
    return found


def _idle(one: Suppression, selected: set[str]) -> list[str]:
    if one.codes is None:
        return [] if one.used else [one.comment]
    idle = [name for code, name in one.codes.items() if code in selected and code not in one.used]
    return idle + list(one.unknown)


def _removal(one: Suppression, idle: list[str], whole: bool, text: str, start: int) -> Fix:
    begin, end = start + one.column, start + one.column + len(one.comment)
    if not whole:
        kept = [name for name in (one.codes or {}).values() if name not in idle]
        inside = one.comment[: one.comment.index("[") + 1] + ", ".join(kept) + "]"
        edit = Edit(begin, end, inside)
    else:
        rest = text[end:].split("\n", 1)[0].strip()
        while not rest and begin > start and text[begin - 1] in " \t":
            begin -= 1
        if begin == start and not rest:  # a line of its own goes whole
            end = text.find("\n", end) + 1 or len(text)
        edit = Edit(begin, end, "")
    title = "remove the comment" if whole else f"remove {', '.join(idle)} from the comment"
    return Fix(title, (edit,), Applicability.SAFE)
