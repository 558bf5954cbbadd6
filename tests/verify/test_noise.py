"""Random numbers of a rank's own where they should be shared, and equal ones where they should not.

The ports of a script that draws noise, and what ``verify`` says of each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddpify.verify import Kind, Verdict, render, verify
from ddpify.verify.launch.launcher import Worker

LOSS = "            loss = criterion(model(x), y)\n"
SEED = "    torch.manual_seed(0)\n    model = Dis"
SLICE = "            x, y = x[rank::world], y[rank::world]\n"
OWN = (SEED, "    torch.manual_seed(0)\n    made = make_model()\n    model = Dis")
Noisy = Callable[..., Verdict]

FILLED = "torch.Tensor.exponential_(torch.zeros((len(x), 6)), 2)"
ROWS = [
    FILLED,
    "torch.rand_like(x)",
    "torch.as_tensor(np.random.normal(0, 1, (len(x), 6))).to(x.dtype)",
    "torch.distributions.Exponential(torch.ones(len(x), 6)).sample()",
]
SHARED = [
    "torch.Tensor.exponential_(torch.zeros(6), 2)",
    "float(torch.rand(1))",
    "torch.as_tensor(np.random.normal(0, 1, 6)).to(x.dtype)",
]
BY_RANK = "    torch.manual_seed(rank)\n    np.random.seed(rank)\n"
ALIKE = "    torch.manual_seed(5)\n    np.random.seed(5)\n"


@pytest.fixture
def noisy(folder: Path, worker: Worker) -> Noisy:
    """Verify port.py, whose ranks call a function before the loop, with noise in both scripts."""

    def run(noise: str, seeds: str, port: str = "") -> Verdict:
        for name, drawn in (("single.py", noise), ("port.py", port or noise)):
            text = (folder / name).read_text()
            text = text.replace("import torch\n", "import numpy as np\nimport torch\n", 1)
            text = text.replace(LOSS, f"            x = x + {drawn}\n" + LOSS)
            loader = "    loader = DataLoader(make_data(), batch_size=8, shuffle=True"
            made = ", generator=torch.Generator().manual_seed(2)"
            before = seeds if name == "port.py" else ALIKE
            text = text.replace(loader, before + loader + made)
            (folder / name).write_text(text)
        return verify(Path("single.py"), Path("port.py"), timeout=60, worker=worker)

    return run


@pytest.mark.parametrize("noise", ROWS)
def test_ranks_that_repeat_each_others_noise(noisy: Noisy, noise: str) -> None:
    verdict = noisy(noise, ALIKE)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert "DDP601" in render(verdict)
    assert "dropout drops the same of different samples" in " ".join(render(verdict).split())


@pytest.mark.parametrize("noise", ROWS)
def test_noise_of_each_ranks_own_for_its_samples(noisy: Noisy, noise: str) -> None:
    verdict = noisy(noise, BY_RANK)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert "dropout drops the same" not in render(verdict)


@pytest.mark.parametrize("noise", SHARED)
def test_noise_of_each_ranks_own_that_all_samples_share(noisy: Noisy, noise: str) -> None:
    verdict = noisy(noise, BY_RANK)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert "DDP602" in render(verdict)


@pytest.mark.parametrize("noise", SHARED[:2])
def test_noise_that_all_samples_share(noisy: Noisy, noise: str) -> None:
    verdict = noisy(noise, ALIKE)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


def test_rows_of_noise_for_the_global_batch(noisy: Noisy) -> None:
    drawn = "torch.zeros(count, 6).exponential_()"
    verdict = noisy(drawn.replace("count", "len(x)"), ALIKE, f"{drawn}[rank::world]")
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


def test_first_rows_of_global_noise_on_all_ranks_beside_noise_of_their_own(noisy: Noisy) -> None:
    """Where the ranks draw for their own samples, other draws are compared as they are."""
    own = "0 * torch.randn(len(x), 6, generator=torch.Generator().manual_seed({seed}))"
    verdict = noisy(
        f"{own.format(seed=1)} + torch.randn(len(x), 6)",
        ALIKE,
        f"{own.format(seed='rank')} + torch.randn(count, 6)[:len(x)]",
    )
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
