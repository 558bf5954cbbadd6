"""What a converted training script calls to train, on any number of ranks, as one process would."""

from ddpify.runtime.files import local_main_first, save
from ddpify.runtime.loader import replicate, shard
from ddpify.runtime.loggers import silent
from ddpify.runtime.model import unwrap, wrap
from ddpify.runtime.process import (
    barrier,
    device,
    init,
    is_main,
    local_rank,
    rank,
    world_size,
)
from ddpify.runtime.reduce import gather, global_batch_size, mean, split, sum

__all__ = [
    "barrier",
    "device",
    "gather",
    "global_batch_size",
    "init",
    "is_main",
    "local_main_first",
    "local_rank",
    "mean",
    "rank",
    "replicate",
    "save",
    "shard",
    "silent",
    "split",
    "sum",
    "unwrap",
    "world_size",
    "wrap",
]
