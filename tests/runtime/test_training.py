"""Training on several ranks leaves the parameters of one process, up to summation order."""

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from ddpify import runtime as dd
from tests.runtime.ranks import assert_same, run

FEATURES, CLASSES, N = 5, 3, 22  # batches of 7: the last has 1 sample, which ranks but one lack


def _data(n: int = N) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, FEATURES, generator=generator)
    return TensorDataset(x, torch.randint(CLASSES, (n,), generator=generator))


def _plain_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def _norm_net(momentum: float | None = 0.1, tracked: bool = True) -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 8),
        nn.BatchNorm1d(8, momentum=momentum, track_running_stats=tracked),
        nn.Tanh(),
        nn.Linear(8, CLASSES),
    )


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def _train(
    net: Callable[[], nn.Module],
    step: Callable[[nn.Module, torch.Tensor, torch.Tensor], Any],
    *,
    loader: Callable[[], DataLoader[Any]] = lambda: DataLoader(_data(), 7, shuffle=True),
    accumulate: int = 1,
) -> Any:
    """The losses and the trained state after three epochs; ``step`` gives the global loss."""
    model = net()
    # Adam divides by the gradient's size: it would hide a wrong factor, and follow mere noise.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model = dd.wrap(model)
    batches, losses, count = dd.shard(loader()), [], 0
    for _ in range(3):
        for x, y in batches:
            loss = step(model, x, y)
            loss = loss / accumulate
            loss.backward()
            losses.append(loss.item())
            count += 1
            if count % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return losses, _state(model)


def _mean(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    return dd.mean(F.cross_entropy(model(x), y))


def _sum(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    return dd.sum(F.cross_entropy(model(x), y, reduction="sum"))


def _penalty(model: nn.Module) -> torch.Tensor:
    return 0.01 * torch.stack([p.pow(2).sum() for p in model.parameters()]).sum()


def _weighted(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    """The mean that class weights make is a quotient of two sums."""
    weight = torch.tensor([0.2, 1.0, 3.0])
    total = F.cross_entropy(model(x), y, weight=weight, reduction="sum")
    return dd.sum(total) / dd.sum(weight[y].sum())


def _contrastive(model: nn.Module, x: torch.Tensor, _: torch.Tensor) -> Any:
    """Every sample against every other of the global batch, computed alike on all ranks."""
    z = dd.gather(F.normalize(model(x), dim=1))
    w = dd.gather(F.normalize(model(x + 0.1), dim=1))
    return F.cross_entropy(z @ w.T / 0.1, torch.arange(len(z)))


def _rows_against_all(model: nn.Module, x: torch.Tensor, _: torch.Tensor) -> Any:
    """This rank's rows against all rows: each rank uses the gathered rows in another way."""
    z = F.normalize(model(x), dim=1)
    targets = dd.gather(1 + torch.arange(len(x)) + 1000 * dd.rank())
    mine = (targets == 1 + 1000 * dd.rank()).nonzero()
    first = int(mine) if len(mine) else 0  # a ghost's row is not there
    return dd.mean(F.cross_entropy(z @ dd.gather(z).T / 0.1, first + torch.arange(len(x))))


def _two_views(model: nn.Module, x: torch.Tensor, _: torch.Tensor) -> Any:
    z = dd.gather(F.normalize(model(torch.cat([x, x + 0.1])), dim=1), stacked=True)
    z1, z2 = z.chunk(2)
    return F.cross_entropy(z1 @ z2.T / 0.1, torch.arange(len(z1)))


def _nearer(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    """A statistic of the batch, used on this rank's rows.

    Half of it: where all of it is taken away, the last bias makes no difference and stays.
    """
    out = model(x)
    out = out - 0.5 * dd.mean(out.mean(0))
    return dd.mean(F.cross_entropy(out, y))


class Statistic(nn.Module):
    """A scalar statistic of the batch within the forward, used on this rank's rows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _plain_net()

    def forward(self, x: torch.Tensor) -> Any:
        out = self.net(x)
        return out / (1 + dd.mean(out.pow(2).mean()))


LOSSES: dict[str, Any] = {
    "mean": (_plain_net, _mean),
    "sum": (_plain_net, _sum),
    "mean and penalty": (_plain_net, lambda m, x, y: _mean(m, x, y) + _penalty(m)),
    "sum and penalty": (_plain_net, lambda m, x, y: _sum(m, x, y) + _penalty(m)),
    "quotient of sums": (_plain_net, _weighted),
    "contrastive": (_plain_net, _contrastive),
    "own rows against all": (_plain_net, _rows_against_all),
    "two views": (_plain_net, _two_views),
    "nearer to the mean of the batch": (_plain_net, _nearer),
    "statistic in the forward": (Statistic, _mean),
    "batch norm": (_norm_net, _mean),
    "batch norm, cumulative": (lambda: _norm_net(momentum=None), _mean),
    "batch norm, no running statistics": (lambda: _norm_net(tracked=False), _sum),
}


def _all_losses() -> dict[str, Any]:
    found = {}
    for name, (net, step) in LOSSES.items():
        torch.manual_seed(2)
        # A lone sample has no variance; where there is batch normalisation the last batch has 2.
        data = _data(23 if "norm" in name else N)
        found[name] = _train(net, step, loader=functools.partial(DataLoader, data, 7, True))
    return found


@pytest.fixture(scope="module")
def one_process() -> dict[str, Any]:
    result: dict[str, Any] = assert_same(_all_losses)
    return result


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_the_same(one_process: dict[str, Any], name: str) -> None:
    # The fixture compared; what it compared must be training, or it would say nothing.
    losses, state = one_process[name]
    assert len(losses) == 12
    assert len(set(losses)) >= 10  # a lone sample gives the same loss in some, whatever the model
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    start = LOSSES[name][0]().state_dict()
    torch.set_default_dtype(torch.float32)
    assert not any(torch.equal(state[key], start[key]) for key in state)


def _per_rank_mean(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    return F.cross_entropy(model(x), y)


def test_the_comparison_sees_a_mean_taken_per_rank() -> None:
    with pytest.raises(AssertionError, match="rank 0 of 2"):
        assert_same(lambda: _train(_plain_net, _per_rank_mean)[1], sizes=(2,))


@pytest.mark.parametrize("accumulate", [2, 3])
def test_accumulated_gradients_are_the_same(accumulate: int) -> None:
    assert_same(lambda: _train(_norm_net, _mean, loader=_pairs, accumulate=accumulate))


def _pairs() -> DataLoader[Any]:
    return DataLoader(_data(20), 6, shuffle=True)  # 6, 6, 6, 2: windows cross epochs


class Stream(IterableDataset[Any]):
    """Samples of a data set in a shuffled order."""

    def __iter__(self) -> Iterator[Any]:
        data = _data()
        order = list(range(len(data)))
        random.shuffle(order)
        return (data[i] for i in order)


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "stream": lambda: DataLoader(Stream(), 7),
    "stream, worker": lambda: DataLoader(Stream(), 7, num_workers=1),
    "stream, workers": lambda: DataLoader(Stream(), 7, num_workers=2),
    "stream, single samples": lambda: DataLoader(Stream(), None),
    "workers": lambda: DataLoader(_data(), 7, shuffle=True, num_workers=2),
    "workers, persistent": lambda: DataLoader(
        _data(), 7, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "lists": lambda: DataLoader(_data(), None, sampler=[[0, 1, 2, 3, 4], [5], [6, 7, 8], [9]]),
}


def _all_loaders() -> dict[str, Any]:
    found = {}
    for name, loader in LOADERS.items():
        random.seed(4)
        found[name] = _train(_plain_net, _mean, loader=loader)
    return found


def test_every_kind_of_loader_trains_the_same() -> None:
    found = assert_same(_all_loaders)
    assert [len(losses) for losses, _ in found.values()] == [12, 12, 24, 66, 12, 12, 12]


def _with_validation(evaluate: Callable[[DataLoader[Any]], DataLoader[Any]]) -> Any:
    """A validation amid an epoch that steers the learning rate and picks a checkpoint."""
    model = _norm_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    model = dd.wrap(model)
    training = dd.shard(DataLoader(_data(23), 7, shuffle=True))
    validation = evaluate(DataLoader(_data(10), 3))
    log: list[Any] = []
    best, best_state = float("inf"), _state(model)
    for _ in range(4):
        for step, (x, y) in enumerate(training):
            if step % 2:
                model.eval()
                total, right, seen = 0.0, 0, 0
                with torch.no_grad():
                    for v, w in validation:
                        out = model(v)
                        total += dd.sum(F.cross_entropy(out, w, reduction="sum")).item()
                        right += dd.sum((out.argmax(1) == w).sum()).item()
                        seen += dd.global_batch_size(v)
                model.train()
                scheduler.step(total)
                log.append((total, right, seen, optimizer.param_groups[0]["lr"]))
                if total < best:
                    best, best_state = total, _state(model)
            optimizer.zero_grad()
            loss = dd.mean(F.cross_entropy(model(x), y))
            loss.backward()
            optimizer.step()
            log.append(loss.item())
    return log, _state(model), best_state


@pytest.mark.parametrize("evaluate", [dd.shard, dd.replicate])
def test_validation_within_an_epoch_is_the_same(evaluate: Any) -> None:
    log, _, _ = assert_same(lambda: _with_validation(evaluate))
    validations = [entry for entry in log if isinstance(entry, tuple)]
    assert {entry[2] for entry in validations} == {10}
    assert len({entry[3] for entry in validations}) > 1  # the plateau was met


def _several_models() -> Any:
    """A small GAN: two models and optimizers, three forwards and two backwards of one of them."""
    generator = dd.wrap(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, FEATURES)))
    critic = dd.wrap(nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1)))
    steps = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (generator, critic)]
    losses = []
    for x, _ in dd.shard(DataLoader(_data(), 7, shuffle=True)):
        fake = generator(x[:, :2])
        critic.zero_grad()
        real_loss = dd.mean(F.softplus(-critic(x)).mean())
        real_loss.backward()
        fake_loss = dd.mean(F.softplus(critic(fake.detach())).mean())
        fake_loss.backward()
        steps[1].step()
        generator.zero_grad()
        trick = dd.mean(F.softplus(-critic(fake)).mean())
        trick.backward()
        steps[0].step()
        losses.append([real_loss.item(), fake_loss.item(), trick.item()])
    return losses, _state(generator), _state(critic)


def test_two_models_against_each_other_train_the_same() -> None:
    assert_same(_several_models)


def _gradient_penalty() -> Any:
    """A penalty on the gradient by the input: the second derivative goes through mean() too."""
    critic = dd.wrap(_norm_net())
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    losses = []
    for x, _ in dd.shard(DataLoader(_data(20), 5, shuffle=True)):
        x = x.requires_grad_()
        out = dd.sum(critic(x).sum())
        (slope,) = torch.autograd.grad(out, x, create_graph=True)
        # sum() has multiplied this rank's rows by the number of ranks.
        slope = slope / dd.world_size()
        loss = dd.mean((slope.norm(dim=1) - 1).pow(2).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, _state(critic)


def test_a_gradient_penalty_is_the_same() -> None:
    assert_same(_gradient_penalty, sizes=(2,))


def _one_sample() -> Any:
    """One sample, and a batch of 2 for BatchNorm, over more ranks than that."""
    return _train(_norm_net, _mean, loader=lambda: DataLoader(_data(8), 2, shuffle=True))


def test_more_ranks_than_samples() -> None:
    assert_same(_one_sample, sizes=(3, 4))


def _refused() -> None:
    model = dd.wrap(_norm_net())
    for x, _ in dd.shard(DataLoader(_data(1), 1)):
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            model(x)


def test_batch_norm_refuses_one_value_as_one_process_does() -> None:
    for size in (1, 2):
        run(_refused, size)


def _lazy_net() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(CLASSES))


class Turns(nn.Module):
    """A layer that knows its sizes, and two that wait for their first batches, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(FEATURES, 4)
        self.heads = nn.ModuleList([nn.LazyLinear(CLASSES), nn.LazyLinear(CLASSES)])
        self.calls = 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        return self.heads[self.calls // 2 % 2](torch.tanh(self.body(x)))


def _twice(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    return dd.mean(F.cross_entropy(model(x), y) + F.cross_entropy(model(x + 1), y))


@pytest.mark.parametrize(("net", "step"), [(_lazy_net, _mean), (Turns, _mean), (_lazy_net, _twice)])
def test_layers_that_wait_for_their_first_batch(
    net: Callable[[], nn.Module], step: Callable[..., Any]
) -> None:
    assert_same(lambda: _train(net, step, loader=_pairs))
