"""Models that each rank puts on all GPUs before it wraps them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.device_maps import device_map, spreads


def spread_models(script: Script) -> Iterator[cst.Arg]:
    """``device_map="auto"`` of a wrapped model that this file makes."""
    for wrap in script.wraps:
        for model in wrap.held:
            if not isinstance(model.site, cst.Call) or model.site not in script.structure.order:
                continue
            given = device_map(model.site)
            if given is not None and spreads(script.value(given.value)):
                yield given
