"""Models that each rank puts on all GPUs before it wraps them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument

_ON_ALL = ("auto", "balanced", "balanced_low_0", "sequential")


def spread_models(script: Script) -> Iterator[cst.Arg]:
    """``device_map="auto"`` of a wrapped model that this file makes."""
    for wrap in script.wraps:
        for model in wrap.held:
            if not isinstance(model.site, cst.Call) or model.site not in script.structure.order:
                continue
            given = argument(model.site, "device_map")
            if given is not None and script.value(given.value).constant() in _ON_ALL:
                yield given
