"""Pitfalls in other words are found; those that are not yet are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.variants import NOT_FOUND, VARIANTS, Variant

RIGHT = Path(__file__).parent / "right"


@pytest.fixture(autouse=True)
def recent_torch(tmp_path: Path) -> None:
    """A project that requires a PyTorch in which all old names are deprecated."""
    (tmp_path / "requirements.txt").write_text("torch>=2.13\n")


def planted(variant: Variant) -> str:
    text = (RIGHT / f"{variant.script}.py").read_text()
    for old, new in variant.changes:
        assert text.count(old) == 1, f"{old!r} must occur once in {variant.script}.py"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.name)
def test_a_variant_is_found(variant: Variant, lint_text: Lint) -> None:
    found = {one.code for one in lint_text(planted(variant))}
    assert bool(found & set(variant.codes.split())) is (variant.name not in NOT_FOUND)


def test_most_variants_are_found() -> None:
    assert set(NOT_FOUND) <= {one.name for one in VARIANTS}
