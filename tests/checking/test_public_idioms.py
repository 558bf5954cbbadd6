"""What public scripts showed: devices named early, mixed samples, streams of which one rank used
more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddpify.checking import Report
from ddpify.checking.outside import _repeated
from ddpify.verify.launch.worker import _Watch

Checked = Callable[..., tuple[Report, list[str]]]


def test_lines_that_differ_in_their_rank_alone_are_fine() -> None:
    line = "RANK and WORLD_SIZE in environ: {}/2"
    assert _repeated([line.format(0)], [line.format(1)], 1) is None
    assert _repeated(["rank sum: 0.5"], ["rank sum: 0.7"], 1) is not None


def test_samples_that_are_mixed_by_chance_are_still_the_same(checked: Checked) -> None:
    mixed = "            x = x * float(torch.rand(())) + x.flip(0)\n"
    report, lines = checked(
        "sampled",
        ("batch_size=8, sampler=sampler)", "batch_size=8)"),
        ("            loss = nn", f"{mixed}            loss = nn"),
    )
    assert [one.code for one in report.findings][:1] == ["DDP101"]
    assert "loader = DataLoader(train_set" in lines[(report.findings[0].line or 0) - 1]


def test_one_stream_of_batches_of_which_a_rank_has_used_more(checked: Checked) -> None:
    loader = "loader = DataLoader(Texts(rank, world), batch_size=4)"
    drawn = (
        "torch.manual_seed(3)\n    torch.randint(20, (rank, 4, 9))\n"
        "    loader = torch.randint(20, (8, 4, 9))"
    )
    report, _ = checked("averaged", (loader, drawn))
    assert "DDP106" in [one.code for one in report.findings]


def test_a_device_without_an_index_is_the_one_set_later(checked: Checked) -> None:
    start = "def main():\n"
    early = (
        "import os\n\nDEVICE = torch.device('cuda')\n\ndef main():\n"
        "    if torch.cuda.device_count() < 2:\n        return\n"
        "    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
    )
    report, _ = checked("averaged", (start, early))
    assert report.failure is None
    assert [one.code for one in report.findings] == []
    assert min(report.steps) > 2


def test_updates_that_one_rank_leaves_out_until_the_limit(checked: Checked) -> None:
    step = "            optimizer.step()\n"
    report, lines = checked(
        "sampled", (step, "            if rank == 0:\n                optimizer.step()\n"), steps=4
    )
    assert [one.code for one in report.findings] == ["DDP407"]
    assert "optimizer.step()" in lines[(report.findings[0].line or 0) - 1]


def test_a_rank_that_has_hardly_begun_is_left_alone(tmp_path: Path) -> None:
    job: Any = SimpleNamespace(out=str(tmp_path))
    watch = _Watch(job, {os.getpid(): 0})
    watch._dump_stacks()  # a signal would end this process
    assert watch._stacks() == []
