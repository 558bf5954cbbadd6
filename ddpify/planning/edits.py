"""Changes to a tree, named by the original nodes, and the one pass that makes them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import libcst as cst

from ddpify.codes import BY_NAME
from ddpify.records import record
from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile

Change = Callable[[cst.CSTNode], cst.CSTNode]


@record
class Note:
    """One thing that a conversion did, or that the user must look at.

    ``code``: the lint rule whose pitfall it avoids, as in ``DDP101``; empty where there is none.
    ``site``: the place itself, where it is one in a tree.
    """

    path: str
    line: int
    text: str
    code: str = ""
    attention: bool = False
    unconverted: bool = False
    site: Site | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        code = f"{self.code} " if self.code else ""
        return f"{self.path}:{self.line}: {code}{self.text}"


@dataclass(slots=True)
class Edits:
    """The changes of a script and its modules, collected before any is made."""

    changes: dict[cst.CSTNode, list[Change]] = field(default_factory=lambda: defaultdict(list))
    before: dict[cst.CSTNode, list[cst.BaseStatement]] = field(
        default_factory=lambda: defaultdict(list)
    )
    after: dict[cst.CSTNode, list[cst.BaseStatement]] = field(
        default_factory=lambda: defaultdict(list)
    )
    moved: dict[cst.CSTNode, cst.SimpleStatementLine] = field(default_factory=dict)
    wrapped: dict[cst.CSTNode, list[str]] = field(default_factory=lambda: defaultdict(list))
    rebound: dict[cst.CSTNode, list[str]] = field(default_factory=lambda: defaultdict(list))
    blocks: dict[cst.CSTNode, str] = field(default_factory=dict)
    parts: dict[cst.CSTNode, str] = field(default_factory=dict)  # of a line of several statements
    comments: dict[cst.CSTNode, list[str]] = field(default_factory=lambda: defaultdict(list))
    replaced: set[cst.CSTNode] = field(default_factory=set)  # statements that are gone
    removed: set[cst.CSTNode] = field(default_factory=set)
    imports: dict[ModuleFile, set[str]] = field(default_factory=lambda: defaultdict(set))
    opened: dict[cst.CSTNode, bool] = field(default_factory=dict)  # whether their bodies stay
    notes: list[Note] = field(default_factory=list)

    def change(self, node: cst.CSTNode, change: Change) -> None:
        """Replace a node by what ``change`` makes of it, after the changes inside it."""
        self.changes[node].append(change)

    def wrap(
        self, node: cst.CSTNode, function: str, extra: str | Callable[[cst.CSTNode], str] = ""
    ) -> None:
        """Replace an expression ``x`` by ``function(x)``.

        ``extra``: code for further arguments, or what gives it for ``x`` as it is by then.
        """

        def change(inner: cst.CSTNode) -> cst.CSTNode:
            return wrapped(inner, function, extra if isinstance(extra, str) else extra(inner))

        self.change(node, change)
        self.wrapped[node].append(function)

    def rebind(self, statement: cst.CSTNode, name: str, function: str, extra: str = "") -> None:
        """Add ``name = function(name)`` after a statement, once."""
        code = f"{name} = {function}({name}{extra})\n"
        if code not in self.rebound[statement]:
            self.rebound[statement].append(code)
            self.insert_after(statement, code)

    def put(self, node: cst.CSTNode, code: str) -> None:
        """Replace an expression by other code."""
        self.change(node, lambda _: cst.parse_expression(code))

    def add_keyword(self, call: cst.CSTNode, keyword: str) -> None:
        """Give a call one more argument, ``name=value``."""
        self.change(call, lambda updated: _with_keyword(updated, keyword))

    def insert_after(self, statement: cst.CSTNode, code: str) -> None:
        """Add a statement after another, which may be one of several in a line."""
        self.after[statement].append(cst.parse_statement(code))

    def insert_before(self, statement: cst.CSTNode, code: str) -> None:
        """Add a statement before another, which may be one of several in a line."""
        self.before[statement].append(cst.parse_statement(code))

    def move_before(self, statement: cst.CSTNode, node: cst.BaseExpression, name: str) -> None:
        """Compute an expression, with all changes to it, in a line of its own before another."""
        line = cst.parse_statement(f"{name} = _\n")
        assert isinstance(line, cst.SimpleStatementLine)
        self.moved[node] = line
        self.before[statement].append(line)

    def put_under(self, statement: cst.CSTNode, header: str) -> None:
        """Put a statement under ``with ...:`` or ``if ...:``; neighbours share one header."""
        self.blocks.setdefault(statement, header)

    def put_part_under(self, part: cst.BaseSmallStatement, header: str) -> None:
        """Put one of the statements of ``a(); b()`` under a header; each gets a line of its own."""
        self.parts.setdefault(part, header)

    def comment(self, statement: cst.CSTNode, lines: list[str]) -> None:
        """Put lines of comment above a statement."""
        self.comments[statement] += [f"# {line}" for line in lines]

    def remove(self, statement: cst.CSTNode) -> None:
        """Take a statement out; the lines above it go to the next one."""
        self.replaced.add(statement)
        self.removed.add(statement)

    def open(self, condition: cst.If, *, body: bool) -> None:
        """Let the statements of one side, if there is one, stand where an ``if`` stood."""
        self.opened[condition] = body

    def note(
        self,
        site: Site,
        text: str,
        *,
        rule: str = "",
        attention: bool = False,
        unconverted: bool = False,
    ) -> None:
        """Say what was done, or what to look at; ``rule`` is the lint rule that it satisfies."""
        code = BY_NAME[rule] if rule else ""
        path = str(site.module.path)
        look = attention or unconverted
        note = Note(path, site.line, text, code, look, unconverted, site)
        if note not in self.notes:
            self.notes.append(note)

    def change_in(self, module: ModuleFile) -> bool:
        """Whether anything is to be changed in a module."""
        return any(node in module.parents for node in self._nodes())

    def apply(self, module: ModuleFile) -> cst.Module:
        """The changed tree of a module."""
        around = set(self._nodes())
        for node in self._nodes():
            around.update(module.structure.up(node))
        changed = module.tree.visit(_Rewriter(self, around))
        assert isinstance(changed, cst.Module)
        return changed

    def _nodes(self) -> Iterator[cst.CSTNode]:
        """All nodes, of whichever module, at which something is to be changed."""
        return chain(
            self.changes,
            self.moved,
            self.before,
            self.after,
            self.blocks,
            self.parts,
            self.comments,
            self.removed,
            self.opened,
        )


def _with_keyword(updated: cst.CSTNode, keyword: str) -> cst.CSTNode:
    assert isinstance(updated, cst.Call)
    model = cst.parse_expression(f"f(_, {keyword})")
    assert isinstance(model, cst.Call)
    if not updated.args:
        return updated.with_changes(args=[model.args[-1]])
    *before, last = updated.args
    comma = before[-1].comma if before else model.args[0].comma
    if isinstance(comma, cst.MaybeSentinel):
        comma = model.args[0].comma
    apart = isinstance(updated.whitespace_before_args, cst.ParenthesizedWhitespace)
    if not before and (apart or isinstance(last.comma, cst.Comma)):  # each on a line of its own
        comma = cst.Comma(whitespace_after=updated.whitespace_before_args)
    # What stood before the closing parenthesis still does.
    added = model.args[-1].with_changes(
        comma=last.comma, whitespace_after_arg=last.whitespace_after_arg
    )
    last = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return updated.with_changes(args=[*before, last, added])


def wrapped(inner: cst.CSTNode, function: str, extra: str = "") -> cst.CSTNode:
    """``function(inner)``; parentheses around ``inner`` become those of the call, as they are."""
    call = cst.parse_expression(f"{function}(_{extra})")
    assert isinstance(call, cst.Call) and isinstance(inner, cst.BaseExpression)
    first, *more = call.args
    if isinstance(inner, (cst.GeneratorExp, cst.Tuple)) or not inner.lpar:
        return call.with_changes(args=[first.with_changes(value=inner), *more])
    opening, closing = inner.lpar[0].whitespace_after, inner.rpar[-1].whitespace_before
    bare = inner.with_changes(lpar=inner.lpar[1:], rpar=inner.rpar[:-1])
    args = [first.with_changes(value=bare), *more]
    args[-1] = args[-1].with_changes(whitespace_after_arg=closing)
    return call.with_changes(args=args, whitespace_before_args=opening)


class _Rewriter(cst.CSTTransformer):
    """Makes all changes in one pass, so that nested ones meet.

    It goes into the nodes ``around`` a change alone: most of a script stays as it is.
    """

    def __init__(self, edits: Edits, around: set[cst.CSTNode]) -> None:
        super().__init__()
        self.edits = edits
        self.around = around
        self.lines: dict[cst.BaseStatement, cst.BaseStatement] = {}  # of what was moved, filled in

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.around

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        updated: Any = super().on_leave(original_node, updated_node)
        for change in self.edits.changes.get(original_node, ()):
            updated = change(updated)
        if original_node in self.edits.moved:
            updated = self._move(self.edits.moved[original_node], updated)
        if isinstance(original_node, (cst.IndentedBlock, cst.Module)):
            updated = self._rebuild(original_node, updated)
        elif isinstance(original_node, cst.SimpleStatementSuite):
            updated = self._block(original_node, updated)
        if isinstance(original_node, cst.FormattedStringExpression):
            updated = _with_its_own_text(original_node, updated)
        if original_node in self.edits.comments:
            new = [
                cst.EmptyLine(comment=cst.Comment(c)) for c in self.edits.comments[original_node]
            ]
            updated = updated.with_changes(leading_lines=[*updated.leading_lines, *new])
        return updated

    def _move(self, line: cst.SimpleStatementLine, updated: Any) -> cst.Name:
        """Fill the line that an expression has got; the name that it has there."""
        assign = line.body[0]
        assert isinstance(assign, cst.Assign)
        self.lines[line] = line.with_changes(body=[assign.with_changes(value=updated)])
        return cst.ensure_type(assign.targets[0].target, cst.Name)

    def _rebuild(self, original: Any, updated: Any) -> Any:
        """A block with statements added, and runs of statements put under one header."""
        body: list[cst.BaseStatement] = []
        run: list[cst.BaseStatement] = []
        header = ""
        for old, new in zip(original.body, updated.body, strict=True):
            if old in self.edits.removed:
                body.extend(self.edits.after.get(old, ()))
                continue
            under = self.edits.blocks.get(old, "")
            if run and (under != header or self.edits.before.get(old)):
                body.append(_under(header, run))
                run = []
            before = [self.lines.get(line, line) for line in self.edits.before.get(old, ())]
            body.extend(_take_lead(before, new))
            if before:
                new = _with_less_lead(new)
            header = under
            lines = self._lines(old, new)
            if under:
                run.extend(lines)
            else:
                body.extend(lines)
            if self.edits.after.get(old) and run:
                body.append(_under(header, run))
                run = []
            body.extend(self.edits.after.get(old, ()))
        if run:
            body.append(_under(header, run))
        if not body and isinstance(original, cst.IndentedBlock):
            body.append(cst.parse_statement("pass\n"))
        return updated.with_changes(body=body)

    def _lines(self, old: Any, new: Any) -> list[Any]:
        """A line as it is, or several where something comes between its statements."""
        if old in self.edits.opened:
            return _opened(new, body=self.edits.opened[old])
        if not isinstance(old, cst.SimpleStatementLine) or not self._is_parted(old):
            return [new]
        lines = self._apart(old, new)
        lines[0] = lines[0].with_changes(leading_lines=new.leading_lines)
        return lines

    def _block(self, old: cst.SimpleStatementSuite, new: Any) -> Any:
        """The same for what stands behind a colon: a block then."""
        return cst.IndentedBlock(self._apart(old, new)) if self._is_parted(old) else new

    def _is_parted(self, old: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> bool:
        edits = self.edits
        return any(
            one in edits.parts or one in edits.before or one in edits.after for one in old.body
        )

    def _apart(self, old: Any, new: Any) -> list[Any]:
        """A line for each statement, with what is added before and after it."""
        lines: list[Any] = []
        for part, updated in zip(old.body, new.body, strict=True):
            one = cst.SimpleStatementLine(
                [updated.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
            )
            if part is old.body[-1]:
                one = one.with_changes(trailing_whitespace=new.trailing_whitespace)
            header = self.edits.parts.get(part, "")
            lines += [self.lines.get(line, line) for line in self.edits.before.get(part, ())]
            lines.append(_under(header, [one]) if header else one)
            lines += self.edits.after.get(part, ())
        return lines


def _opened(condition: cst.If, *, body: bool) -> list[Any]:
    """The statements of one side of a condition; the first takes over the lines above it."""
    side = condition if body else condition.orelse
    if side is None:
        return []
    if isinstance(side, cst.If) and not body:
        return [side.with_changes(leading_lines=condition.leading_lines)]
    if isinstance(side.body, cst.SimpleStatementSuite):
        lines: list[Any] = [cst.SimpleStatementLine(side.body.body)]
    else:
        lines = list(side.body.body)
    above = [*condition.leading_lines, *lines[0].leading_lines]
    return [lines[0].with_changes(leading_lines=above), *lines[1:]]


def _with_its_own_text(
    original: cst.FormattedStringExpression, updated: cst.FormattedStringExpression
) -> Any:
    """``{len(y)=}`` prints its own code: what it printed before is put there as text."""
    if original.equal is None or updated.expression is original.expression:
        return updated
    bare = original.with_changes(conversion=None, format_spec=None)
    code = cst.Module([]).code_for_node(bare)[1:-1]
    text = code.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")
    shown = original.conversion or (None if original.format_spec else "r")
    return cst.FlattenSentinel(
        [cst.FormattedStringText(text), updated.with_changes(equal=None, conversion=shown)]
    )


def _take_lead(added: Sequence[Any], statement: Any) -> list[Any]:
    """Statements added before another take over the blank lines above it, and what is above them.

    A comment right above a statement is about it, and stays there.
    """
    taking = list(added)
    if taking:
        lines = statement.leading_lines
        taking[0] = taking[0].with_changes(leading_lines=lines[: _own_comment(lines)])
    return taking


def _with_less_lead(statement: Any) -> Any:
    """What stood apart from the lines above keeps one blank line, and its own comment."""
    lines = statement.leading_lines
    apart = any(line.comment is None for line in lines)
    own = lines[_own_comment(lines) :]
    blank = [cst.EmptyLine(indent=False)] if apart else []
    return statement.with_changes(leading_lines=[*blank, *own])


def _own_comment(lines: Sequence[cst.EmptyLine]) -> int:
    """Where the comment begins that stands right above a statement."""
    blanks = [index for index, line in enumerate(lines) if line.comment is None]
    return blanks[-1] + 1 if blanks else 0


def _under(header: str, body: list[cst.BaseStatement]) -> cst.BaseStatement:
    """The statements under a header, which takes over the lines above the first."""
    outer = cst.parse_statement(f"{header}\n    pass\n")
    assert isinstance(outer, (cst.With, cst.If))
    first = body[0]
    lead = getattr(first, "leading_lines", ())
    inner = [first.with_changes(leading_lines=[]), *map(_with_empty_lines, body[1:])]
    return outer.with_changes(leading_lines=lead, body=cst.IndentedBlock(body=inner))


def _with_empty_lines(statement: Any) -> Any:
    """The statement with the blank lines above it empty, however deep it comes to stand."""
    lines = [
        line if line.comment is not None else line.with_changes(indent=False)
        for line in statement.leading_lines
    ]
    return statement.with_changes(leading_lines=lines)
