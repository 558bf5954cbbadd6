"""What DistributedDataParallel measures about itself: its buckets, and what backward hides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from ddpify.verify.inside.patching import replace

NANO = 1e-9


@dataclass(frozen=True)
class Backward:
    """One backward of one wrapped model, in seconds.

    Attributes:
        communication: From the first bucket's start to the last one's end.
        hidden: The part of that in which backward still computed.
        spans: What it did from when to when, on the clock of ``time.time``.
    """

    communication: float
    hidden: float
    spans: tuple[tuple[str, float, float], ...]

    @property
    def exposed(self) -> float:
        """What the script waits for."""
        return max(self.communication - self.hidden, 0.0)


@dataclass
class WrappedModels:
    """The models that DistributedDataParallel wraps in this process."""

    models: list[DistributedDataParallel] = field(default_factory=list)

    def watch(self) -> None:
        """Note each model from now on, and let it measure every step."""
        begin = DistributedDataParallel.__init__

        def construct(model: Any, *args: Any, **kwargs: Any) -> None:
            begin(model, *args, **kwargs)
            model._set_ddp_runtime_logging_sample_rate(1)
            self.models.append(model)

        replace(DistributedDataParallel, "__init__", construct)

    def last(self) -> list[Backward]:
        """The last backward of each model."""
        return [_backward(told) for told in self._told()]

    def buckets(self) -> list[int]:
        """Bytes of the buckets, as they are after the first step."""
        sizes = [
            told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes") for told in self._told()
        ]
        return [int(size) for text in sizes if text for size in str(text).split(",")]

    def _told(self) -> list[dict[str, Any]]:
        found = []
        for model in self.models:
            logger: Any = getattr(model, "logger", None)
            if logger is not None and hasattr(model, "reducer"):
                # It reads its timers in forward alone: without this, it tells of the step before.
                logger.set_runtime_stats_and_log()
                found.append(model._get_ddp_logging_data())  # type: ignore[no-untyped-call]
        return found


def _backward(told: dict[str, Any]) -> Backward:
    names = (("backward", "backward_compute_time"), ("gradients", "backward_comm_time"))
    spans = tuple(
        (kind, told[f"{name}_start"] * NANO, told[f"{name}_end"] * NANO)
        for kind, name in names
        if told.get(f"{name}_start") and told.get(f"{name}_end")
    )
    communication = told.get("backward_comm_time", 0) * NANO
    hidden = told.get("backward_compute_comm_overlap_time", 0) * NANO
    return Backward(communication, min(hidden, communication), spans)
