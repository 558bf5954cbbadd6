"""From the ranks' records to numbers, advice and pages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from ddpify.errors import DdpifyError
from ddpify.profiling.advice import advise
from ddpify.profiling.page import as_html, shares, speedups
from ddpify.profiling.report import as_text
from ddpify.profiling.samples import samples_of
from ddpify.profiling.scaling import GRADIENTS, Point, Profile, point
from ddpify.profiling.timeline import timeline
from ddpify.profiling.weak import scaled

GOOD = Point(
    ranks=1,
    steps=50,
    seconds=0.1,
    data=0.02,
    communication=0.0,
    host=3e8,
    gpu=0.0,
    uneven=0.0,
    cores=8,
    gpus=0,
)


def profile(*points: Point) -> Profile:
    return Profile("train_ddp.py", "2.13", points)


def record(steps: list[tuple[float, float, float]]) -> dict[str, Any]:
    return {"steps": steps, "memory": {"host": 1e9 + len(steps)}, "cores": 4, "gpus": 0}


def test_shares_are_of_the_ordinary_steps() -> None:
    ordinary, with_a_test = (0.1, 0.02, 0.03), (5.0, 4.0, 0.0)
    steps = [(9.0, 9.0, 0.0), *[ordinary] * 9, with_a_test]
    other = [(9.0, 9.0, 0.0), *[(0.1, 0.0, 0.07)] * 10]
    found = point([record(steps), record(other)], warm_up=1)
    assert found is not None
    assert (found.ranks, found.steps, found.seconds) == (2, 10, 0.1)
    assert found.data == pytest.approx(0.1)
    assert found.communication == pytest.approx(0.5)
    assert found.compute == pytest.approx(0.4)
    assert found.uneven == pytest.approx(0.05 / 0.04 - 1)
    assert found.host == 1e9 + 11


def test_too_few_steps() -> None:
    assert point([record([(0.1, 0.0, 0.0)] * 3)], warm_up=2) is None


def test_efficiency() -> None:
    found = profile(GOOD, replace(GOOD, ranks=4, seconds=0.05))
    assert found.speedup(found.points[1]) == pytest.approx(2)
    assert found.efficiency(found.points[1]) == pytest.approx(0.5)


EXPOSED = replace(GOOD, ranks=2, seconds=0.06, communication=0.2, waits=((GRADIENTS, 0.2),))
ADVICE = {
    "all is well": ([replace(GOOD, ranks=2, seconds=0.052)], []),
    "waiting for data": ([replace(GOOD, ranks=2, seconds=0.055, data=0.4)], ["num_workers"]),
    "waiting for ranks": (
        [replace(GOOD, ranks=2, seconds=0.07, communication=0.4)],
        ["accumulate gradients"],
    ),
    "no faster": ([replace(GOOD, ranks=2, seconds=0.098)], ["1.02 times as fast as 1: use 1"]),
    "too few cores": (
        [replace(GOOD, ranks=16, seconds=0.01)],
        ["16 ranks shared 8 CPU core(s)"],
    ),
    "too short": ([replace(GOOD, ranks=2, seconds=0.001)], ["takes 1.0 ms"]),
    "one bucket": (
        [replace(EXPOSED, buckets=(24 << 20,))],
        ["when backward is over. Give DistributedDataParallel bucket_cap_mb=6"],
    ),
    "small buckets": (
        [replace(EXPOSED, buckets=(1 << 16,) * 40)],
        ["40 buckets of 64 KiB on average"],
    ),
    "much to send": (
        [replace(EXPOSED, buckets=(24 << 20,) * 10)],
        ["240 MiB a step. bf16_compress_hook"],
    ),
    "full precision": (
        [replace(GOOD, ranks=2, seconds=0.055, gpus=2, full_precision=True)],
        ["float32 is multiplied in full"],
    ),
    "uneven": ([replace(GOOD, ranks=2, seconds=0.055, uneven=0.5)], ["computes 50% longer"]),
}


@pytest.mark.parametrize(("points", "expected"), ADVICE.values(), ids=ADVICE)
def test_advice(points: list[Point], expected: list[str]) -> None:
    found = advise(profile(GOOD, *points))
    assert len(found) == len(expected)
    assert all(text in said for text, said in zip(expected, found, strict=True))


def test_text_and_page() -> None:
    found = profile(GOOD, replace(GOOD, ranks=2, seconds=0.07, communication=0.4))
    assert re.search(r"^ *2 +14\.29 +1\.43 +71% +58% +40% +2%", as_text(found), re.M)
    page = as_html(found)
    assert "accumulate gradients" in page and "14.29" in page
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", page)


def test_drawings() -> None:
    found = profile(GOOD, replace(GOOD, ranks=2, seconds=0.07, communication=0.4))
    columns = ElementTree.fromstring(shares(found)).findall("rect")
    heights = [float(column.attrib["height"]) for column in columns]
    assert heights[4] / heights[3] == pytest.approx(0.4 / 0.58, rel=0.01)
    assert heights[0] + heights[1] + heights[2] == pytest.approx(sum(heights[3:]), rel=0.01)
    ideal, measured = ElementTree.fromstring(speedups(found)).findall("polyline")
    ends = [float(line.attrib["points"].split(",")[-1]) for line in (ideal, measured)]
    assert ends[0] < ends[1]  # higher is a smaller y


def test_what_the_ranks_wait_for() -> None:
    steps = [(9.0, 9.0, 0.0), *[(0.1, 0.02, 0.03)] * 4]
    calls = [{"barrier": 9.0}, *[{"all_reduce": 0.02, GRADIENTS: 0.01, "data loader": 0.02}] * 4]
    overlap = [(9.0, 0.0), *[(0.04, 0.03)] * 4]
    one = {**record(steps), "calls": calls, "overlap": overlap, "buckets": [1 << 20, 1 << 19]}
    found = point([one, one], warm_up=1)
    assert found is not None
    assert dict(found.waits) == pytest.approx(
        {"all_reduce": 0.2, "data loader": 0.2, GRADIENTS: 0.1}
    )
    text = as_text(profile(found))
    assert "wait for: all_reduce 20%, data loader 20%, DistributedDataParallel 10%" in text
    assert "idle by rank: 0: 50%, 1: 50%" in text
    assert "2 bucket(s) (1 MiB, 0.5 MiB); backward hides 75% of their way" in text


def test_a_timeline_has_a_row_for_each_rank() -> None:
    first = [("step", 50.0, 50.4), ("data", 50.0, 50.1), ("ranks", 50.3, 50.4)]
    second = [("step", 50.1, 50.4), ("backward", 50.2, 50.3)]
    records = [{**record([(0.1, 0.0, 0.0)] * 3), "timeline": one} for one in (first, second)]
    found = point(records, warm_up=0)
    assert found is not None
    drawn = ElementTree.fromstring(timeline(found))
    rows = [text.text for text in drawn.findall("text") if "rank" in str(text.text)]
    assert rows == ["rank 0", "rank 1"]
    widths = {box.find("title").text: float(box.attrib["width"]) for box in drawn.findall("rect")}  # type: ignore[union-attr]
    assert widths["computing 400.00 ms"] == pytest.approx(
        4 * widths["waiting for data 100.00 ms"], rel=0.01
    )
    assert "A step on 2 rank(s)" in as_html(profile(found))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--lr", "1", "--batch-size", "32"], ["--lr", "1", "--batch-size", "96"]),
        (["--batch-size=32", "--x"], ["--batch-size=96", "--x"]),
    ],
)
def test_weak_scaling_multiplies_the_batch(given: list[str], expected: list[str]) -> None:
    assert scaled(given, "--batch-size", 3) == expected


@pytest.mark.parametrize("given", [[], ["--batch-size"], ["--batch-size", "many"]])
def test_weak_scaling_needs_the_option(given: list[str]) -> None:
    with pytest.raises(DdpifyError, match="no --batch-size with a number"):
        scaled(given, "--batch-size", 3)


def test_weak_scaling_counts_the_work() -> None:
    """Steps of four ranks that take as long do four times the work."""
    found = replace(profile(GOOD, replace(GOOD, ranks=4)), weak=True)
    assert found.speedup(found.points[1]) == pytest.approx(4)
    assert found.efficiency(found.points[1]) == pytest.approx(1)
    assert advise(found) == []


@pytest.mark.parametrize(("samples", "speedup"), [((8, 32), 4.0), ((8, 8), 1.0), ((0, 32), 1.0)])
def test_the_speed_up_is_of_samples(samples: tuple[int, int], speedup: float) -> None:
    """A hand-written script's batch size is each rank's: four ranks' steps have four times more."""
    points = [
        replace(GOOD, ranks=n, samples=count) for n, count in zip((1, 4), samples, strict=True)
    ]
    found = profile(*points)
    assert found.speedup(found.points[1]) == pytest.approx(speedup)
    assert ("8 to 32 samples a step" in as_text(found)) == (samples == (8, 32))


def test_weak_scaling_of_a_batch_that_is_each_ranks() -> None:
    points = [replace(GOOD, ranks=n, samples=count) for n, count in ((1, 8), (2, 32))]
    (said,) = advise(replace(profile(*points), weak=True))
    assert said.endswith(
        "8 samples on 1 rank(s) and 32 on 2: the script's batch size is each "
        "rank's already. Leave --weak out."
    )


def test_samples_are_those_of_all_ranks() -> None:
    ranks = [
        {**record([(0.1, 0.0, 0.0)] * 4), "samples": [9, *counts]}
        for counts in ([4, 4, 2], [4, 3, 2])
    ]
    found = point(ranks, warm_up=1)
    assert found is not None and found.samples == 7


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (torch.zeros(5, 2), 5),
        ([torch.tensor(1.0), torch.zeros(3)], 3),
        ({"name": "a", "x": (torch.zeros(4, 1),)}, 4),
        ("no tensor", 0),
    ],
)
def test_samples_of_a_batch(batch: Any, count: int) -> None:
    assert samples_of(batch) == count
