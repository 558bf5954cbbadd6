"""What a user may choose about a conversion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Choices for one conversion.

    ``sampler``: "exact" slices the script's own global batches; "distributed" uses PyTorch's
    ``DistributedSampler``, whose order differs from the original's. ``alias``: the name under
    which the converted script imports the runtime helper. ``vendored``: import the helper from
    the file beside the output instead of from ddpify.
    """

    sampler: str = "exact"
    sync_batchnorm: bool = True
    alias: str = "dd"
    vendored: bool = False

    @property
    def import_line(self) -> str:
        """The line that brings the runtime helper in."""
        if self.vendored:
            return f"import ddpify_runtime as {self.alias}"
        return f"from ddpify import runtime as {self.alias}"
