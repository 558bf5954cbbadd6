"""Environment variables of launchers and backends that more than one part of ddpify knows."""

from __future__ import annotations

LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What a launcher sets for each process."""

RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
}
"""Former names of PyTorch's variables for NCCL, and what they are called now."""

UNREAD = ("NCCL_TIMEOUT",)
"""What is often set and nothing reads."""
