"""What depends on a condition: steps, collectives and writes under it, and what it sets for later
conditions, as early stopping does through an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ddpify.checking.recording import Recording

MAX_HOPS = 4
"""Conditions in a row that a decision is followed through."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Effect:
    """What a decision leads to: "together" (a step, a collective, the end of a loop) or "write",
    and the line of the condition that it happens under."""

    kind: str
    at: str


@dataclass(frozen=True)
class Flag:
    """A name in one function, or at the top of one file; without a scope, an attribute of whatever
    object, or what functions of a name return."""

    name: str
    scope: ast.AST | None


class Effects:
    """What the conditions of one run's script lead to.

    Args:
        run: The recording.
    """

    def __init__(self, run: Recording) -> None:
        self._root = run.root
        ranks = run.ranks
        self._together = {call[2] for totals in run.totals for call in totals.collectives}
        self._together |= {step.at for steps in run.steps for step in steps}
        self._writes = {e["at"] for rank in ranks for e in run.events(rank, "write") if e["at"]}

    def of(self, at: str) -> Effect | None:
        """The effect of what is decided at a line, ``file.py:12``."""
        path, _, line = at.rpartition(":")
        source = _source(self._root / path)
        if source is None:
            return None
        condition = source.condition(int(line))
        if condition is None:
            return self._later(source.flags_of_line(int(line)), MAX_HOPS)
        direct = self._under(path, condition, at)
        return direct or self._later(source.flags(condition), MAX_HOPS)

    def _under(self, path: str, node: ast.If | ast.While, at: str) -> Effect | None:
        inside = {f"{path}:{n}" for n in range(node.lineno, (node.end_lineno or 0) + 1)}
        if inside & self._together or _leaves(node):
            return Effect("together", at)
        return Effect("write", at) if inside & self._writes else None

    def _later(self, flags: set[Flag], hops: int) -> Effect | None:
        """What other conditions do that read one of ``flags``."""
        if not flags or not hops:
            return None
        found: list[Effect] = []
        further: set[Flag] = set()
        for path, source in self._sources.items():
            for node in source.reading(flags):
                if effect := self._under(path, node, f"{path}:{node.test.lineno}"):
                    found.append(effect)
                further |= source.flags(node)
            further |= source.copies(flags) | source.parameters(flags)
        known = min(found, key=lambda one: one.kind, default=None)
        return known or self._later(further - flags, hops - 1)

    @cached_property
    def _sources(self) -> dict[str, Source]:
        paths = {at.rpartition(":")[0] for at in self._together | self._writes}
        found = {path: _source(self._root / path) for path in sorted(paths) if path}
        return {path: source for path, source in found.items() if source is not None}


class Source:
    """One file of the script.

    Args:
        tree: Its syntax tree.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree, self._nodes = tree, list(ast.walk(tree))
        self._functions = [node for node in self._nodes if isinstance(node, _FUNCTIONS)]
        self._conditions = [node for node in self._nodes if isinstance(node, (ast.If, ast.While))]

    def condition(self, line: int) -> ast.If | ast.While | None:
        """The condition whose test is at ``line``."""
        return next((node for node in self._conditions if _covers(node.test, line)), None)

    def flags(self, condition: ast.If | ast.While) -> set[Flag]:
        """What is set under a condition."""
        return {flag for one in ast.walk(condition) for flag in self._set(one)}

    def flags_of_line(self, line: int) -> set[Flag]:
        """What a statement at ``line`` sets to the result of a comparison in it."""
        return {
            flag for node in self._nodes
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and _covers(node, line)
            for flag in self._set(node)
        }  # fmt: skip

    def reading(self, flags: set[Flag]) -> Iterator[ast.If | ast.While]:
        """Conditions that read one of ``flags``."""
        return (node for node in self._conditions if self._reads(node.test, flags))

    def copies(self, flags: set[Flag]) -> set[Flag]:
        """What is set to a value that holds one of ``flags``."""
        return {
            flag for node in self._nodes
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return))
            and node.value is not None and self._reads(node.value, flags)
            for flag in self._set(node)
        }  # fmt: skip

    def parameters(self, flags: set[Flag]) -> set[Flag]:
        """Parameters of this file's functions that are given one of ``flags``."""
        found: set[Flag] = set()
        for call in self._nodes:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                for function in self._functions:
                    if function.name == call.func.id:
                        found |= self._given(function, call, flags)
        return found

    def _given(self, function: ast.AST, call: ast.Call, flags: set[Flag]) -> set[Flag]:
        assert isinstance(function, _FUNCTIONS)
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        pairs = [*zip(names, call.args, strict=False),
                 *((one.arg or "", one.value) for one in call.keywords)]  # fmt: skip
        return {Flag(name, function) for name, value in pairs if self._reads(value, flags)}

    def _reads(self, value: ast.AST, flags: set[Flag]) -> bool:
        return any(flag in flags for node in ast.walk(value) for flag in self._named(node))

    def _set(self, node: ast.AST) -> Iterator[Flag]:
        if isinstance(node, ast.Return):
            function = self._scope(node.lineno)
            if isinstance(function, _FUNCTIONS):
                yield Flag(f"{function.name}()", None)
        targets = node.targets if isinstance(node, ast.Assign) else (
            [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else [])  # fmt: skip
        for target in targets:
            yield from self._named(target)

    def _named(self, node: ast.AST) -> Iterator[Flag]:
        if isinstance(node, ast.Name):
            yield Flag(node.id, self._scope(node.lineno))
        elif isinstance(node, ast.Attribute):
            yield Flag(f".{node.attr}", None)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield Flag(f"{name}()", None)

    def _scope(self, line: int) -> ast.AST:
        around = [node for node in self._functions if _covers(node, line)]
        return max(around, key=lambda node: node.lineno, default=self._tree)


@lru_cache(maxsize=64)
def _source(path: Path) -> Source | None:
    if not path.is_file():
        return None
    return Source(ast.parse(path.read_text(encoding="utf-8", errors="replace")))


def _covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _leaves(node: ast.AST) -> bool:
    """Whether a loop or a function may be left under the condition."""
    return isinstance(node, ast.While) or any(
        isinstance(one, (ast.Break, ast.Continue)) for one in ast.walk(node)
    )
