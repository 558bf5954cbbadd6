"""Rules as the engine sees them: a function, and what its module says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ddpify.codes import BY_NAME, CODES, module_of
from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.scripts.script_kinds import CONVERTED, SINGLE
from ddpify.records import record

if TYPE_CHECKING:
    import libcst as cst

    from ddpify.lint.scripts.script import Script
    from ddpify.understanding.facts import Site

# Found by the engine itself, without a rule file.
ENGINE_CODES = frozenset({"DDP000", "DDP001", "DDP004"})
TEXT_CODES = frozenset({"DDP905"})  # also found in files that are not Python


@record
class Finding:
    """What a rule yields: the node that it is about, one sentence, and perhaps a fix.

    ``about`` are the places themselves, where the node is a call that leads to them.
    ``confidence`` is at most that of the rule.
    """

    node: cst.CSTNode
    message: str
    fix: Fix | None = None
    about: tuple[Site, ...] = ()
    confidence: Confidence = Confidence.CERTAIN


Check = Callable[["Script"], Iterator[Finding]]


@record
class Rule:
    """One rule. ``applies`` are the kinds of script that it looks at; ``confidence`` is how sure a
    finding is where nothing is unknown; ``fixes`` are the kinds of fix that it may offer.
    """

    code: str
    name: str
    group: str
    severity: Severity
    applies: frozenset[str]
    check: Check
    documentation: str
    confidence: Confidence = Confidence.CERTAIN
    fixes: tuple[str, ...] = ()


def rule(
    name: str,
    *,
    group: str,
    severity: Severity,
    applies: str,
    confidence: Confidence = Confidence.CERTAIN,
    fixes: str = "",
) -> Callable[[Check], Rule]:
    """Make a rule of a function; its page is the docstring of its module.

    ``applies`` lists kinds: "single" (one process), "distributed", "other" (neither seen), and
    "converted": one process, where the rule's findings are what `ddpify convert` does about it.
    ``fixes`` lists "safe" and "unsafe".
    """

    def decorate(check: Check) -> Rule:
        page = import_module(check.__module__).__doc__ or ""
        kinds = frozenset(applies.split())
        offered = tuple(fixes.split())
        return Rule(BY_NAME[name], name, group, severity, kinds, check, page, confidence, offered)

    return decorate


def of_convert(script: Script, code: str) -> Iterator[Finding]:
    """What `ddpify convert` would do about one rule's subject in a script of one process."""
    for step in script.steps:
        if step.code == code and step.site.module is script.module:
            yield Finding(step.site.node, step.text)


def findings(rule: Rule, script: Script) -> Iterator[Finding]:
    """What a rule finds in a script of any kind."""
    if script.kind in rule.applies:
        yield from rule.check(script)
    elif script.kind == SINGLE and CONVERTED in rule.applies:
        yield from of_convert(script, rule.code)


@cache
def load(code: str) -> Rule:
    """The rule with this code."""
    module = import_module(f"ddpify.lint.rules.{module_of(code)}")
    found = next(held for held in vars(module).values() if isinstance(held, Rule))
    assert found.code == code
    return found


def load_all(codes: set[str] | None = None) -> list[Rule]:
    """All rules, or those with these codes, in the order of codes."""
    chosen = set(CODES) if codes is None else codes
    return [load(code) for code in sorted(chosen - ENGINE_CODES)]
