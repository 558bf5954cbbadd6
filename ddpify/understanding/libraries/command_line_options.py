"""Options of the command line, as parsers declare them."""

from __future__ import annotations

from collections.abc import Iterable

from ddpify.understanding.values import Value

PARSERS = ("argparse.ArgumentParser", "configargparse.ArgumentParser")


def attribute_of(names: Iterable[Value], dest: Value | None) -> str | None:
    """The attribute that an option is read by, of the ``names`` that ``add_argument`` gives it."""
    given = dest.constant() if dest is not None else None
    known = [name for name in (one.constant() for one in names) if isinstance(name, str)]
    long = [name for name in known if name.startswith("--")]
    name = given or next(iter(long or known), None)
    return name.lstrip("-").replace("-", "_") if isinstance(name, str) else None
