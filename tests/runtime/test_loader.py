"""Sharded loaders go through the batches of the plain loader, index for index."""

import functools
import random
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

from ddpify import runtime as dd
from tests.runtime.ranks import launch, run

N = 23  # not a multiple of any batch size or number of ranks below
EPOCHS = 2


class Indices(Dataset[Any]):
    """Sample i is the number i; a list of indices is a batch. Remembers what it was asked for."""

    def __init__(self, n: int = N) -> None:
        self.n = n
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: Any) -> Any:
        self.asked.append(i)
        return torch.tensor(i)


class LazyTorch(Sampler[int]):
    """Draws one index at a time from torch's global stream."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(N):
            yield int(torch.randint(N, ()))

    def __len__(self) -> int:
        return N


class EagerMixed(Sampler[int]):
    """Draws all when it is made, from Python's and NumPy's global streams."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(N))
        random.shuffle(order)
        return iter([order[i] for i in np.random.permutation(N)])

    def __len__(self) -> int:
        return N


class OddBatches:
    """Batches of 1 to 6 indices, by turns a list, a tuple, a tensor, an array and an iterator."""

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(N).tolist()
        kinds: list[Callable[[Any], Any]] = [list, tuple, torch.tensor, np.array, iter]
        turn = 0
        while order:
            batch, order = order[: 1 + turn % 6], order[1 + turn % 6 :]
            yield kinds[turn % 5](batch)
            turn += 1

    def __len__(self) -> int:
        return 8


class Endless:
    """Has no length; the loop decides when it has had enough."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(2):
            yield from torch.randperm(N).tolist()


class EagerBatches:
    """Draws all batches when it is made, which a loader with workers does twice."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter(torch.randperm(N - 3).view(5, 4).tolist())

    def __len__(self) -> int:
        return 5


class Stream(IterableDataset[Any]):
    """Numbers in an order drawn from Python's global stream; a worker takes a part of its own."""

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        order = list(range(self.n))
        random.shuffle(order)
        start, step = (info.id, info.num_workers) if info else (0, 1)
        # In each worker another order: every start-th of its own shuffle.
        return iter([torch.tensor(i) for i in order[start::step]])


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _replacement() -> DataLoader[Any]:
    data = Indices()
    return DataLoader(data, 4, sampler=RandomSampler(data, replacement=True, num_samples=50))


def _weighted() -> DataLoader[Any]:
    weights = torch.arange(1.0, N + 1).tolist()
    return DataLoader(Indices(), 4, sampler=WeightedRandomSampler(weights, 30))


def _split() -> DataLoader[Any]:
    first, _ = random_split(Indices(), [16, 7])
    return DataLoader(first, 5, shuffle=True)


def _own_generator() -> DataLoader[Any]:
    sampler = SubsetRandomSampler(range(0, N, 2), generator=_seeded(5))
    return DataLoader(Indices(), 5, sampler=sampler, generator=_seeded(6))


def _lists() -> DataLoader[Any]:
    data = Indices()
    return DataLoader(data, None, sampler=BatchSampler(RandomSampler(data), 7, False))


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "in order": lambda: DataLoader(Indices(), 4),
    "shuffle": lambda: DataLoader(Indices(), 4, shuffle=True),
    "shuffle, whole batches only": lambda: DataLoader(Indices(), 4, shuffle=True, drop_last=True),
    "shuffle, a batch of one at the end": lambda: DataLoader(Indices(22), 7, shuffle=True),
    "batches of one": lambda: DataLoader(Indices(5), 1, shuffle=True),
    "with replacement": _replacement,
    "weighted": _weighted,
    "subset": lambda: DataLoader(Indices(), 5, sampler=SubsetRandomSampler(range(0, N, 2))),
    "random_split": _split,
    "own generators": _own_generator,
    "shuffle, own generator": lambda: DataLoader(Indices(), 6, True, generator=_seeded(4)),
    "own sampler, lazy": lambda: DataLoader(Indices(), 4, sampler=LazyTorch()),
    "own sampler, eager": lambda: DataLoader(Indices(), 4, sampler=EagerMixed()),
    "own batches": lambda: DataLoader(Indices(), batch_sampler=OddBatches()),
    "own sampler, no length": lambda: DataLoader(Indices(), 4, sampler=Endless()),
    "own batches, eager": lambda: DataLoader(Indices(), batch_sampler=EagerBatches()),
    "own batches, eager, workers": lambda: DataLoader(
        Indices(), batch_sampler=EagerBatches(), num_workers=2
    ),
    "lists of indices": _lists,
    "single indices": lambda: DataLoader(Indices(), None, sampler=RandomSampler(range(N))),
    "workers": lambda: DataLoader(Indices(), 4, shuffle=True, num_workers=2),
    "workers, own sampler, eager": lambda: DataLoader(
        Indices(), 4, sampler=EagerMixed(), num_workers=2
    ),
    "workers, persistent": lambda: DataLoader(
        Indices(), 4, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=3
    ),
    "stream": lambda: DataLoader(Stream(), 4),
    "stream, whole batches only": lambda: DataLoader(Stream(), 4, drop_last=True),
    "stream, single samples": lambda: DataLoader(Stream(), None),
    "stream, workers": lambda: DataLoader(Stream(), 4, num_workers=2),
    "stream, workers, persistent": lambda: DataLoader(
        Stream(), 4, num_workers=2, persistent_workers=True
    ),
}


def _passes(make: Callable[[], DataLoader[Any]]) -> list[list[list[int]]]:
    """The global batches of each epoch, put together from all ranks."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    loader = dd.shard(make())
    return [[_whole(batch) for batch in loader] for _ in range(EPOCHS)]


def _whole(batch: torch.Tensor) -> list[int]:
    return [int(batch)] if batch.dim() == 0 else dd.gather(batch).tolist()


@pytest.fixture(scope="module")
def passes() -> dict[int, list[dict[str, Any]]]:
    """By number of ranks, and rank: the passes over every loader."""
    return {
        size: run(lambda: {name: _passes(make) for name, make in LOADERS.items()}, size)
        for size in (1, 2, 3)
    }


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("size", [2, 3])
def test_the_batches_are_those_of_one_process(
    passes: dict[int, list[dict[str, Any]]], name: str, size: int
) -> None:
    expected = passes[1][0][name]
    assert len({str(epoch) for epoch in expected}) == (1 if name in ("in order",) else EPOCHS)
    for found in passes[size]:
        assert found[name] == expected


def _asked() -> list[Any]:
    data = Indices(22)
    for _ in dd.shard(DataLoader(data, 6, shuffle=True)):
        pass
    return data.asked


def test_every_rank_fetches_its_part_alone() -> None:
    whole = run(_asked, 1)[0]
    for size in (2, 3):
        parts = run(_asked, size)
        # 22 samples in batches of 6: the last has 4.
        for first, last in ((0, 6), (6, 12), (12, 18), (18, 22)):
            cut = [_cut(last - first, rank, size) for rank in range(size)]
            taken = [parts[rank][: cut[rank]] for rank in range(size)]
            for rank in range(size):
                del parts[rank][: cut[rank]]
            assert [i for part in taken for i in part] == whole[first:last]
        assert parts == [[]] * size


def _cut(total: int, rank: int, size: int) -> int:
    return total // size + (rank < total % size)


def _attributes() -> None:
    class Special(DataLoader[Any]):
        """A subclass with something of its own."""

        def epochs(self) -> int:
            return EPOCHS

    plain = Special(Indices(), 4, shuffle=True)
    shared = dd.shard(plain)
    assert isinstance(shared, Special)
    assert type(shared).__name__ == "Special"
    assert shared.epochs() == EPOCHS
    assert (shared.batch_size, len(shared)) == (4, 6)
    assert shared.dataset is plain.dataset
    assert shared.sampler is plain.sampler
    assert shared.batch_sampler is plain.batch_sampler
    assert dd.shard(shared) is shared
    iterator = iter(shared)
    assert len(iterator) == 6
    assert iter(iterator) is iterator


def _used_before() -> Any:
    loader: Any = DataLoader(Indices(), 4, num_workers=1, persistent_workers=True, in_order=False)
    for _ in loader:
        break
    shared = dd.shard(loader)
    assert shared.in_order  # or ranks could pair parts of different batches
    return [dd.gather(batch).tolist() for batch in shared]


def test_a_loader_may_have_been_used_before() -> None:
    whole = [list(range(first, min(first + 4, N))) for first in range(0, N, 4)]
    assert run(_used_before, 2) == [whole] * 2


def test_the_loader_keeps_its_class_and_attributes() -> None:
    run(_attributes, 2)


def test_alone_the_loader_itself_comes_back() -> None:
    loader = DataLoader(Indices(), 4)
    assert dd.shard(loader) is loader
    assert dd.replicate(loader) is loader


def _refused() -> list[str]:
    from torch.utils.data.datapipes.iter import IterableWrapper

    texts = []
    for what in ([1, 2, 3], DataLoader(IterableWrapper([1, 2]), 1)):
        with pytest.raises(TypeError) as caught:
            dd.shard(what)  # type: ignore[type-var]
        texts.append(str(caught.value))
    return texts


def test_what_cannot_be_shared_is_refused() -> None:
    listed, piped = run(_refused, 2)[0]
    assert "list is no torch DataLoader" in listed
    assert "DataPipe" in piped


class Past(DataLoader[Any]):
    """Puts its batches together past its sampler."""

    def __iter__(self) -> Any:
        return iter([torch.zeros(4)])


def _past() -> None:
    with pytest.raises(RuntimeError, match="did not come from its own sampler"):
        next(iter(dd.shard(Past(Indices(), 4))))


def test_a_batch_past_the_sampler_is_an_error_not_a_repeat() -> None:
    run(_past, 2)


def _replicated() -> Any:
    sharded = dd.shard(DataLoader(Indices(), 4, shuffle=True))
    whole = dd.replicate(DataLoader(Indices(), 4, shuffle=True, num_workers=1))
    found = []
    for batch in sharded:
        inner = [x.tolist() for x in whole]
        # Inside the replicated loop there is nothing to reduce.
        for x in whole:
            assert dd.gather(x) is x
            assert dd.sum(3) == 3
            break
        found.append((inner, dd.gather(batch).tolist()))
    return found


def test_a_replicated_loader_gives_every_rank_everything() -> None:
    expected = run(_replicated, 1)[0]
    for size in (2, 3):
        assert run(_replicated, size) == [expected] * size


def _sizes() -> list[int]:
    """The global sizes that hold at several points of nested loops, all of which differ."""
    sizes = []
    outer = dd.shard(DataLoader(Indices(14), 7))
    inner = dd.shard(DataLoader(Indices(10), 5))
    other = dd.shard(DataLoader(Indices(9), 9))

    def use_batch_of(x: Any) -> None:
        sizes.append(dd.global_batch_size(x))

    for x in outer:
        use_batch_of(x)
        for y in inner:
            use_batch_of(y)
        use_batch_of(x)  # after an inner loop that ended
        for _, y in enumerate(inner):
            use_batch_of(y)
            break
        use_batch_of(x)  # after one that was left
        z = next(iter(other))
        use_batch_of(z)  # the batch of an iterator that is gone
    use_batch_of(z)  # and after the outermost loop
    for _, y in zip(outer, inner, strict=True):
        use_batch_of(y)
    kept = iter(other)
    use_batch_of(next(kept))
    for x in outer:
        use_batch_of(x)
    generated = (x for x in inner)
    use_batch_of(next(generated))
    next(iter(other))
    use_batch_of(list(inner)[-1])  # not the batch that was asked for before it
    return sizes


def _sizes_ahead() -> list[int]:
    """The global sizes of batches that are used when the next one has come."""
    sizes = []
    going = iter(dd.shard(DataLoader(Indices(11), 4)))
    coming = next(going, None)
    while coming is not None:
        x, coming = coming, next(going, None)
        dd.use_batch_of({"text": "", "rows": x})
        sizes.append(dd.global_batch_size(x))
    return sizes


def test_rows_tell_the_batch_that_they_are_of() -> None:
    for size in (1, 2, 3):
        assert run(_sizes_ahead, size) == [[4, 4, 3]] * size


def _unclear() -> str:
    first, _ = dd.shard(DataLoader(Indices(3), 2))
    with pytest.raises(RuntimeError) as caught:
        dd.use_batch_of(first)
    return str(caught.value)


def test_rows_that_may_be_of_either_batch_are_an_error() -> None:
    (text, *_) = run(_unclear, 3)
    assert "fit 1 and 2 of the batches so far" in text


def test_the_innermost_loop_says_how_large_the_batch_is() -> None:
    turn = [7, 5, 5, 7, 5, 7, 9]
    expected = [*turn, *turn, 9, 5, 5, 9, 7, 7, 5, 5]
    assert run(_sizes, 1) == [expected]
    for size in (2, 3):
        assert run(_sizes, size) == [expected] * size


def _sizes_beside_a_step() -> list[Any]:
    found: list[Any] = []
    beside = dd.replicate(DataLoader(Indices(9), 9), aside=True)
    kept = iter(beside)
    for x in dd.shard(DataLoader(Indices(14), 7)):
        y = next(iter(beside))
        found += [dd.global_batch_size(x), len(y)]
        next(kept, None)
        found.append(dd.global_batch_size(x))
    return found


def test_whole_batches_taken_aside_leave_the_batch_at_hand() -> None:
    for size in (1, 2, 3):
        assert run(_sizes_beside_a_step, size) == [[7, 9, 7] * 2] * size


def _warnings() -> list[str]:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            list(dd.shard(DataLoader(Stream(), 4)))
            list(dd.shard(DataLoader(Indices(), None)))
            list(dd.shard(DataLoader(Stream(), None)))
    return [str(w.message) for w in caught if "rank" in str(w.message)]


def test_what_costs_is_said_once_by_rank_0() -> None:
    first, second = run(_warnings, 2)
    assert second == []
    assert len(first) == 3
    assert "read whole by each of the 2 ranks" in first[0]
    assert "single samples" in first[1]
    assert "takes all of it" in first[2]


def _repeated() -> list[float]:
    """The means of the batches of two passes over five samples, the second of them repeated."""
    batches = dd.cycle(dd.shard(DataLoader(range(5), 3)))  # type: ignore[arg-type]
    return [dd.mean(next(batches).double().mean()).item() for _ in range(5)]


def test_repeated_batches_keep_their_shares() -> None:
    for size in (1, 2, 3):
        assert all(found == [1, 3.5, 1, 3.5, 1] for found in run(_repeated, size))


def _in_turn() -> list[float]:
    """Means of batches of two loaders, of 3 and 2 samples and then of 2 and 1, and their sizes."""
    left: Any = dd.shard(DataLoader(range(5), 3))  # type: ignore[arg-type]
    right: Any = dd.shard(DataLoader(range(10, 13), 2))  # type: ignore[arg-type]
    found: list[float] = []
    for a, b in zip(left, right, strict=True):
        found.append(dd.mean(a.double().mean(), of=left).item())
        found.append(dd.mean(b.double().mean()).item())
        dd.use_batch_of(left)
        found += [dd.mean(a.double().mean()).item(), dd.sum(a.sum()).item()]
        found += [dd.global_batch_size(a), dd.global_batch_size(b, of=right)]
        found += [*dd.gather(b, of=right).tolist(), *dd.gather(a).tolist()]
    return found


def test_batches_of_two_loaders_in_turn() -> None:
    first = [1, 10.5, 1, 3, 3, 2, 10, 11, 0, 1, 2]
    second = [3.5, 12, 3.5, 7, 2, 1, 12, 3, 4]
    for size in (1, 2, 3):
        assert all(found == first + second for found in run(_in_turn, size))


def _cut_to_the_smaller() -> list[float]:
    """Batches of 3 and 2 samples beside ones of 2 and 1, cut to the smaller."""
    left: Any = dd.shard(DataLoader(range(5), 3))  # type: ignore[arg-type]
    right: Any = dd.shard(DataLoader(range(10, 13), 2))  # type: ignore[arg-type]
    found: list[float] = []
    for a, b in zip(left, right, strict=True):
        size = min(dd.global_batch_size(a, of=left), dd.global_batch_size(b))
        a, b = dd.first(a, size, of=left), dd.first(b, size, of=right)
        found += [
            dd.global_batch_size(a),
            dd.mean(b.double().mean()).item(),
            *dd.gather(a).tolist(),
        ]
    return found


def test_batches_cut_to_the_smaller_are_shared_anew() -> None:
    for size in (1, 2, 3):
        assert all(found == [2, 10.5, 0, 1, 1, 12, 3] for found in run(_cut_to_the_smaller, size))


def _wrong_turns() -> list[str]:
    told: list[str] = []
    loader: Any = DataLoader(range(5), 3)  # type: ignore[arg-type]
    for other in (loader, dd.shard(loader)):
        try:
            dd.use_batch_of(other)
        except (TypeError, RuntimeError) as error:
            told.append(str(error))
    try:
        list(dd.shard(loader, joined=True))
    except RuntimeError as error:
        told.append(str(error))
    return told


def test_turns_that_cannot_be_taken_and_batches_that_cannot_be_joined() -> None:
    assert run(_wrong_turns, 1) == [[]]
    not_shared, not_begun, too_few = run(_wrong_turns, 3)[2]
    assert "no loader that shard() or replicate() gave" in not_shared
    assert "no batch has come from this loader" in not_begun
    assert "a batch of 2 samples" in too_few
    assert "drop_last=True" in too_few


def _listed(samples: list[int]) -> tuple[Any, ...]:
    """Time first, rows first, lists, and what has no rows."""
    rows = [torch.ones(n + 1) * n for n in samples]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(rows), pad(rows, batch_first=True), [str(n) for n in samples], max(samples) + 1


def _padded() -> list[Any]:
    data: Any = range(4)
    loader = DataLoader(data, 3, collate_fn=_listed)
    found = []
    for first, second, names, longest in dd.shard(loader, collate="global", dim=(1, 0, 0, 0)):
        assert second.shape == first.t().shape == (len(names), longest)
        found.append((second[:, 0].tolist(), names, longest))
    return found


def test_padding_of_the_whole_batch() -> None:
    assert run(_padded, 1) == [[([0, 1, 2], ["0", "1", "2"], 3), ([3], ["3"], 4)]]
    assert run(_padded, 2) == [
        [([0, 1], ["0", "1"], 3), ([3], ["3"], 4)],
        [([2], ["2"], 3), ([3], ["3"], 4)],  # the last of them a ghost
    ]


def _set_afterwards() -> list[Any]:
    data: Any = range(4)
    loader = dd.shard(DataLoader(data, 3), collate="global")
    loader.collate_fn = lambda samples: torch.tensor(samples) + 10 * len(samples)
    return [batch.tolist() for batch in loader]


def test_a_collate_function_that_is_set_afterwards_gets_whole_batches() -> None:
    assert run(_set_afterwards, 1) == [[[30, 31, 32], [13]]]
    assert run(_set_afterwards, 2) == [[[30, 31], [13]], [[32], [13]]]  # the last of them a ghost


def _beside_ragged(kind: str) -> list[Any]:
    def put(samples: list[int]) -> Any:
        noise = torch.rand(1)  # drawn once for the batch, although a rank puts parts together twice
        longest = torch.full((len(samples),), max(samples)) + 0 * noise.long()
        own = torch.tensor([i for i in samples for _ in range(i)])
        return (longest, own) if kind == "tuple" else {"longest": longest, "own": own}

    data: Any = range(5)
    dim: Any = (0, "own") if kind == "tuple" else {"longest": 0, "own": "own"}
    found = []
    for batch in dd.shard(DataLoader(data, 3, collate_fn=put), collate="global", dim=dim):
        parts = batch if kind == "tuple" else batch.values()
        found.append([part.tolist() for part in parts])
    return [*found, torch.rand(1).item()]


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_parts_with_any_number_of_rows_are_made_of_a_ranks_own_samples(kind: str) -> None:
    first, second = run(functools.partial(_beside_ragged, kind), 2)
    assert first[:2] == [[[2, 2], [1]], [[4], [3, 3, 3]]]
    assert second[:2] == [[[2], [2, 2]], [[4], [4, 4, 4, 4]]]
    assert first[2] == second[2]


def _without_rows(collate: str, more: int) -> None:
    data: Any = range(4)
    loader = DataLoader(data, 4, collate_fn=lambda rows: torch.ones(len(rows) + more))
    next(iter(dd.shard(loader, collate=collate)))


@pytest.mark.parametrize(("collate", "more"), [("global", 1), ("unread", -1)])
def test_padding_of_a_batch_without_rows(collate: str, more: int) -> None:
    outcomes = launch(functools.partial(_without_rows, collate, more), 2)
    assert all("no 4 rows along dimension 0" in outcome.stderr for outcome in outcomes)


def _with_a_number(rows: list[int]) -> Any:
    return torch.tensor(rows), rows, torch.tensor(float(sum(rows)))


def _first_of_unread() -> None:
    data: Any = range(4)
    next(iter(dd.shard(DataLoader(data, 4, collate_fn=_with_a_number), collate="unread")))


def test_a_number_in_a_batch_that_could_not_be_understood() -> None:
    outcomes = launch(_first_of_unread, 2)
    assert all("a batch has a number in it, tensor(6.)" in one.stderr for one in outcomes)


def _encoded() -> list[Any]:
    data: Any = range(5)
    loader = DataLoader(data, 3, collate_fn=lambda rows: UserDict(ids=torch.tensor(rows)))
    return [batch["ids"].tolist() for batch in dd.shard(loader, collate="unread")]


def test_unread_batches_are_dictionaries_of_any_kind() -> None:
    assert run(_encoded, 2) == [[[0, 1], [3]], [[2], [4]]]


def _unsplit() -> list[list[list[int]]]:
    split = dd.shard(DataLoader(Indices(7), 3, shuffle=True))
    list(split)
    whole = dd.replicate(split)
    return [[x.tolist() for x in whole] for _ in range(2)] + [dd.gather(x).tolist() for x in split]


def test_a_sharded_loader_gives_whole_batches_again() -> None:
    expected = run(_unsplit, 1)[0]
    for size in (2, 3):
        assert run(_unsplit, size) == [expected] * size
