"""What a script that is converted already says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts.places import Site
from ddpify.understanding.values import Instance


@dataclass(repr=False, slots=True)
class RuntimeUses:
    """What a script does with ddpify's runtime, or with models that are wrapped."""

    # Loaders with how the script shares them, and wrapped models.
    shared: dict[Instance, str] = field(default_factory=dict)
    wrapped: dict[Instance, Site] = field(default_factory=dict)
    reads_arguments: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of the command line
    unwraps: dict[cst.CSTNode, Site] = field(default_factory=dict)  # model.module
