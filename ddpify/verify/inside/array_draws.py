"""NumPy's random arrays drawn in a training loop come from their place in it; scalars stay in the
shared stream."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ddpify.verify.inside.place import PLACE, kept_states
from ddpify.verify.inside.randomness import states


def install() -> None:
    """Replace NumPy's functions that draw, if it is loaded."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return

    sized = {"normal": 2, "uniform": 2, "randint": 2, "random": 0, "random_sample": 0}
    for name, position in {**sized, "standard_normal": 0, "randn": None, "rand": None}.items():
        _replace_numpy(numpy, name, position)


def _replace_numpy(numpy: Any, name: str, position: int | None) -> None:
    real = getattr(numpy.random, name)

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        made_size: Any = args if position is None else kwargs.get("size")
        if position is not None and made_size is None and len(args) > position:
            made_size = args[position]
        if not made_size or not PLACE.replaced():
            return real(*args, **kwargs)
        sizes = [made_size] if isinstance(made_size, int) else made_size
        seed = PLACE.seed([int(size) for size in sizes], states()["numpy"])
        with kept_states():
            numpy.random.seed(seed)
            made = real(*args, **kwargs)
        if not PLACE.equal_rows:
            return made
        return numpy.broadcast_to(made[:1], made.shape).copy()

    setattr(numpy.random, name, draw)
