"""Every rule's page: its bad examples are found, its good ones are not, and its fixes mend."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from ddpify.codes import BY_NAME, CODES
from ddpify.lint import explain, fixer
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.explain import Example, examples, sections
from ddpify.lint.registry import ENGINE_CODES, Rule, load_all
from tests.lint.conftest import Lint
from tests.lint.setups import FILES, SETUPS

RULES = load_all()
FIXES = {rule.code: rule.fixes for rule in RULES}
EXAMPLES = [
    pytest.param(rule.code, one, id=f"{rule.code}-{one.section.replace(' ', '-').lower()}-{number}")
    for rule in RULES
    for number, one in enumerate(examples(rule.documentation))
]
# That the others have none, test_examples sees to.
WITH_FIXES = [one for one in EXAMPLES if FIXES[str(one.values[0])]]


def text_of(one: Example) -> str:
    return SETUPS[one.setup] + one.code


def put_beside(one: Example, folder: Path) -> None:
    for name, text in FILES.get(one.setup, {}).items():
        (folder / name).write_text(text)


def test_codes_and_names_are_unique() -> None:
    assert len(BY_NAME) == len(CODES)
    assert {rule.code for rule in RULES} == set(CODES) - ENGINE_CODES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_is_complete(rule: Rule) -> None:
    found = sections(rule.documentation)
    assert found[""].splitlines()[0].endswith(".")
    assert set(found) - {""} <= set(explain.SECTIONS)
    for title in (
        "What it does",
        "Why is this bad",
        "Example",
        "Use instead",
        "Also fine",
        "References",
    ):
        assert found.get(title), title


@pytest.mark.parametrize(("code", "example"), EXAMPLES)
def test_examples(code: str, example: Example, lint_text: Lint, tmp_path: Path) -> None:
    put_beside(example, tmp_path)
    found = lint_text(text_of(example), strict=example.setup == "strict")
    own = [one.message for one in found if one.code == code]
    assert bool(own) == (example.section == "Example"), own
    for one in found:  # fixes are of the kinds that the page names
        assert one.fix is None or one.fix.applicability.name.lower() in FIXES[one.code]


@pytest.mark.parametrize("code", FIXES)
def test_a_page_names_its_fixes(code: str) -> None:
    shown = json.loads(explain.as_json(code))
    assert shown["fixes"] == list(FIXES[code])
    assert ("Fix: none." in shown["page"]) is not bool(FIXES[code])


@pytest.mark.parametrize(("code", "example"), WITH_FIXES)
def test_fixes_mend(code: str, example: Example, lint_text: Lint, tmp_path: Path) -> None:
    text = text_of(example)
    put_beside(example, tmp_path)

    @cache
    def check(source: str) -> list[Diagnostic]:
        return lint_text(source, select=(code,))

    before = check(text)
    fixed, count = fixer.fix_until_stable(text, check, unsafe=True, compiles=lambda _: True)
    compile(fixed, "fixed.py", "exec")
    assert not any(one.fixable for one in check(fixed))
    assert bool(count) == any(one.fixable for one in before)


@pytest.mark.parametrize("name", ["distributed", "single"])
def test_setups_are_clean_by_themselves(name: str, lint_text: Lint) -> None:
    single = name == "single"
    assert all(one.single for one in lint_text(SETUPS[name])) or not single
    if not single:
        assert lint_text(SETUPS[name]) == []
