"""Sequences padded as in one process: as far as the longest of the global batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.utils import rnn

from ddpify.runtime.process import kept
from ddpify.runtime.share import current_share


def pad_packed_sequence(
    sequence: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> Any:
    """``torch.nn.utils.rnn.pad_packed_sequence`` of this rank's sequences.

    Takes and returns the same: padded sequences and their lengths. They are as long as the longest
    sequence of any rank, where no ``total_length`` is given. One collective; none where the current
    batch is not shared.
    """
    if total_length is None and current_share() is not None:
        longest = kept(torch.tensor(len(sequence.batch_sizes), device=sequence.data.device))
        dist.all_reduce(longest, dist.ReduceOp.MAX)
        total_length = int(longest)
    return rnn.pad_packed_sequence(sequence, batch_first, padding_value, total_length)
