"""Same data? For batches that no map-style loader made: by what enters the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import convert_file
from ddpify.verify import Kind, Verdict, What, render, verify
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES

HEAD = """
import os, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
torch.manual_seed(0)
class Net(torch.nn.Linear):
    def forward(self, *, features):
        return super().forward(features)
model = Net(6, 1)
if several:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stock = torch.randn(40, 6)
def train(x):
    loss = (model(features=x) - x.sum(-1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BY_HAND = """
draw = torch.Generator().manual_seed({seed})
for step in range(4):
    whole = stock[torch.randint(40, (8,), generator=draw)]
    train({part})
"""
TIME_MAJOR = """
draw = torch.Generator().manual_seed({seed})
for step in range(4):
    whole = stock[torch.randint(40, (24,), generator=draw)].view(3, 8, 6)
    train({part})
"""
STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        order = torch.randperm(40, generator=torch.Generator().manual_seed({seed}))
        yield from stock[order]
for whole in DataLoader(Stream(), batch_size=8):
    train({part})
"""
LISTS = """
class Pictures(torch.nn.Linear):
    def forward(self, pictures):
        return super().forward(torch.stack([picture.mean(0) for picture in pictures]))
model = Pictures(6, 1)
if several:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draw = torch.Generator().manual_seed({seed})
for step in range(4):
    sizes = torch.randint(1, 5, (8,), generator=draw).tolist()
    whole = [torch.randn(size, 6, generator=draw) for size in sizes]
    loss = model({part}).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ROWS, COLUMNS = "whole[rank::world]", "whole[:, rank::world]"
PARTS = [(BY_HAND, ROWS), (TIME_MAJOR, COLUMNS), (STREAM, ROWS), (LISTS, ROWS)]


def verdict_on(folder: Path, worker: Worker, loop: str, **values: str) -> Verdict:
    """The verdict on a script that is its own port, with an original that knows no ranks."""
    original, port = folder / "train.py", folder / "port.py"
    original.write_text(HEAD + loop.format(seed="1", part="whole"))
    port.write_text(HEAD + loop.format(**{"seed": "1", "part": "whole", **values}))
    return verify(original, port, worker=worker, timeout=300)


@pytest.mark.parametrize(("loop", "part"), PARTS)
def test_each_rank_its_part(loop: str, part: str, tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, loop, part=part)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].same_data is True


@pytest.mark.parametrize(("loop", "part"), PARTS)
@pytest.mark.parametrize("wrong", [{"seed": "1 + rank"}, {"part": "whole"}])
def test_other_samples(
    loop: str, part: str, wrong: dict[str, str], tmp_path: Path, worker: Worker
) -> None:
    verdict = verdict_on(tmp_path, worker, loop, **{"part": part, **wrong})
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].same_data is False
    found = verdict.comparisons[0].differences[0]
    assert found.what is What.DATA
    assert found.cause is not None
    stream = loop is STREAM and "part" in wrong
    assert found.cause.rules[0] == ("DDP105" if stream else "DDP106")


def test_a_stream_in_another_order_is_replayed(tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, STREAM, seed="2", part=ROWS)
    assert verdict.kind is Kind.EXCEPT, render(verdict)
    assert [cause.name for cause in verdict.named] == ["order"]
    comparison = verdict.comparisons[0]
    assert (comparison.same_data, comparison.same_arithmetic) == (False, True)
    assert comparison.replayed


def test_a_wrong_loss_on_a_stream_in_another_order(tmp_path: Path, worker: Worker) -> None:
    half = "(whole[rank::world] if rank else whole[:1])"
    verdict = verdict_on(tmp_path, worker, STREAM, seed="2", part=half)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)


def test_more_rows_than_are_kept_are_no_difference(tmp_path: Path, worker: Worker) -> None:
    many = BY_HAND.replace("(8,)", "(9000,)")
    verdict = verdict_on(tmp_path, worker, many, part=ROWS)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


FORWARD_CALLED = """
net = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
call = torch.nn.parallel.DistributedDataParallel(net) if several else net.forward
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
draw = torch.Generator().manual_seed({seed})
for step in range(4):
    whole = stock[torch.randint(40, (8,), generator=draw)]
    loss = call({part}).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_where_nothing_that_enters_can_be_compared_the_gradients_answer(
    tmp_path: Path, worker: Worker
) -> None:
    verdict = verdict_on(tmp_path, worker, FORWARD_CALLED, part=ROWS)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert "same data?        yes, by the gradients of every step" in render(verdict)
    other = verdict_on(tmp_path, worker, FORWARD_CALLED, part=ROWS, seed="2")
    assert other.kind is Kind.NOT_EQUIVALENT, render(other)
    assert "same data?        unknown" in render(other)


def test_a_rank_without_a_sample_may_repeat_all_rows_of_one(tmp_path: Path, worker: Worker) -> None:
    original, port = tmp_path / "train.py", tmp_path / "port.py"
    original.write_text((FIXTURES / "graphs_under_each_other" / "train.py").read_text())
    port.write_bytes(convert_file(original).data)
    verdict = verify(original, port, nproc=(3,), worker=worker)  # the last batches have two samples
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].same_data is True


@pytest.mark.parametrize("part", ["whole[rank * 3 :: world]", "whole[:-2][rank::world]"])
def test_lists_with_other_samples(part: str, tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, LISTS, part=part)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].differences[0].what is What.DATA


def test_the_fixture_with_lists_of_samples(tmp_path: Path, worker: Worker) -> None:
    script = tmp_path / "train.py"
    script.write_bytes((FIXTURES / "lists_of_samples" / "train.py").read_bytes())
    (tmp_path / "train_ddp.py").write_bytes(convert_file(script).data)
    verdict = verify(script, tmp_path / "train_ddp.py", nproc=(2, 3), timeout=60, worker=worker)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
