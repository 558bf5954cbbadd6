"""The ways to write a use of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def spelled(
    names: str, *, along: str = "dim={d}{keep}", rest: str = "", module: bool = True
) -> list[str]:
    """Each name as a function and a method, along a dimension and over all elements."""
    found = []
    for name in names.split():
        if module:
            found.append(f"torch.{name}({{x}}, {along}){rest}")
        found.append(f"{{x}}.{name}({along}){rest}")
    return found


def over_all(names: str) -> list[str]:
    """Each name as a function and a method without a dimension."""
    pairs = ((f"torch.{name}({{x}})", f"{{x}}.{name}()") for name in names.split())
    return [form for pair in pairs for form in pair]


def expanded(forms: Iterable[str], along: Sequence[str]) -> list[str]:
    """Each form with each dimension, and with and without keepdim."""
    found = []
    for form in forms:
        dimensions = along if "{d}" in form else ("",)
        keeps = ("", "", ", keepdim=True") if "{keep}" in form else ("",)
        for dimension in dimensions:
            for keep in dict.fromkeys(keeps):
                found.append(form.replace("{d}", dimension).replace("{keep}", keep))
    return list(dict.fromkeys(found))
