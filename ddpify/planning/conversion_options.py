"""What a user may choose about a conversion."""

from __future__ import annotations

from ddpify.records import record


@record
class Options:
    """Choices for one conversion.

    ``sampler``: "exact" slices the script's own global batches; "distributed" uses PyTorch's
    ``DistributedSampler``, whose order differs from the original's. ``batch``: "global"
    lets the script's batch size be that of the global batch; "per-rank" that of each rank, so that
    the global batch grows with the number of ranks. ``scale_lr``: the rule, "linear" or "sqrt", by
    which learning rates grow with it; empty for none. ``force``: convert what can be
    converted and mark the rest, where the script would be refused. ``alias``: the name under
    which the converted script imports the runtime helper. ``vendored``: import the helper from
    the file beside the output instead of from ddpify. ``strategy``: "ddp" keeps a full model
    on every rank, "fsdp" shards it, "auto" leaves it to the run. ``mixed_precision``: the dtype
    in which a sharded model runs, such as bfloat16. ``activation_checkpointing``:
    compute the activations of blocks again in backward instead of keeping them.
    ``resume``: let a restart go on from a snapshot, taken every ``snapshot_steps`` steps, or at
    the helper's own interval where it is 0. ``arguments``: those that the script is started with,
    where they decide what it does; empty where any may come.
    """

    sampler: str = "exact"
    batch: str = "global"
    scale_lr: str = ""
    sync_batchnorm: bool = True
    force: bool = False
    alias: str = "dd"
    vendored: bool = False
    strategy: str = "ddp"
    mixed_precision: str | None = None
    activation_checkpointing: bool = False
    resume: bool = False
    snapshot_steps: int = 0
    arguments: tuple[str, ...] = ()

    @property
    def wrap_arguments(self) -> str:
        """What follows the model in the arguments of ``wrap``."""
        given = {
            f'strategy="{self.strategy}"': self.strategy != "ddp",
            f'mixed_precision="{self.mixed_precision}"': self.mixed_precision is not None,
            "activation_checkpointing=True": self.activation_checkpointing,
            "sync_batchnorm=False": not self.sync_batchnorm,
        }
        return "".join(f", {argument}" for argument, wanted in given.items() if wanted)

    @property
    def wrapped_as(self) -> str:
        """What happens to a model, for a note."""
        return {
            "ddp": "wrapped in DistributedDataParallel",
            "fsdp": "sharded (FSDP)",
            "auto": "wrapped in DistributedDataParallel, or sharded (FSDP), by what fits",
        }[self.strategy]

    @property
    def import_line(self) -> str:
        """The line that brings the runtime helper in."""
        if self.vendored:
            return f"import ddpify_runtime as {self.alias}"
        return f"from ddpify import runtime as {self.alias}"

    @property
    def start_line(self) -> str:
        """The line that starts the runtime helper."""
        if not self.resume:
            return f"{self.alias}.init()"
        steps = f", snapshot_steps={self.snapshot_steps}" if self.snapshot_steps else ""
        return f'{self.alias}.init(snapshots="snapshots"{steps})'
