"""Take out the chance that depends on how a batch is split.

Dropout becomes the identity. A sample's augmentation is drawn from a seed of its index, whoever
fetches it. A random tensor drawn inside the training loop (noise, masks) has equal rows, drawn from
its place in the loop, so that a rank's rows are the rows that one process would have drawn.
Samplers, shuffles and initialisation draw as always.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders
from torch.utils.data._utils import fetch as fetchers

from ddpify.verify.inside.patching import faked, replace

_DROPOUTS = [
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "feature_dropout",
]
_REAL_DRAWS = (
    "torch.utils.data",
    "torch.nn.init",
    "torch.nn.modules",
    "torch.distributed",
    "ddpify.runtime",
    "ddpify_runtime",
)


class _Place:
    """Where the training loop is: batches begun, draws made since, and whether draws are real.

    ``watch`` takes the index and the content of each sample that a loader fetches.
    """

    def __init__(self) -> None:
        self.looping = False
        self.real = 0
        self.batch = 0
        self.draw = 0
        self.watch: Callable[[Any, Any], None] = lambda index, item: None

    def replaced(self, depth: int = 2) -> bool:
        """Whether a draw by the caller ``depth`` frames up is one of the loop's own."""
        module = sys._getframe(depth).f_globals.get("__name__", "")
        return self.looping and not self.real and not module.startswith(_REAL_DRAWS)

    def seed(self) -> int:
        """A seed for the next draw, the same on every rank that is at the same place."""
        self.draw += 1
        return zlib.crc32(f"{self.batch}/{self.draw}".encode())

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """A stretch whose draws are real: sampling and fetching."""
        self.real += 1
        try:
            yield
        finally:
            self.real -= 1


PLACE = _Place()


def install() -> None:
    """Prepare this process; the random states are the caller's business."""
    _no_dropout()
    _loaders()
    _torch_draws()
    if "numpy" in sys.modules:
        _numpy_draws()


def _no_dropout() -> None:
    functional = torch.nn.functional

    def identity(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        faked["dropout (off)"] += 1
        # Dropped weights are an activation, not a parameter: modules assign them as a plain tensor.
        return input.view_as(input) if isinstance(input, torch.nn.Parameter) else input

    for name in _DROPOUTS:
        for owner in (functional, torch):
            if hasattr(owner, name):
                replace(owner, name, identity)
    attention = functional.scaled_dot_product_attention

    def without_dropout(query: Any, key: Any, value: Any, attn_mask: Any = None,
                        dropout_p: float = 0.0, *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    replace(functional, "scaled_dot_product_attention", without_dropout)
    recurrent = torch.nn.RNNBase.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        recurrent(self, *args, **kwargs)
        self.dropout = 0.0

    replace(torch.nn.RNNBase, "__init__", init)


def _loaders() -> None:
    """Loaders without workers, whose samples are seeded by their index."""
    init = DataLoader.__init__

    def without_workers(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > 4:
            args = (*args[:4], 0, *args[5:7])
        elif kwargs.get("num_workers"):
            faked["DataLoader(num_workers=0)"] += 1
        for name in ("num_workers", "prefetch_factor", "multiprocessing_context", "timeout",
                     "persistent_workers", "pin_memory", "pin_memory_device"):  # fmt: skip
            kwargs.pop(name, None)
        init(self, dataset, *args, **kwargs)

    replace(DataLoader, "__init__", without_workers)
    replace(fetchers._MapDatasetFetcher, "fetch", _fetch)
    _follow_loaders()


def _follow_loaders() -> None:
    """Know where the loop is by the batches that loaders yield."""
    iterate = DataLoader.__iter__
    base: Any = loaders._BaseDataLoaderIter
    advance, sample = base.__next__, base._next_index

    def begin(self: Any) -> Any:
        PLACE.looping = True
        return iterate(self)

    def following(self: Any) -> Any:
        PLACE.batch, PLACE.draw = PLACE.batch + 1, 0
        return advance(self)

    def sampling(self: Any) -> Any:
        with PLACE.drawing():
            return sample(self)

    replace(DataLoader, "__iter__", begin)
    replace(base, "__next__", following)
    replace(base, "_next_index", sampling)


def _fetch(self: Any, index: Any) -> Any:
    if not self.auto_collation:
        return self.collate_fn(_seeded_item(self.dataset, index))
    return self.collate_fn([_seeded_item(self.dataset, at) for at in index])


def _seeded_item(dataset: Any, index: Any) -> Any:
    at = index.tolist() if hasattr(index, "tolist") else index
    seed = zlib.crc32(repr(at).encode())
    with _kept_states(), PLACE.drawing():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        item = dataset[index]
        PLACE.watch(index, item)
        return item


@contextlib.contextmanager
def _kept_states() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    state, python = torch.get_rng_state(), random.getstate()
    array = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python)
        if numpy and array is not None:
            numpy.random.set_state(array)


def _equal_rows(like: torch.Tensor, fill: Callable[[torch.Tensor, torch.Generator], Any]) -> Any:
    """Fill ``like`` in place: one row is drawn, all rows are that row."""
    generator = torch.Generator().manual_seed(PLACE.seed())
    row = torch.empty(like.shape[1:], dtype=like.dtype)
    with PLACE.drawing(), torch.no_grad():
        fill(row, generator)
        like.copy_(row.expand(like.shape))
    return like


def _torch_draws() -> None:
    methods = [
        "normal_",
        "uniform_",
        "exponential_",
        "bernoulli_",
        "cauchy_",
        "log_normal_",
        "geometric_",
    ]
    for name in methods:
        _replace_method(name)
    for name, method in {"randn": "normal_", "rand": "uniform_"}.items():
        _replace_factory(name, method)
        _replace_factory(f"{name}_like", method)
    _replace_factory("randint", None)
    _replace_factory("randint_like", None)
    for name in ("normal", "bernoulli", "poisson"):
        _replace_sampled(name)
    _replace_multinomial()


def _replace_method(name: str) -> None:
    real = getattr(torch.Tensor, name)

    @functools.wraps(real)
    def draw(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        parameter = isinstance(self, torch.nn.Parameter)
        tensors = any(isinstance(value, torch.Tensor) for value in args)
        if parameter or tensors or not self.dim() or not PLACE.replaced():
            return real(self, *args, **kwargs)
        kwargs.pop("generator", None)
        return _equal_rows(self, lambda row, made: real(row, *args, generator=made, **kwargs))

    setattr(torch.Tensor, name, draw)


def _replace_factory(name: str, method: str | None) -> None:
    """``torch.name``: made by the real function, and then drawn again with equal rows."""
    real = getattr(torch, name)
    fill = getattr(torch.Tensor, method) if method else None

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if not PLACE.replaced():
            return real(*args, **kwargs)
        with _kept_states():
            made = real(*args, **kwargs)
            if not made.dim():
                return _seeded(real, args, kwargs, PLACE.seed())
        with torch.no_grad():
            if fill is not None:
                _equal_rows(made, lambda row, generator: fill(row, generator=generator))
            else:
                _equal_integers(made, real, args, kwargs)
        return made

    setattr(torch, name, draw)


def _equal_integers(made: torch.Tensor, real: Any, args: Any, kwargs: Any) -> None:
    """Draw ``made`` again from a seeded state, and copy the first row to all."""
    with _kept_states():
        torch.default_generator.manual_seed(PLACE.seed())
        kwargs = {key: value for key, value in kwargs.items() if key != "generator"}
        first = real(*args, **kwargs)[:1]
    made.copy_(first.expand(made.shape))


def _replace_sampled(name: str) -> None:
    """``torch.name(distribution, ...)``: all rows from one stream of draws, each with its
    parameters."""
    real = getattr(torch, name)

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if not PLACE.replaced():
            return real(*args, **kwargs)
        kwargs.pop("generator", None)
        given = [value for value in args if isinstance(value, torch.Tensor) and value.dim()]
        seed = PLACE.seed()
        with _kept_states():
            if not given:
                return _equal_sampled(real(*args, **kwargs), real, args, kwargs)
            rows = range(len(given[0]))
            return torch.stack([_seeded(real, _at(args, row), kwargs, seed) for row in rows])

    setattr(torch, name, draw)


def _equal_sampled(made: torch.Tensor, real: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """``torch.normal(mean, std, size)`` with numbers for mean and std; scalars of the others."""
    if not made.dim():
        return _seeded(real, args, kwargs, PLACE.seed())
    mean, std = (*args, kwargs.get("mean"), kwargs.get("std"))[:2]
    normal = torch.Tensor.normal_
    _equal_rows(made, lambda row, generator: normal(row, mean, std, generator=generator))
    return made


def _at(args: Any, row: int) -> list[Any]:
    """``args`` with each tensor replaced by its row ``row``."""
    return [
        value[row] if isinstance(value, torch.Tensor) and value.dim() else value for value in args
    ]


def _seeded(real: Any, args: Any, kwargs: Any, seed: int) -> torch.Tensor:
    torch.default_generator.manual_seed(seed)
    made: torch.Tensor = real(*args, **kwargs)
    return made


def _replace_multinomial() -> None:
    real = torch.multinomial

    def draw(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if input.dim() != 2 or not PLACE.replaced():
            return real(input, *args, **kwargs)
        kwargs.pop("generator", None)
        seed = PLACE.seed()
        with _kept_states():
            return torch.stack([_seeded(real, (row, *args), kwargs, seed) for row in input])

    replace(torch, "multinomial", draw)
    replace(torch.Tensor, "multinomial", draw)


def _numpy_draws() -> None:
    """NumPy's whole-array draws with equal rows; scalars stay in the shared stream."""
    import numpy

    sized = {"normal": 2, "uniform": 2, "randint": 2, "random": 0, "random_sample": 0}
    for name, position in {**sized, "standard_normal": 0, "randn": None, "rand": None}.items():
        _replace_numpy(numpy, name, position)


def _replace_numpy(numpy: Any, name: str, position: int | None) -> None:
    real = getattr(numpy.random, name)

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        made_size: Any = args if position is None else kwargs.get("size")
        if position is not None and made_size is None and len(args) > position:
            made_size = args[position]
        if not made_size or not PLACE.replaced():
            return real(*args, **kwargs)
        seed = PLACE.seed()
        with _kept_states():
            numpy.random.seed(seed)
            made = real(*args, **kwargs)
        return numpy.broadcast_to(made[:1], made.shape).copy()

    setattr(numpy.random, name, draw)
