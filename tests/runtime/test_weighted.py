"""Means that divide by other than the number of samples, and the logger of silent ranks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ddpify import runtime as dd
from tests.runtime import ranks

IGNORED = 0


def _train(kind: str) -> dict[str, Any]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    inputs, targets = torch.randn(23, 5), torch.randint(0, 4, (23,))
    targets[:9] = IGNORED  # some ranks' slices of a batch hold nothing that counts
    classes = torch.tensor([1.0, 2.0, 0.5, 3.0])
    loader = dd.shard(DataLoader(TensorDataset(inputs, targets), batch_size=4))
    net = dd.wrap(nn.Linear(5, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        if kind == "ignored":
            loss = F.cross_entropy(net(x), y, ignore_index=IGNORED)
            loss = dd.mean(loss, weight=(y != IGNORED).sum())
        else:
            loss = dd.mean(F.cross_entropy(net(x), y, weight=classes), weight=classes[y].sum())
        if not torch.isfinite(loss):
            continue  # a batch without a target that counts: so for one process
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "weights": [p.detach().clone() for p in net.parameters()]}


@pytest.mark.parametrize("kind", ["ignored", "class weights"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_weighted_mean_trains_as_one_process(kind: str, size: int) -> None:
    alone = ranks.run(partial(_train, kind), 1)[0]
    for result in ranks.run(partial(_train, kind), size):
        assert result["losses"] == pytest.approx(alone["losses"], rel=1e-12)
        for mine, theirs in zip(result["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-13)
    assert len(alone["losses"]) >= 4


def test_a_silent_logger_takes_anything() -> None:
    log = dd.silent()
    with log.group("a") as inner:
        inner.add_scalar("loss", 1.0, global_step=3)
    log["key"] = 1
    assert list(log.items()) == []
    assert not log.history


def test_a_silent_logger_has_a_folder_that_takes_anything() -> None:
    folder = dd.silent().log_dir
    inside = os.path.join(folder, "checkpoints")
    assert inside == f"{folder}/checkpoints" == folder + "/checkpoints"
    os.makedirs(inside)
    Path(inside, "config.yaml").write_text("lr: 0.1")


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.5, 3.0]])
@pytest.mark.parametrize("ignored", [-100, 0, 255])
def test_the_weight_of_targets_is_what_their_mean_divides_by(
    weight: list[float] | None, ignored: int
) -> None:
    torch.manual_seed(0)
    scores, targets = torch.randn(5, 4, 3), torch.randint(0, 4, (5, 3))
    targets[1:3] = ignored
    given = None if weight is None else torch.tensor(weight)
    options: dict[str, Any] = {"weight": given, "ignore_index": ignored}
    total = F.cross_entropy(scores, targets, reduction="sum", **options)
    mean = F.cross_entropy(scores, targets, **options)
    torch.testing.assert_close(total / dd.target_weight(targets, **options), mean)


def test_the_weight_of_probabilities_is_their_number() -> None:
    torch.manual_seed(0)
    scores, targets = torch.randn(5, 4, 3), torch.rand(5, 4, 3)
    options: dict[str, Any] = {"weight": torch.tensor([1.0, 2.0, 0.5, 3.0])}
    total = F.cross_entropy(scores, targets, reduction="sum", **options)
    mean = F.cross_entropy(scores, targets, **options)
    torch.testing.assert_close(total / dd.target_weight(targets, **options), mean)
