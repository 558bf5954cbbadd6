"""Environment variables of launchers and backends that more than one part of ddpify knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpify.launching.quoting import shell_word

LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What a launcher sets for each process."""

RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
}
"""Former names of PyTorch's variables for NCCL, and what they are called now."""

UNREAD = ("NCCL_TIMEOUT",)
"""What is often set and nothing reads."""

MEANING = {
    "GLOO_SOCKET_IFNAME": "The network that gloo uses between nodes.",
    "NCCL_SOCKET_IFNAME": "The network that NCCL uses to meet, and for data without InfiniBand.",
    "NCCL_IB_HCA": "The InfiniBand devices that NCCL uses.",
    "NCCL_IB_DISABLE": "1: NCCL uses TCP although there may be InfiniBand.",
    "NCCL_DEBUG": "What NCCL says about its choices; INFO names links and devices.",
    "NCCL_DEBUG_FILE": "Where it says so: a file for each process, by host (%h) and process (%p).",
    "NCCL_P2P_DISABLE": "1: GPUs of a node exchange data through the host.",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1: a node that comes back is told where the ranks meet.",
    "OMP_NUM_THREADS": "CPU threads of each process.",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "What PyTorch does when a collective fails or lasts.",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL checks every collective on all ranks first, which is slow.",
    "PYTORCH_CUDA_ALLOC_CONF": "How PyTorch's allocator divides the memory of a GPU.",
}
"""What variables are for, as the launch files say above them."""


def exports(variables: Mapping[str, str]) -> Iterator[str]:
    """Lines of a shell script that set variables, with a comment above those that are known."""
    for name, value in variables.items():
        if name in MEANING:
            yield f"# {MEANING[name]}"
        yield f"export {name}={shell_word(value)}"
