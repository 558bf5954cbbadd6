"""Random streams: the script's own code shares one, work on samples has one on each rank."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ddpify import runtime as dd
from ddpify.runtime import rng
from tests.runtime.ranks import run


class Noisy(Dataset[Any]):
    """Sample i draws i + 1 times from every global stream: an uneven use of them by the ranks."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, i: int) -> Any:
        draws = [_draw() for _ in range(i + 1)]
        return i, torch.tensor(draws[-1])


def _draw() -> tuple[float, float, float]:
    return float(torch.rand(())), random.random(), float(np.random.rand())


def _seed(value: int = 3) -> None:
    torch.manual_seed(value)
    random.seed(value)
    np.random.seed(value)


def _loop(workers: int) -> Any:
    """What the script's own code draws, the batches, and the samples' draws, over three epochs."""
    _seed()
    script, order, augmentation = [_draw()], [], []
    loader = dd.shard(DataLoader(Noisy(), 4, shuffle=True, num_workers=workers))
    for _ in range(3):
        for index, noise in loader:
            script.append(_draw())
            order.append(dd.gather(index).tolist())
            augmentation += noise.tolist()
    script.append(_draw())
    return script, order, [tuple(row) for row in augmentation]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_draw_apart_from_the_script(workers: int) -> None:
    for size in (2, 3):
        found = run(lambda: _loop(workers), size)
        assert len({str(script) for script, _, _ in found}) == 1
        assert len({str(order) for _, order, _ in found}) == 1
        for epoch in range(3):
            indices = [i for batch in found[0][1][6 * epoch : 6 * epoch + 6] for i in batch]
            assert sorted(indices) == list(range(23))
        drawn = [row for _, _, rows in found for row in rows]
        for stream in range(3):
            # No rank repeats another's draws, nor its own of an earlier batch or epoch.
            assert len({row[stream] for row in drawn}) == len(drawn)


def _quiet(draw_in_data: bool) -> Any:
    _seed()
    data: Any = Noisy() if draw_in_data else list(range(23))
    loader = dd.shard(DataLoader(data, 4, shuffle=True))
    return [(_draw(), len(batch)) for _ in range(3) for batch in loader][::6], _draw()


def test_the_shared_stream_is_that_of_data_which_draw_nothing() -> None:
    expected = run(lambda: _quiet(False), 1)[0][1]
    assert run(lambda: _quiet(False), 2)[0][1] == expected
    assert run(lambda: _quiet(True), 2)[1][1] == expected
    assert run(lambda: _quiet(True), 1)[0][1] != expected


def _reproducible() -> Any:
    return _loop(0)[2]


def test_a_seeded_run_can_be_repeated() -> None:
    assert run(_reproducible, 2) == run(_reproducible, 2)


def _own_generator() -> Any:
    """Nothing draws from the global streams between epochs, yet their samples differ."""
    _seed()
    generator = torch.Generator().manual_seed(1)
    loader = dd.shard(DataLoader(Noisy(), 4, shuffle=True, generator=generator))
    return [[tuple(row) for _, noise in loader for row in noise.tolist()] for _ in range(2)]


def test_epochs_differ_where_the_loader_has_its_own_generator() -> None:
    for first, second in run(_own_generator, 2):
        assert not set(first) & set(second)


def _dropout() -> Any:
    _seed()
    model = dd.wrap(nn.Sequential(nn.Linear(1, 64), nn.Dropout()))
    masks: list[Any] = []
    script = []
    rows: Any = torch.ones(10, 1)
    loader = dd.shard(DataLoader(rows, 5, shuffle=True))
    for x in loader:
        masks.append((model(x) == 0).tolist())
        script.append(_draw())
    for x in dd.replicate(DataLoader(rows, 4)):
        masks.append((model(x) == 0).tolist())
    return masks, script


def test_dropout_differs_between_ranks_and_leaves_the_script_alone() -> None:
    one, two = run(_dropout, 2)
    assert one[1] == two[1]
    rows = [str(row) for masks, _ in (one, two) for mask in masks[:2] for row in mask]
    assert len(set(rows)) == len(rows) == 10
    assert one[0][2] == two[0][2]  # a replicated batch is dropped out alike


def _unseeded() -> Any:
    torch.seed()
    random.seed()
    np.random.seed()
    generator = torch.Generator()
    generator.seed()
    numbers: Any = range(50)
    loader = dd.shard(DataLoader(numbers, 10, shuffle=True, generator=generator))
    batches = [dd.gather(x).tolist() for x in loader]
    return batches, _draw()


def test_what_ranks_seed_apart_is_brought_together() -> None:
    found = run(_unseeded, 3)
    assert found[1:] == found[:1] * 2
    assert sorted(i for batch in found[0][0] for i in batch) == list(range(50))


def _states_after_init() -> Any:
    return _draw()


def test_ranks_start_from_the_same_states() -> None:
    # Each forked rank has drawn another number of times before init().
    job: Callable[[], Any] = _states_after_init
    first, *others = run(job, 3)
    assert others == [first] * 2


def _failing() -> Any:
    _seed()

    class Broken(Dataset[Any]):
        """The third sample cannot be read."""

        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> int:
            _draw()
            if i == 2:
                raise ValueError("unreadable")
            return i

    try:
        for _ in dd.shard(DataLoader(Broken(), 8)):
            pass
    except ValueError:
        pass
    return _draw()


def test_a_failed_fetch_gives_the_shared_stream_back() -> None:
    first, second = run(_failing, 2)
    assert first == second


def _worker_seeds(*, afterwards: bool) -> Any:
    _seed()
    first = None if afterwards else _seed_numpy
    loader = dd.shard(DataLoader(Seeds(), 4, num_workers=2, worker_init_fn=first))
    if afterwards:
        loader.worker_init_fn = _seed_numpy
    return [tuple(row) for batch in loader for row in batch.tolist()]


class Seeds(Dataset[Any]):
    """What seeds a worker has."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> Any:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return torch.tensor([info.seed % 2**31, torch.initial_seed() % 2**31, NUMPY_SEED[0]])


NUMPY_SEED = [0]


def _seed_numpy(_: int) -> None:
    NUMPY_SEED[0] = torch.initial_seed() % 2**31


@pytest.mark.parametrize("afterwards", [False, True])
def test_workers_have_seeds_of_their_own(afterwards: bool) -> None:
    seeds = functools.partial(_worker_seeds, afterwards=afterwards)
    alone = set(run(seeds, 1)[0])
    seen = [set(rows) for rows in run(seeds, 3)]
    assert seen[0] == alone
    assert len(set.union(*seen)) == 6
    for rows in seen:
        assert all(len(set(row)) == 1 for row in rows)


class StandIn:
    """What torch.cuda offers for random states, over a generator on the CPU."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        self.get_rng_state = self.generator.get_state
        self.set_rng_state = self.generator.set_state
        self.manual_seed = self.generator.manual_seed

    def draw(self) -> list[float]:
        return torch.rand(4, generator=self.generator).tolist()


def _accelerator() -> Any:
    stand_in, place = StandIn(), torch.device("cuda")
    stand_in.manual_seed(dd.rank())
    torch.get_device_module = lambda device=None: stand_in  # type: ignore[assignment]
    rng.broadcast_device_state(place)
    rng.fork_own_stream(dd.rank())
    shared = [stand_in.draw(), _draw()]
    with rng.own_torch_stream(place):
        own = [*stand_in.draw(), *torch.rand(3).tolist()]
    return own, [*shared, stand_in.draw(), _draw()]


def test_an_accelerator_is_shared_but_in_forwards() -> None:
    found = run(_accelerator, 2)
    assert found[0][1] == found[1][1]
    assert not {*found[0][0]} & {*found[1][0]}


def _dropped_by_hand() -> Any:
    _seed()
    model = dd.wrap(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)))
    return [(model(dd.shard_batch(torch.ones(6, 64))) == 0).tolist() for _ in range(2)]


def test_ranks_drop_apart_from_each_other_in_batches_made_by_hand() -> None:
    rows = [str(row) for batches in run(_dropped_by_hand, 2) for rows in batches for row in rows]
    assert len({*rows}) == len(rows) == 12


class Shuffling(nn.Module):
    """Notes the order that it draws from the stream that ranks share, and its own numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.orders: list[list[int]] = []
        self.drawn: list[float] = []
        self.own: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: any rows."""
        self.orders.append(torch.randperm(9, generator=dd.shared_generator()).tolist())
        self.drawn.append(dd.drawn_alike(lambda: torch.rand(()).item()))
        self.own.append(torch.rand(()).item())
        return self.layer(x)  # type: ignore[no-any-return]


def _shuffled() -> Any:
    _seed()
    model = dd.wrap(Shuffling())
    after = []
    for _ in range(2):
        model(dd.shard_batch(torch.ones(6, 1)))
        after.append(torch.randperm(9).tolist())
    return (model.orders, model.drawn), after, model.own


def test_a_forward_may_draw_what_ranks_share() -> None:
    first, second = run(_shuffled, 2)
    assert first[:2] == second[:2]
    orders, drawn = first[0]
    assert len({*map(tuple, (*orders, *first[1]))}) == 4, "the shared stream goes on"
    assert len({*drawn}) == 2 and not {*drawn} & {*first[2]}
    assert not {*first[2]} & {*second[2]}
