"""The bandwidth between each pair of ranks: which link is slow."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from ddpify.doctor.findings import Finding, note, warning

AREA = "ranks"
_RANKS = 16
"""The most ranks that are tried in pairs: their number grows with the square."""
_BYTES = {"cuda": 64 << 20, "cpu": 4 << 20}
_REPETITIONS = 4
_SLOW = 0.5
"""The share of the median bandwidth below which a link is called slow."""

Pair = tuple[int, int]


def check_links(device: torch.device, rank: int, hosts: Sequence[str]) -> Iterator[Finding]:
    """Findings about pairs; ``hosts``: each rank's host name, in the order of the ranks.

    All ranks must call it. Of several nodes, the first rank of each takes part.
    """
    firsts = [hosts.index(host) for host in dict.fromkeys(hosts)]
    ranks = (firsts if len(firsts) > 1 else list(range(len(hosts))))[:_RANKS]
    if len(ranks) < 3 or (len(firsts) == 1 and device.type == "cpu"):
        return  # a single pair is what the all-reduce has measured, and one node's CPU has no links
    speeds = [_exchange(device, rank, pair) for pair in itertools.combinations(ranks, 2)]
    found: list[dict[Pair, float]] = [{} for _ in hosts]
    dist.all_gather_object(found, {pair: speed for pair, speed in speeds if speed})
    measured = {pair: speed for one in found for pair, speed in one.items()}
    yield from judged(measured, hosts)


def _exchange(device: torch.device, rank: int, pair: Pair) -> tuple[Pair, float]:
    """GB/s from the pair's first rank to its second and back; 0 on ranks other than the first."""
    data = torch.ones(_BYTES[device.type] // 4, device=device)
    times = []
    for _ in range(_REPETITIONS if rank in pair else 0):
        start = time.perf_counter()
        if rank == pair[0]:
            dist.send(data, pair[1])
            dist.recv(data, pair[1])
        else:
            dist.recv(data, pair[0])
            dist.send(data, pair[0])
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    dist.barrier()  # one pair at a time: links may share a switch
    if rank != pair[0]:
        return pair, 0.0
    # The first exchange also makes the connection.
    return pair, 2 * data.numel() * 4 / min(times[1:]) / 1e9


def judged(measured: dict[Pair, float], hosts: Sequence[str]) -> Iterator[Finding]:
    """A note with the range, and a warning for each link that is far below the others."""
    median = statistics.median(measured.values())
    slowest, fastest = min(measured.values()), max(measured.values())
    text = f"{len(measured)} pairs of ranks: {slowest:.2f} to {fastest:.2f} GB/s, median"
    yield note(AREA, f"{text} {median:.2f}")
    for (one, other), speed in measured.items():
        if speed < _SLOW * median:
            ends = f"rank {one} ({hosts[one]}) and rank {other} ({hosts[other]})"
            message = f"the link between {ends} has {speed:.2f} GB/s, others {median:.2f}"
            remedy = "check its cable, port and switch; on one node, nvidia-smi topo -m"
            yield warning(AREA, message, remedy)
