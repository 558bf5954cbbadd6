"""Random rows for a batch: drawn whole on every rank, as one process draws them, and split."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

START = HEAD.replace("import torch\n", "import random\nimport numpy as np\nimport torch\n", 1)


def script(*lines: str, before: str = "") -> str:
    """The example, with these lines before the model is called on ``a + noise``."""
    call = "    penalty = F.cross_entropy(brain(a), b)\n"
    assert call in STEP
    drawn = "".join(f"    {line}\n" for line in lines)
    return START + before + STEP.replace(call, drawn + call.replace("(a)", "(a + noise)"))


@pytest.mark.parametrize(
    ("line", "converted"),
    [
        ("torch.randn_like(a)", "dd.split(torch.randn_like(dd.global_like(a)))"),
        ("torch.randn(a.shape)", "dd.split(torch.randn(dd.global_shape(a)))"),
        ("torch.randn(*a.size())", "dd.split(torch.randn(*dd.global_shape(a)))"),
        (
            "torch.rand((len(a),) + a.shape[1:])",
            "dd.split(torch.rand((dd.global_batch_size(a),) + a.shape[1:]))",
        ),
        (
            "torch.randn(2, a.size(0), 4).sum(0)",
            "dd.split(torch.randn(2, dd.global_batch_size(a), 4), dim=1).sum(0)",
        ),
        (
            "torch.rand(sizes)",
            "dd.split(torch.rand(dd.global_shape(sizes)))",
        ),
        (
            "torch.bernoulli(torch.sigmoid(a))",
            "dd.split(torch.bernoulli(dd.gather(torch.sigmoid(a))))",
        ),
        ("F.dropout(a, 0.5)", "dd.split(F.dropout(dd.gather(a), 0.5))"),
        ("nn.Dropout(0.5)(a)", "dd.split(nn.Dropout(0.5)(dd.gather(a)))"),
        (
            "torch.empty_like(a).uniform_(-1, 1)",
            "dd.split(dd.global_like(torch.empty_like(a)).uniform_(-1, 1))",
        ),
        (
            "torch.tensor(np.random.rand(*a.shape))",
            "torch.tensor(dd.split(np.random.rand(*dd.global_shape(a))))",
        ),
        (
            "torch.tensor(rng.normal(size=(len(a), 1)))",
            "torch.tensor(dd.split(rng.normal(size=(dd.global_batch_size(a), 1))))",
        ),
        (
            "torch.distributions.Normal(a, 1.0).sample()",
            "dd.split(dd.gather(torch.distributions.Normal(a, 1.0)).sample())",
        ),
        (
            "torch.distributions.Beta(1, 1).sample([len(a)])",
            "dd.split(torch.distributions.Beta(1, 1).sample([dd.global_batch_size(a)]))",
        ),
    ],
)
def test_rows_are_drawn_for_the_whole_batch(tmp_path: Path, line: str, converted: str) -> None:
    sizes = "sizes = [len(a)] + [1] * (a.dim() - 1)"
    begin = "rng = np.random.default_rng(0)\n"
    lines = added(tmp_path, script(sizes, f"noise = {line}", before=begin))
    assert f"noise = {converted}" in lines


def test_one_number_that_all_ranks_draw(tmp_path: Path) -> None:
    lines = added(tmp_path, script("noise = np.random.randint(low=1, high=3)"))
    assert lines and not any(line.startswith("noise") for line in lines)


def test_the_order_of_drawn_numbers(tmp_path: Path) -> None:
    lines = added(tmp_path, script("i = torch.rand(a.size(0)).argsort()", "noise = a[i]"))
    assert "i = torch.rand(dd.global_batch_size(a)).argsort()" in lines
    assert "noise = dd.split(dd.gather(a)[i])" in lines


def test_what_is_filled_in_place_stays_filled(tmp_path: Path) -> None:
    lines = added(tmp_path, script("noise = torch.zeros_like(a)", "noise.normal_(0, 2)"))
    assert "noise.copy_(dd.split(dd.global_like(noise).normal_(0, 2)))" in lines


def test_a_function_that_gets_the_batch(tmp_path: Path) -> None:
    make = "def make(x):\n    return torch.randn_like(x)\n"
    lines = added(tmp_path, script("noise = make(a)", before=make))
    assert "return dd.split(torch.randn_like(dd.global_like(x)))" in lines


MAKE = """\
def make(n):
    return torch.randn(n, 4)


"""


def test_a_function_that_also_draws_for_all_ranks_alike(tmp_path: Path) -> None:
    text = script("noise = make(len(a))", before=MAKE + "fixed = make(5)\n")
    lines = added(tmp_path, text + "print(brain(make(5)).sum(), brain(fixed).sum())\nx = make(7)\n")
    assert "return dd.split(torch.randn(dd.global_batch_size(n), 4))" in lines
    # Before the first batch, there is none to take it for.
    assert lines[-3:] == [
        "with dd.replicated():",
        "print(brain(make(5)).sum(), brain(fixed).sum())",
        "x = make(7)",
    ]


def test_a_line_that_draws_for_the_batch_and_for_all_is_refused(tmp_path: Path) -> None:
    text = script("noise = make(len(a)) + make(1)", before=MAKE)
    with pytest.raises(Refusal, match="for the batch in one call and replicated numbers"):
        added(tmp_path, text)


def test_numbers_for_all_ranks_alike_stay(tmp_path: Path) -> None:
    text = script("noise = torch.rand(1) + torch.randn_like(brain.weight).mean()")
    assert not any("noise" in line for line in added(tmp_path, text) if "penalty" not in line)


NOISY = """\
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x + DRAW)


"""


@pytest.mark.parametrize(
    ("draw", "changed"),
    [
        # A forward on the rank's own rows draws from a stream of the rank's own.
        ("torch.randn_like(x)", False),
        ("torch.randn(x.size(0), 4)", False),
        ("F.dropout(x)", False),
        # NumPy's generators are the same on all ranks there too.
        ("torch.from_numpy(np.random.randn(len(x), 4)).float()", True),
    ],
)
def test_draws_of_a_wrapped_model(tmp_path: Path, draw: str, changed: bool) -> None:
    text = START.replace("brain = nn.Linear(4, 3)\n", NOISY.replace("DRAW", draw), 1)
    text = text.replace("rule =", "brain = Noisy()\nrule =") + STEP
    lines = [line for line in added(tmp_path, text) if line.startswith("return")]
    assert bool(lines) == changed


def test_a_module_that_is_not_wrapped(tmp_path: Path) -> None:
    held = NOISY.replace("self.layer = nn.Linear(4, 3)", "self.scale = nn.Parameter(torch.ones(4))")
    held = held.replace("self.layer(x + DRAW)", "x + torch.randn_like(x)")
    lines = added(tmp_path, script("noise = spread(a) - a", before=f"{held}spread = Noisy()\n"))
    assert "return x + dd.split(torch.randn_like(dd.global_like(x)))" in lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch.distributions.Beta(a, 1.0).sample()", "a random draw reads samples"),
        ("torch.tensor([random.random() for _ in a])[:, None]", "a random draw reads samples"),
        (
            "torch.stack([generator.normal(size=4) for _ in a])",
            "a random draw reads samples",
        ),
    ],
)
def test_refused(tmp_path: Path, line: str, words: str) -> None:
    generator = "generator = np.random.default_rng(0)\n"
    with pytest.raises(Refusal, match=words) as caught:
        convert_text(tmp_path, script(f"noise = {line}", before=generator))
    assert "draw for the whole batch at once" in str(caught.value)


@pytest.mark.parametrize("name", ["GaussianBlur(3)", "Grayscale()"])
def test_a_transform_of_each_sample_that_may_draw(tmp_path: Path, name: str) -> None:
    made = f"change = transforms.Compose([transforms.{name}])\n"
    before = f"from torchvision import transforms\n{made}"
    text = script("noise = torch.stack([change(row) for row in a])", before=before)
    if name == "Grayscale()":
        assert "dd.gather" not in "".join(added(tmp_path, text))
    else:
        with pytest.raises(Refusal, match="a random draw reads samples"):
            convert_text(tmp_path, text)


def test_one_draw_for_the_batch_and_for_what_all_ranks_hold(tmp_path: Path) -> None:
    make = "fixed = torch.zeros(9, 4)\ndef make(x):\n    return torch.randn_like(x)\n"
    text = script("noise = make(a) + make(fixed).mean()", before=make)
    with pytest.raises(Refusal, match="replicated numbers in another"):
        convert_text(tmp_path, text)


ENDLESS = """\
def endless(loader):
    while True:
        yield from loader


more = endless(feed)
for step in range(9):
    for _ in range(2):
        rough = torch.randn(size, 4)
        a, b = next(more)
        rule.zero_grad()
        penalty = (brain(a) - brain(rough)).pow(2).mean()
        penalty.backward()
        rule.step()
    rule.zero_grad()
    penalty = brain(torch.randn(size * 2, 4)).mean()
    penalty.backward()
    rule.step()
"""


def test_rows_that_are_drawn_before_the_batch_and_after_its_loop(tmp_path: Path) -> None:
    head = HEAD.replace("batch_size=6, shuffle", "batch_size=size, shuffle")
    lines = added(tmp_path, head.replace("feed =", "size = 6\nfeed =") + ENDLESS)
    assert "rough = dd.split(torch.randn(size, 4))" in lines
    assert "penalty = dd.mean(brain(dd.split(torch.randn(size * 2, 4))).mean())" in lines


@pytest.mark.parametrize(
    ("taken", "converted"),
    [
        ("fixed[:a.size(0)]", "dd.split(fixed[:dd.global_batch_size(a)])"),
        (
            "torch.tensor(listed[:len(a)])",
            "torch.tensor(dd.split(listed[:dd.global_batch_size(a)]))",
        ),
        (
            "torch.stack(kept[:len(a)])",
            "torch.stack(dd.split(kept[:dd.global_batch_size(a)]))",
        ),
        ("fixed[0:len(a), :4]", "dd.split(fixed[0:dd.global_batch_size(a), :4])"),
    ],
)
def test_rows_that_were_drawn_once_for_all_batches(
    tmp_path: Path, taken: str, converted: str
) -> None:
    before = "fixed = torch.randn(6, 4)\nlisted = fixed.tolist()\nkept = [torch.ones(4)] * 6\n"
    text = script(f"noise = {taken}", before=before)
    assert f"noise = {converted}" in added(tmp_path, text)


def test_the_rest_behind_as_many_rows_as_a_batch_has(tmp_path: Path) -> None:
    """It may have another number of rows, so that it is computed with those of all ranks."""
    lines = added(tmp_path, script("noise = fixed[len(a):]", before="fixed = torch.randn(12, 4)\n"))
    assert "noise = fixed[dd.global_batch_size(a):]" in lines
    assert "penalty = F.cross_entropy(dd.spread(brain)(dd.gather(a) + noise), b)" in lines


def test_numbers_for_half_of_a_batch_that_are_used_twice(tmp_path: Path) -> None:
    """The half of the global batch is not the sum of the ranks' halves."""
    lines = added(
        tmp_path,
        script(
            "half = torch.rand(len(a) // 2 + 1, 1)",
            "noise = torch.cat([half, 1 - half])[: len(a)]",
        ),
    )
    assert "half = torch.rand(dd.global_batch_size(a) // 2 + 1, 1)" in lines
    assert "noise = dd.split(torch.cat([half, 1 - half])[: dd.global_batch_size(a)])" in lines


def test_rows_that_numbers_of_the_batch_select(tmp_path: Path) -> None:
    """They are as many as the numbers: their mean divides by no other number."""
    lines = added(
        tmp_path,
        script("noise = torch.linspace(0, 1, 3).index_select(0, b).view(-1, 1)").replace(
            "penalty = F.cross_entropy(brain(a + noise), b)",
            "penalty = (brain(a) - noise).pow(2).sum(1).mean()",
        ),
    )
    assert "penalty = dd.mean((brain(a) - noise).pow(2).sum(1).mean())" in lines


def test_a_distribution_draws_for_a_batch_by_the_name_of_its_size(tmp_path: Path) -> None:
    text = HEAD.replace("features, labels", "size = 6\nfeatures, labels", 1)
    text = text.replace("batch_size=6, shuffle", "batch_size=size, shuffle") + (
        "noise = torch.distributions.Normal(torch.zeros(4), torch.ones(4))\n"
        "for a, b in feed:\n"
        "    rule.zero_grad()\n"
        "    penalty = F.cross_entropy(brain(a + noise.sample((size,))), b)\n"
        "    penalty.backward()\n"
        "    rule.step()\n"
        "print(noise.sample((size,)).sum())\n"
    )
    lines = added(tmp_path, text)
    assert any("brain(a + dd.split(noise.sample((size,))))" in line for line in lines)
    assert not any("print" in line for line in lines)


def test_a_number_that_a_function_names_as_the_batch_size_is_named(tmp_path: Path) -> None:
    """A name says nothing of what it stands for in a function that sets it itself."""
    text = HEAD.replace("features, labels", "size = 6\nfeatures, labels", 1)
    text = text.replace("batch_size=6, shuffle", "batch_size=size, shuffle") + (
        "def show(rows):\n"
        "    size = rows.size(0)\n"
        "    return brain(rows + torch.ones(size, 4)).sum()\n"
        "\n\n"
        "fixed = torch.randn(7, 4)\n" + STEP + "    print(show(fixed).item())\n"
    )
    assert not any("split" in line for line in added(tmp_path, text))
