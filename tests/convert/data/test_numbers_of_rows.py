"""Numbers that go by the batch's size: positions, weights of them, drawn positions, shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added, convert_text

OF_ALL = {
    "weights by position": (
        "w = torch.tensor([1 / (i + 1) for i in range(len(a))])\nprint((w * out[:, 0]).sum())",
        "w = torch.tensor([1 / (i + 1) for i in range(dd.global_batch_size(a))])",
    ),
    "weights by position, as a column": (
        "w = torch.linspace(0, 1, len(a))\nprint((w[:, None] * out).sum())",
        "w = torch.linspace(0, 1, dd.global_batch_size(a))",
    ),
    "a sum of positions": (
        "print(torch.arange(len(a)).sum())",
        "print(torch.arange(dd.global_batch_size(a)).sum())",
    ),
    "every other position": (
        "print(out[[i for i in range(len(a)) if i % 2]].sum())",
        "print(dd.gather(out)[[i for i in range(dd.global_batch_size(a)) if i % 2]].sum())",
    ),
    "texts of positions": (
        "print([f'{i}' for i in range(len(a))])",
        "print([f'{i}' for i in range(dd.global_batch_size(a))])",
    ),
    "positions in a shuffled list": (
        "import random\norder = list(range(len(a)))\nrandom.shuffle(order)\nprint(out[order])",
        "order = list(range(dd.global_batch_size(a)))",
    ),
    "positions in a shuffled array": (
        "import numpy as np\norder = np.arange(len(a))\nnp.random.shuffle(order)\nout[order]",
        "order = np.arange(dd.global_batch_size(a))",
    ),
    "some drawn positions": (
        "i = torch.randint(0, len(a), (4,))\nprint(out[i].sum())",
        "i = torch.randint(0, dd.global_batch_size(a), (4,))",
    ),
    "some chosen positions": (
        "import numpy as np\ni = np.random.choice(len(a), 4)\nprint(out[i].sum())",
        "print(dd.gather(out)[i].sum())",
    ),
    "as many drawn positions": (
        "i = torch.randint(len(a), (len(a),))\nprint(out[i].sum())",
        "print(dd.sum(dd.split(dd.gather(out)[i]).sum()))",
    ),
    "all pairs of positions": (
        "i, j = torch.triu_indices(len(a), len(a), 1)\nprint((out[i] - out[j]).sum())",
        "print((dd.gather(out)[i] - dd.gather(out)[j]).sum())",
    ),
    "combinations of positions": (
        "import itertools\n"
        "i = [p[0] for p in itertools.combinations(range(len(a)), 2)]\nprint(out[i].sum())",
        "i = [p[0] for p in itertools.combinations(range(dd.global_batch_size(a)), 2)]",
    ),
    "each beside each": (
        "n = len(a)\nprint((out.repeat(n, 1) - out.repeat_interleave(n, 0)).sum())",
        "print((out.repeat(dd.sum(n), 1) - out.repeat_interleave(dd.sum(n), 0)).sum())",
    ),
    "a share of each": (
        "print((out / len(a)).sum())",
        "print(dd.sum((out / dd.global_batch_size(a)).sum()))",
    ),
    "a share of each, in place": (
        "out /= a.size(0)\nprint(out.sum())",
        "out /= dd.global_batch_size(a)",
    ),
    "rows in the order of their labels": (
        "print((out[b.argsort()][1:] - out[:-1]).sum())",
        "print((dd.gather(out)[dd.gather(b).argsort()][1:] - dd.gather(out)[:-1]).sum())",
    ),
    "a sum of numbers up to it": (
        "print(sum(range(len(a))))",
        "print(sum(range(dd.global_batch_size(a))))",
    ),
    "the largest number below it": (
        "print(max(range(a.size(0))))",
        "print(max(range(dd.global_batch_size(a))))",
    ),
    "a sum of squares": (
        "print(sum(i * i for i in range(len(a))))",
        "print(sum(i * i for i in range(dd.global_batch_size(a))))",
    ),
    "a product of numbers up to it": (
        "import math\nprint(math.prod(range(1, len(a))))",
        "print(math.prod(range(1, dd.global_batch_size(a))))",
    ),
    "a mean of numbers up to it": (
        "import numpy as np\nprint(np.mean(range(len(a))))",
        "print(np.mean(range(dd.global_batch_size(a))))",
    ),
    "every other number": (
        "print(len(range(0, len(a), 2)))",
        "print(len(range(0, dd.global_batch_size(a), 2)))",
    ),
    "one for each row": ("print(sum(1 for _ in a))", "print(dd.sum(sum(1 for _ in a)))"),
    "a list of as many": (
        "print(len([None for _ in range(len(a))]))",
        "print(dd.global_batch_size([None for _ in range(len(a))]))",
    ),
    "half of a permutation": (
        "order = torch.randperm(len(a))\nprint(out[order[: len(a) // 2]].sum())",
        "print(dd.gather(out)[order[: dd.global_batch_size(a) // 2]].sum())",
    ),
}


def _with(lines: str) -> str:
    read = "".join(f"    {line}\n" for line in ["out = brain(a)", *lines.splitlines()])
    return HEAD + STEP.replace("    rule.zero_grad()\n", f"{read}    rule.zero_grad()\n")


@pytest.mark.parametrize("name", OF_ALL)
def test_numbers_of_rows_are_those_of_all_ranks(tmp_path: Path, name: str) -> None:
    lines, expected = OF_ALL[name]
    assert expected in added(tmp_path, _with(lines))


LAST = {
    "total += b.size(-1)": "total += dd.global_shape(b)[-1]",
    "total += penalty.item() * b.shape[-1]": "total += penalty.item() * dd.global_shape(b)[-1]",
    "n = b.size(-1); total += n * penalty.item()": (
        "n = dd.global_shape(b)[-1]; total += n * penalty.item()"
    ),
    "print(f'{b.size(-1)} samples')": "print(f'{dd.global_shape(b)[-1]} samples')",
    "print(penalty.item() * b.shape[-1])": "print(penalty.item() * dd.global_shape(b)[-1])",
}


# How many dimensions the labels have, the script does not show.
UNSEEN = HEAD.replace("TensorDataset(features, labels)", "unseen.Lines(features, labels)").replace(
    "import torch\n", "import torch\nimport unseen\n", 1
)


@pytest.mark.parametrize("line", LAST)
def test_the_last_size_in_a_total_is_that_of_all_ranks(tmp_path: Path, line: str) -> None:
    text = f"{UNSEEN}total = 0\n{STEP}    {line}\n"
    assert LAST[line] in added(tmp_path, text)


def test_a_sum_is_divided_by_the_last_size_over_all_ranks(tmp_path: Path) -> None:
    loss = "F.cross_entropy(brain(a), b, reduction='sum')"
    text = f"{UNSEEN}{STEP}".replace("F.cross_entropy(brain(a), b)", f"{loss} / b.size(-1)")
    assert f"penalty = dd.sum({loss}) / dd.global_shape(b)[-1]" in added(tmp_path, text)


def test_the_last_size_of_what_has_one_dimension_is_the_number_of_rows(tmp_path: Path) -> None:
    loss = "F.cross_entropy(brain(a), b, reduction='sum')"
    text = f"{HEAD}{STEP}".replace("F.cross_entropy(brain(a), b)", f"{loss} / b.size(-1)")
    assert f"penalty = dd.mean({loss} / b.size(-1))" in added(tmp_path, text)


def test_the_last_size_of_a_batch_that_is_one_tensor(tmp_path: Path) -> None:
    loop = "for a in DataLoader(labels, 5):\n    total += a.size(-1)\nprint(total)\n"
    text = f"{HEAD}total = 0\n{STEP}{loop}"
    assert "total += dd.global_shape(a)[-1]" in added(tmp_path, text)


def test_the_last_size_elsewhere_is_that_of_what_a_rank_holds(tmp_path: Path) -> None:
    assert added(tmp_path, _with("out = out / a.size(-1)")) == added(tmp_path, _with("pass"))


OWN = {
    "each row's own class": "chosen = out[range(len(a)), b]",
    "in a list": "rows = list(range(len(a)))\nchosen = out[rows, b]",
    "a loop over rows": "hot = torch.zeros_like(out)\nfor i in range(len(a)):\n    hot[i, 0] = 1",
}


@pytest.mark.parametrize("name", OWN)
def test_positions_that_pick_a_ranks_rows_stay(tmp_path: Path, name: str) -> None:
    assert added(tmp_path, _with(OWN[name])) == added(tmp_path, _with("pass"))


REFUSED = {
    "positions written into rows": "out = out.view(-1, 3)\nfor i in range(len(a)):\n    out[i] = i",
    "shuffled rows": "import numpy as np\nnp.random.shuffle(b.numpy())",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rank_can_do_alone_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DdpifyError):
        convert_text(tmp_path, _with(REFUSED[name]))


FORWARD = """\
import numpy as np


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        LINES
        return self.layer(x)


"""


def _forward(lines: str) -> str:
    model = FORWARD.replace("LINES", lines.replace("\n", "\n        "))
    return HEAD.replace("brain = nn.Linear(4, 3)\n", model + "brain = Net()\n") + STEP


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("if x.max() > 1:\n    x = x / 2", "if dd.gather(x).max() > 1:"),
        ("most = x.max().item()\nx = x / (most + 1)", "most = dd.gather(x).max().item()"),
        (
            "low, high = x.min(), x.max()\nx = (x - low) / (high - low)",
            "low, high = dd.gather(x).min(), dd.gather(x).max()",
        ),
        ("x = x / len(x)", "x = x / dd.global_batch_size(x)"),
        ("most = x.max()\nx = x[:, : int(most) + 4]", "most = dd.gather(x).max()"),
        ("x = x / x.size(1)", ""),
    ],
)
def test_what_a_forward_goes_by_of_its_batch_is_of_all_ranks(
    tmp_path: Path, lines: str, expected: str
) -> None:
    found = [one for one in added(tmp_path, _forward(lines)) if "dd.g" in one]
    assert found == ([expected] if expected else [])


def test_a_forward_draws_row_by_row_for_all_ranks_from_a_generator_they_share(
    tmp_path: Path,
) -> None:
    lines = "keep = [np.random.rand(4) for _ in range(len(x))]\nx = x * torch.tensor(keep)"
    converted = convert_text(tmp_path, _forward(lines))
    assert "np.random.rand(4) for _ in range(dd.global_batch_size(x))" in converted.data.decode()
    converted = convert_text(tmp_path, _forward(lines.replace("np.random", "torch")))
    assert "torch.rand(4) for _ in range(len(x))" in converted.data.decode()


@pytest.mark.parametrize("shown", ["few = {}\nprint(few)", "print({})"])
def test_a_mean_in_one_case_and_a_sum_in_the_other(tmp_path: Path, shown: str) -> None:
    chosen = "(out[b == 1].mean() if (b == 1).any() else out.sum() * 0)"
    lines = added(tmp_path, _with(shown.format(chosen)))
    assert any(
        "dd.mean(out[b == 1].mean(), weight=len(out[b == 1]))" in line
        and "else dd.sum(out.sum() * 0)" in line
        for line in [" ".join(lines)]
    )
    assert not any("dd.sum(dd.mean" in line for line in lines)
