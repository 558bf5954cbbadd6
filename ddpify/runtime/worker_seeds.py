"""Seeds of the worker processes of each rank's loaders."""

import random
import sys
from collections.abc import Callable

import torch
from torch.utils.data import get_worker_info


class WorkerSeed:
    """A worker_init_fn that gives each rank's workers their own seeds, then runs the script's."""

    def __init__(self, then: Callable[[int], None] | None, rank: int) -> None:
        self.then = then
        self.rank = rank

    def around(self, then: Callable[[int], None] | None) -> "WorkerSeed":
        """The same before another function."""
        return WorkerSeed(then, self.rank)

    def __call__(self, worker_id: int) -> None:
        """In the worker process, before it fetches."""
        info = get_worker_info()
        assert info is not None
        # As if all ranks' workers were one loader's: base_seed + 0, 1, 2, ...
        seed = info.seed + self.rank * info.num_workers
        object.__setattr__(info, "seed", seed)
        random.seed(seed)
        torch.manual_seed(seed)
        if "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            numpy.random.seed(numpy.random.SeedSequence(seed).generate_state(4))
        if self.then is not None:
            self.then(worker_id)
