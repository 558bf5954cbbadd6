"""The codes of all rules, in one table: codes are never changed and never used twice.

A rule's file in ``rules/`` is called as the rule, with underscores.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "DDP000": "syntax-error",
    "DDP001": "unused-suppression",
}

BY_NAME: dict[str, str] = {name: code for code, name in CODES.items()}


def code_of(text: str) -> str | None:
    """The code that a code or a name stands for; None for neither."""
    text = text.strip()
    upper = text.upper()
    if upper in CODES:
        return upper
    return BY_NAME.get(text.lower().replace("_", "-"))


def select(selector: str) -> set[str]:
    """The codes that a selector means: ``ALL``, a code, a prefix of codes, or a name.

    Raises:
        KeyError: No rule is meant.
    """
    if selector.upper() == "ALL":
        return set(CODES)
    exact = code_of(selector)
    if exact is not None:
        return {exact}
    found = {code for code in CODES if selector and code.startswith(selector.strip().upper())}
    if not found:
        raise KeyError(selector)
    return found
