"""The ranks together: one group, right sums, their speed, and their clocks."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from ddpify.doctor.findings import Finding, error, merged, note, warning
from ddpify.doctor.joining import Place, explained, join
from ddpify.doctor.links import check_links
from ddpify.doctor.shared_folder import check_folder

AREA = "ranks"
_REPETITIONS = 10
_PINGS = 20
_SKEW = 0.1
"""Seconds between two clocks that are worth a warning."""
_SLOW_BUS = {True: 5.0, False: 1.0}
"""GB/s below which GPUs seem not to use their links: on one node, and between nodes."""


def check_group(own: list[Finding], place: Place, wait: float) -> list[Finding] | None:
    """Join the other ranks and test them; on rank 0 the findings of all, elsewhere None.

    Where the ranks cannot join, each has its own findings and the reason.

    Args:
        own: What this rank has found by itself.
        place: Where it stands among the ranks.
        wait: Seconds that ranks wait for each other.
    """
    device = _device(place.local_rank)
    failure = join(place, device, wait)
    if failure is not None:
        return [*own, failure]
    try:
        found = [*own, *_tests(device, place.rank, place.size)]
        gathered: list[list[Finding]] = [[] for _ in range(place.size)]
        dist.all_gather_object(gathered, found)
        dist.destroy_process_group()
    except RuntimeError as raised:
        return [*own, explained(raised)]
    return merged(gathered) if place.rank == 0 else None


def _device(local_rank: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _tests(device: torch.device, rank: int, size: int) -> Iterator[Finding]:
    hosts = _together({"host": socket.gethostname(), "torch": str(torch.__version__)}, size)
    nodes = len({one["host"] for one in hosts})
    backend = "NCCL" if device.type == "cuda" else "gloo"
    yield note(AREA, f"{size} ranks on {nodes} node(s) in one group, with {backend}")
    versions = sorted({one["torch"] for one in hosts})
    if len(versions) > 1:
        yield error(AREA, f"ranks have torch {', '.join(versions)}", "install one version on all")
    yield from _sums(device, rank, size)
    yield from _speed(device, size, nodes)
    names = [one["host"] for one in hosts]
    yield from check_links(device, rank, names)
    yield from check_folder(rank, names)
    yield from _clocks(rank, size)


def _together(value: Any, size: int) -> list[Any]:
    gathered = [None] * size
    dist.all_gather_object(gathered, value)
    return gathered


def _sums(device: torch.device, rank: int, size: int) -> Iterator[Finding]:
    """Each rank's numbers are different, and so are those at different places."""
    places = torch.arange(1000, device=device)
    for kind in (torch.int64, torch.float32):
        numbers = (places + rank).to(kind)
        dist.all_reduce(numbers)
        expected = (places * size + size * (size - 1) // 2).to(kind)
        if not torch.equal(numbers, expected):
            remedy = "test the GPUs and links; NCCL_P2P_DISABLE=1 tells whether P2P is at fault"
            yield error(AREA, f"an all-reduce of {kind} gives wrong sums", remedy)


def _speed(device: torch.device, size: int, nodes: int) -> Iterator[Finding]:
    if size == 1:
        return
    gpu = device.type == "cuda"
    large = torch.ones((256 if gpu else 16) << 18, device=device)
    latency, seconds = _time(torch.ones(1, device=device)), _time(large)
    # Of a ring, each rank sends and receives 2 (W - 1) / W times the data.
    bus = large.numel() * 4 * 2 * (size - 1) / size / seconds / 1e9
    all_of_them = _together((latency, bus), size)
    latency = statistics.median(one[0] for one in all_of_them)
    bus = round(min(one[1] for one in all_of_them), 2)
    yield note(AREA, f"all-reduce: {latency * 1e6:.0f} us for one number, {bus} GB/s of bus")
    if gpu and bus < _SLOW_BUS[nodes == 1]:
        where = "nvidia-smi topo -m, NCCL_DEBUG=INFO" if nodes == 1 else "NCCL_DEBUG=INFO"
        remedy = f"see which links NCCL chose: {where}"
        yield warning(AREA, f"an all-reduce moves only {bus} GB/s", remedy)


def _time(tensor: torch.Tensor) -> float:
    """Seconds of an all-reduce, the median of some."""
    times = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        dist.all_reduce(tensor)
        if tensor.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def _clocks(rank: int, size: int) -> Iterator[Finding]:
    """How far each rank's clock is from rank 0's, from the quickest of several exchanges."""
    offsets = _together([_offset(rank, other) for other in range(1, size)], size)[0]
    if not offsets:
        return
    worst = max(offsets, key=abs)
    text = f"clocks of the ranks differ by up to {abs(worst) * 1e3:.1f} ms"
    if abs(worst) > _SKEW:
        remedy = "start NTP or chrony on all nodes: logs and file times are out of order"
        yield warning(AREA, text, remedy)
    else:
        yield note(AREA, text)


def _offset(rank: int, other: int) -> float:
    """Seconds that ``other``'s clock is ahead of rank 0's; 0 on ranks that do not take part."""
    stamp = torch.zeros(1, dtype=torch.float64)
    best, offset = float("inf"), 0.0
    for _ in range(_PINGS if rank in (0, other) else 0):
        if rank == other:
            dist.recv(stamp, 0)
            dist.send(torch.tensor([time.time()], dtype=torch.float64), 0)
            continue
        start = time.time()
        dist.send(stamp, other)
        dist.recv(stamp, other)
        end = time.time()
        if end - start < best:
            best, offset = end - start, stamp.item() - (start + end) / 2
    return offset
