"""mean(), sum(), gather() and global_batch_size(): values, types and gradients, ghosts included."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import launch, run


class Pair(NamedTuple):
    """Two tensors."""

    a: torch.Tensor
    b: torch.Tensor


def _batch(n: int) -> Any:
    """This rank's rows of one batch of the numbers 0 .. n - 1."""
    (x,) = dd.shard(DataLoader(range(n), n))  # type: ignore[arg-type]
    return x.double()


def _values() -> list[Any]:
    found: list[Any] = []
    for n in (1, 2, 5, 6):
        x = _batch(n)
        found += [
            dd.mean(x.mean()).item(),
            dd.mean(x.mean().item()),
            dd.mean(x.mean(0, keepdim=True)).tolist(),
            dd.sum(x.sum()).item(),
            dd.sum(x.sum().item()),
            dd.sum(int(x.sum())),
            dd.sum(x.long().sum()).item(),
            dd.sum((x > 1).sum()).item(),
            dd.sum((x > 1).any()).item(),
            dd.sum(bool(n)),
            dd.sum(np.int64(x.sum())),
            dd.sum(np.float64(x.sum())),
            dd.global_batch_size(x),
            dd.global_batch_size(list(x)),
            dd.global_batch_size(len(x)),
            dd.global_batch_size(3 * len(x)),
        ]
    return found


def _of_nothing() -> list[Any]:
    _batch(5)
    return [dd.sum(None)]


def test_the_sum_of_nothing_is_nothing() -> None:
    assert all(found == [None] for found in run(_of_nothing, 2))


def _left_by_a_mask() -> list[Any]:
    found: list[Any] = []
    for n in (1, 2, 5, 6):
        weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        x = _batch(n)
        rows = dd.gather_ragged((weight * x)[x > 1])
        rows.pow(2).sum().backward()
        averaged = dd.sum(weight.grad) / dd.world_size()
        found += [rows.tolist(), averaged.item(), dd.gather_ragged((x > 1).numpy()).tolist()]
    return found


def test_rows_that_a_mask_leaves() -> None:
    expected: list[Any] = []
    for n in (1, 2, 5, 6):
        kept = [float(number) for number in range(n) if number > 1]
        expected += [[2 * number for number in kept], sum(4 * number**2 for number in kept)]
        expected.append([number > 1 for number in range(n)])
    assert run(_left_by_a_mask, 3) == [expected] * 3


def test_values_are_those_of_the_whole_batch() -> None:
    expected: list[Any] = []
    for n in (1, 2, 5, 6):
        total, mean, more = n * (n - 1) // 2, (n - 1) / 2, max(0, n - 2)
        expected += [mean, mean, [mean], total, total, total, total, more]
        expected += ["any", "ranks", total, total, n, n, n, 3 * n]
    for size in (2, 3):
        for found in run(_values, size):
            for at, (one, other) in enumerate(zip(found, expected, strict=True)):
                if other == "any":  # the ranks that have a number above 1
                    assert (one > 0) == (expected[at - 1] > 0)
                elif other == "ranks":  # those that have a number at all
                    assert one == min(size, expected[at + 3])
                else:
                    assert one == pytest.approx(other, rel=1e-15)


def _types() -> list[str]:
    _batch(6)
    results = [
        dd.mean(1.5),
        dd.mean(3),
        dd.mean(np.float32(1.5)),
        dd.sum(1.5),
        dd.sum(3),
        dd.sum(True),
        dd.sum(np.int32(3)),
        dd.sum(np.float32(1.5)),
    ]
    tensors = [
        dd.mean(torch.ones(2, 1, dtype=torch.float16)),
        dd.mean(torch.ones(2, dtype=torch.bfloat16)),
        dd.mean(torch.ones((), dtype=torch.float32)),
        dd.sum(torch.ones(2, dtype=torch.int32)),
        dd.sum(torch.tensor([True, False])),
    ]
    names = [f"{type(r).__name__} {r}" for r in results]
    return names + [f"{t.dtype} {list(t.shape)} {t.flatten()[0].item()}" for t in tensors]


def test_types_are_kept() -> None:
    assert (
        run(_types, 2)
        == [
            [
                "float 1.5",
                "float 3.0",
                "float32 1.5",
                "float 3.0",
                "int 6",
                "int 2",
                "int32 6",
                "float32 3.0",
                "torch.float16 [2, 1] 1.0",
                "torch.bfloat16 [2] 1.0",
                "torch.float32 [] 1.0",
                "torch.int32 [2] 2",
                "torch.int64 [2] 2",
            ]
        ]
        * 2
    )


def _of_no_columns() -> list[int]:
    x = _batch(5)
    return list(dd.gather(x.new_zeros(len(x), 3, 0)).shape)


def test_rows_without_elements_are_counted() -> None:
    assert run(_of_no_columns, 2) == [[5, 3, 0]] * 2


def _untouched() -> None:
    x = _batch(6)
    y, before = x.sum(), x.sum().item()
    dd.sum(y)
    dd.mean(y)
    assert y.item() == before


def test_what_is_reduced_is_not_changed_itself() -> None:
    run(_untouched, 2)


def _identities() -> None:
    x = torch.ones(3)
    assert dd.mean(x) is x
    assert dd.sum(x) is x
    assert dd.gather([x]) != []
    assert dd.gather(x) is x
    assert dd.global_batch_size(x) == 3
    assert dd.mean(2) == 2


def test_outside_of_loops_nothing_is_reduced() -> None:
    run(_identities, 2)
    run(_identities, 1)


def _losses(x: torch.Tensor) -> list[Callable[[torch.Tensor], Any]]:
    return [
        lambda w: dd.mean((w * x).exp().mean()),
        lambda w: dd.sum((w * x).exp().sum()),
        lambda w: dd.sum((w * x).exp().sum()) + dd.mean((w * x).mean()) + w.pow(3).sum(),
        lambda w: dd.gather(w * x).exp().sum(),
        lambda w: dd.mean((w * x - dd.mean((w * x).mean().view(1))).pow(2).mean()),
        lambda w: dd.mean((w * x - dd.mean((w * x).mean(), on_rows=True)).pow(2).mean()),
        lambda w: dd.sum((x / dd.sum((w * x).exp().sum(), on_rows=True)).sum()),
    ]


def _gradients() -> list[list[float]]:
    """What a parameter's gradient is after the averaging over ranks, for several losses."""
    found = []
    for n in (1, 5):
        x = _batch(n)
        for loss in _losses(x):
            w = torch.full((1,), 0.3, requires_grad=True)
            loss(w).backward()
            found.append(_averaged(w.grad))
    return found


def _averaged(grad: Any) -> list[float]:
    grad = torch.zeros(1) if grad is None else grad
    if dist.is_initialized():
        dist.all_reduce(grad)
        grad /= dist.get_world_size()
    values: list[float] = grad.tolist()
    return values


def test_averaged_gradients_are_those_of_one_process() -> None:
    expected = run(_gradients, 1)[0]
    assert len({str(e) for e in expected}) > 5
    for size in (2, 3):
        for found in run(_gradients, size):
            assert np.allclose(found, expected, rtol=1e-14, atol=1e-14)


def _poisoned_ghost() -> list[float]:
    x = _batch(1)
    w = torch.ones(1, requires_grad=True)
    poison = torch.tensor(math.nan if dd.rank() else 1.0)
    mean, total = dd.mean((w * x + 2).mean() * poison), dd.sum((w * x + 2).sum() * poison)
    (mean + total).backward()
    assert w.grad is not None
    own = [] if dd.rank() == 0 else (w * poison).detach().isnan().tolist()
    assert own == [True] * len(own)
    (slope,) = torch.autograd.grad(dd.sum(poison * w.sum()), w)
    return [mean.item(), total.item(), dd.sum(math.nan if dd.rank() else 1.0), slope.item()]


def test_a_ghost_counts_for_nothing_even_if_it_is_nan() -> None:
    for size in (2, 3):
        found = run(_poisoned_ghost, size)
        for rank, (mean, total, number, slope) in enumerate(found):
            assert (mean, total, number) == (2.0, 2.0, 1.0)
            # poison * 0 is the script's own NaN; the gradient that sum() gave it is 0.
            assert slope == size if rank == 0 else math.isnan(slope)


def _overflowed_ghost() -> list[float]:
    _batch(1)
    w = torch.ones(1, requires_grad=True)
    (slope,) = torch.autograd.grad(dd.sum(w.sum()) * math.inf, w)
    return [float(v) for v in slope]


def test_a_ghost_has_no_gradient_even_if_the_others_overflow() -> None:
    assert run(_overflowed_ghost, 2) == [[math.inf], [0.0]]


def _gathered_samples() -> Any:
    """Dictionaries with boxes, of which each sample has another number."""
    samples = tuple({"boxes": torch.arange(i + 1.0), "name": f"{i}"} for i in _batch(5).long())
    whole = dd.gather(samples)
    return type(whole).__name__, [(one["boxes"].tolist(), one["name"]) for one in whole]


def test_a_tuple_may_hold_a_dictionary_for_each_sample() -> None:
    expected = run(_gathered_samples, 1)[0]
    assert len(expected[1]) == 5
    for size in (2, 3, 7):
        assert run(_gathered_samples, size) == [expected] * size


def _gathered_parts() -> Any:
    x = _batch(5)
    return [one["x"].tolist() for one in dd.gather(({"x": x}, {"x": x + 10}, {"x": x * 2}))]


def test_a_tuple_may_hold_dictionaries_of_rows() -> None:
    expected = run(_gathered_parts, 1)[0]
    assert run(_gathered_parts, 2) == [expected] * 2


def _gathered() -> Any:
    x = _batch(5)
    rows = [int(v) for v in x]
    names = [f"sample {i}" for i in rows]
    nested = {"t": (x, [x + 1, x.bool()]), "p": Pair(x, x.half()), "n": np.asarray(x), "o": names}
    found = dd.gather(nested)
    assert type(found["p"]) is Pair
    assert isinstance(found["n"], np.ndarray)
    pairs = torch.stack([x, x + 10], 1)
    return (
        [found["t"][0].tolist(), found["t"][1][0].tolist(), found["t"][1][1].tolist()],
        [found["p"].b.dtype == torch.float16, found["p"].b.tolist()],
        found["n"].tolist(),
        found["o"],
        dd.gather([{"i": i} for i in rows]),
        dd.gather(pairs).tolist(),
        dd.gather(pairs.reshape(-1)).tolist(),
        dd.gather(torch.cat([x, x + 10]), stacked=True).tolist(),
        dd.gather(x.to(torch.complex64)).real.tolist(),
        dd.gather(torch.cat([x, x + 10]).tolist(), stacked=True),
    )


def test_rows_come_back_in_order() -> None:
    expected = run(_gathered, 1)[0]
    assert expected[7] == expected[9] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    for size in (2, 3, 6):  # 6: a ghost
        assert run(_gathered, size) == [expected] * size


def _complex_numbers() -> list[Any]:
    x = _batch(5)
    z = torch.complex(x, x * x)
    number = z.numpy().mean() if len(x) else 0j
    found = [dd.mean(z.mean()).item(), complex(dd.mean(number)), dd.sum(z.sum()).item()]
    return [complex(round(one.real, 5), round(one.imag, 5)) for one in found]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_complex_numbers_are_reduced_with_their_imaginary_parts(size: int) -> None:
    assert run(_complex_numbers, size) == [[2 + 6j, 2 + 6j, 10 + 30j]] * size


def _numbers() -> list[Any]:
    _batch(6)
    return [dd.gather(one) for one in (3, 0.5, math.inf, np.float32(2), torch.tensor(4.0).numpy())]


def test_a_number_of_all_ranks_stays_one() -> None:
    assert run(_numbers, 2) == [[3, 0.5, math.inf, 2, 4]] * 2


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (lambda: dd.gather(torch.ones(len(_batch(6)) + 1)), "not a multiple of the 3 sample"),
        (lambda: dd.global_batch_size(len(_batch(6)) + 1), "not a multiple of the 3 sample"),
        (lambda: dd.gather(({"x": _batch(6)},) * 3), "each may be a sample, or hold rows"),
        (lambda: dd.gather({_batch(6).sum()}), "cannot gather a set"),
        (lambda: dd.gather(_batch(6).sum()), "cannot gather a Tensor that is another on each"),
    ],
)
def test_what_has_no_row_per_sample_is_an_error(job: Callable[[], Any], text: str) -> None:
    for outcome in launch(job, 2):
        assert outcome.code == 1
        assert text in outcome.stderr


def _collectives() -> dict[str, int]:
    """How many collectives each call makes, forward and backward."""
    from torch.profiler import profile

    x = _batch(6)
    w = torch.ones(1, requires_grad=True)
    counts = {}
    jobs: dict[str, Callable[[], Any]] = {
        "mean": lambda: dd.mean((w * x).mean()).backward(),
        "sum": lambda: dd.sum((w * x).sum()).backward(),
        "number": lambda: dd.sum(3),
        "size": lambda: dd.global_batch_size(x),
        "gather": lambda: dd.gather(x),
    }
    for name, job in jobs.items():
        with profile() as recorded:
            job()
        events = [e.name for e in recorded.events()]
        counts[name] = len([e for e in events if e.startswith("gloo:")])
    return counts


def test_a_loss_takes_one_collective() -> None:
    expected = {"mean": 1, "sum": 1, "number": 1, "size": 0, "gather": 1}
    assert run(_collectives, 2) == [expected] * 2


def _squeezed() -> list[list[int]]:
    """Shapes of batches of 1, 2 and 5 samples without the dimensions of size 1."""
    found = []
    for total in (1, 2, 5):
        x = _batch(total).reshape(-1, 1, 1)
        found += [list(dd.squeeze(one).shape) for one in (x, x.numpy())]
        found.append(list(dd.squeeze(x.transpose(0, 1), dim=1).shape))
        dd.squeeze_(x)
        found.append(list(x.shape))
    return found


def test_a_squeeze_keeps_the_rows_of_more_than_one_sample() -> None:
    for rank, found in enumerate(run(_squeezed, 3)):
        assert found == [[]] * 4 + [[1]] * 4 + [[2] if rank < 2 else [1]] * 4


def _arrays() -> list[float]:
    """The mean of an array without dimensions and of one with some, and a sum."""
    x = _batch(5).double().numpy()
    means = dd.mean(np.asarray(x.mean())), dd.mean(x.mean(keepdims=True))
    return [float(one.sum()) for one in (*means, dd.sum(x.sum(keepdims=True)))]


def test_arrays_are_reduced_as_tensors_are() -> None:
    for found in run(_arrays, 2):
        assert found == pytest.approx([2, 2, 10])


def _drawn_rows() -> dict[str, Any]:
    """Random rows of a batch of 5: drawn as large as over all ranks, and split."""
    x = _batch(5).reshape(-1, 1, 1, 1).expand(-1, 2, 3, 4).contiguous()
    last = x.to(memory_format=torch.channels_last)
    torch.manual_seed(0)
    numbers = dd.split(torch.rand_like(dd.global_like(last)))
    return {
        "rows": len(numbers) == len(x),
        "format": numbers.is_contiguous(memory_format=torch.channels_last),
        "all": dd.gather(numbers).tolist(),
        "shapes": [list(dd.global_shape(one)) for one in (x, x.shape, x.numpy())],
        "second": dd.split(torch.arange(10).view(2, 5), dim=1).tolist(),
        "columns": dd.gather(x[:, :, 0, 0].t(), dim=1).tolist(),
        "lists": dd.gather(x[:, :, 0, 0].t().tolist(), dim=1),
        "like": list(dd.global_like(x.transpose(0, 1), dim=1).shape),
    }


def test_random_rows_are_those_of_one_process() -> None:
    torch.manual_seed(0)
    whole = torch.rand_like(torch.empty(5, 2, 3, 4).to(memory_format=torch.channels_last).double())
    for rank, found in enumerate(run(_drawn_rows, 2)):
        assert found["rows"] and found["format"]
        assert found["all"] == whole.tolist()
        assert found["shapes"] == [[5, 2, 3, 4]] * 3
        assert found["columns"] == found["lists"] == [[0, 1, 2, 3, 4]] * 2
        assert found["like"] == [2, 5, 3, 4]
        assert found["second"] == [[[0, 1, 2], [5, 6, 7]], [[3, 4], [8, 9]]][rank]


def _split_states() -> dict[str, Any]:
    """The states of a batch of 5, split, and then those of this rank's rows once more."""
    rows = len(_batch(5))
    whole = torch.arange(10).view(2, 5)
    own = dd.split((whole, whole + 10), dim=1, rows=rows)
    again = dd.split(own, dim=1, rows=torch.tensor(rows))
    cell = dd.split(whole.t(), rows=rows)
    once = dd.split(whole.t(), rows="own")
    return {
        "own": [part.tolist() for part in own],
        "contiguous": all(part.is_contiguous() for part in own),
        "same": all(one is other for one, other in zip(own, again, strict=True)),
        "cell": cell.tolist(),
        "once": once.tolist(),
        "kept": dd.split(once, rows="own") is once,
        "none": dd.split(None, dim=1),
    }


def test_states_are_split_once() -> None:
    for rank, found in enumerate(run(_split_states, 2)):
        first = [[[0, 1, 2], [5, 6, 7]], [[3, 4], [8, 9]]][rank]
        assert found["own"] == [first, [[one + 10 for one in line] for line in first]]
        assert found["contiguous"] and found["same"] and found["none"] is None
        assert found["cell"] == found["once"] == [list(row) for row in zip(*first, strict=True)]
        assert found["kept"]


def _split_stacked() -> list[Any]:
    found: list[Any] = []
    for n in (1, 2, 5):
        x = _batch(n)
        rows = dd.gather(torch.cat([x, x + 10]), stacked=True)
        assert rows.tolist() == [*range(n), *range(10, 10 + n)]
        own = dd.split(rows, stacked=True)
        assert torch.equal(own, torch.cat([x, x + 10]))
        assert dd.split(rows.numpy(), stacked=True).tolist() == own.tolist()
        found.append(own.tolist())
    return found


def test_rows_of_several_tensors_are_split_in_each() -> None:
    found = run(_split_stacked, 2)
    assert [one[1:] for one in found] == [
        [[0, 10], [0, 1, 2, 10, 11, 12]],
        [[1, 11], [3, 4, 13, 14]],
    ]
