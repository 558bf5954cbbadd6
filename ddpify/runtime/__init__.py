"""What a converted training script calls to train, on any number of ranks, as one process would."""

from ddpify.runtime.accumulation import sync_gradients
from ddpify.runtime.averaging import averaged
from ddpify.runtime.batch import shard_batch
from ddpify.runtime.broadcasting import broadcast
from ddpify.runtime.cycling import cycle
from ddpify.runtime.denominators import target_weight
from ddpify.runtime.dtensor import full_tensor
from ddpify.runtime.files import load, local_main_first, main_saves, save
from ddpify.runtime.gradient_hooks import gradient_hook
from ddpify.runtime.joined import scale_lr
from ddpify.runtime.loader import replicate, shard
from ddpify.runtime.loggers import silent
from ddpify.runtime.loss_scale import wrap_scaler
from ddpify.runtime.main_writes import main_writes
from ddpify.runtime.model import unwrap, wrap
from ddpify.runtime.padding import pad_packed_sequence
from ddpify.runtime.process import (
    barrier,
    device,
    is_main,
    local_rank,
    rank,
    world_size,
)
from ddpify.runtime.ragged import drawn_ragged, gather_ragged
from ddpify.runtime.reduce import (
    gather,
    global_batch_size,
    global_like,
    global_shape,
    mean,
    split,
    sum,
)
from ddpify.runtime.reraising import reraise
from ddpify.runtime.resume import resumable, snapshot
from ddpify.runtime.rng import drawn_alike, shared_generator
from ddpify.runtime.sample_hooks import batch_gradient_hook, batch_hook
from ddpify.runtime.several_loaders import first, use_batch_of
from ddpify.runtime.sharded_files import load_sharded, save_sharded
from ddpify.runtime.share import replicated
from ddpify.runtime.spread import spread
from ddpify.runtime.squeezing import squeeze, squeeze_
from ddpify.runtime.start import init
from ddpify.runtime.taking import take
from ddpify.runtime.trained_tensors import gradient_scale, trained_rows, trained_tensor

__all__ = [
    "averaged",
    "barrier",
    "batch_gradient_hook",
    "batch_hook",
    "broadcast",
    "cycle",
    "device",
    "drawn_alike",
    "drawn_ragged",
    "first",
    "full_tensor",
    "gather",
    "gather_ragged",
    "global_batch_size",
    "global_like",
    "global_shape",
    "gradient_hook",
    "gradient_scale",
    "init",
    "is_main",
    "load",
    "load_sharded",
    "local_main_first",
    "local_rank",
    "main_saves",
    "main_writes",
    "mean",
    "pad_packed_sequence",
    "rank",
    "replicate",
    "replicated",
    "reraise",
    "resumable",
    "save",
    "save_sharded",
    "scale_lr",
    "shard",
    "shard_batch",
    "shared_generator",
    "silent",
    "snapshot",
    "split",
    "spread",
    "squeeze",
    "squeeze_",
    "sum",
    "sync_gradients",
    "take",
    "target_weight",
    "trained_rows",
    "trained_tensor",
    "unwrap",
    "use_batch_of",
    "world_size",
    "wrap",
    "wrap_scaler",
]
