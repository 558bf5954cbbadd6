"""Batches that a script makes by hand: where they are split, and where a script is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert import examples
from tests.convert.examples import added, convert_text

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

sky = torch.randn(90, 4)
sea = torch.randint(3, (90,))
brain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
STEP = """\
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
"""
START = ["from ddpify import runtime as dd", "", "dd.init()", ""]
MODEL = "brain = dd.wrap(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))"
LOSS = "penalty = dd.mean(F.cross_entropy(brain(a), b))"

WAYS = {
    "slices": (
        "for i in range(0, 90, 8):\n    a, b = sky[i : i + 8], sea[i : i + 8]\n",
        "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])",
    ),
    "a permutation": (
        "order = torch.randperm(90)\nfor i in range(0, 90, 8):\n"
        "    picked = order[i : i + 8]\n    a = sky[picked]\n    b = sea[picked]\n",
        "a = dd.shard_batch(sky[picked])\nb = dd.shard_batch(sea[picked])",
    ),
    "a function": (
        "def draw(n):\n    i = torch.randint(90, (n,))\n    return sky[i], sea[i]\n\n\n"
        "for step in range(9):\n    a, b = draw(8)\n",
        "a, b = dd.shard_batch(a, b)",
    ),
    "a generator": (
        "def batches(n):\n    for i in range(0, 90, n):\n"
        "        yield sky[i : i + n], sea[i : i + n]\n\n\nfor a, b in batches(8):\n",
        "a, b = dd.shard_batch(a, b)",
    ),
    "a loop over what is not seen": (
        "import feeding\nfor a, b in feeding.batches(8):\n",
        "a, b = dd.shard_batch(a, b)",
    ),
    "an object of code that ddpify cannot read": (
        "import feeding\nseas = feeding.load()\nfor i in range(0, 90, 8):\n"
        "    a, b = seas.x[i : i + 8], seas.near.y[i : i + 8]\n",
        "a, b = dd.shard_batch(seas.x[i : i + 8], seas.near.y[i : i + 8])",
    ),
    "code that ddpify cannot read": (
        "import feeding\nfor step in range(9):\n    a, b = feeding.batch(8)\n",
        "a, b = dd.shard_batch(a, b)",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_split_where_it_is_made(tmp_path: Path, way: str) -> None:
    loop, expected = WAYS[way]
    lines = added(tmp_path, HEAD + loop + STEP)
    assert [line for line in lines if line not in START] == [MODEL, *expected.split("\n"), LOSS]


def test_a_product_of_stacked_matrices_leaves_the_samples_first(tmp_path: Path) -> None:
    model = (
        "class Products(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.out = nn.Linear(1, 3)\n\n    def forward(self, x):\n"
        "        y = torch.matmul(x[:, None, None, :], x[:, None, :, None])\n"
        "        return self.out(y.flatten(1))\n\n\nbrain = Products()\n"
        "rule = torch.optim.SGD(brain.parameters(), lr=0.1)\n"
    )
    lines = added(tmp_path, HEAD + model + WAYS["slices"][0] + STEP)
    assert "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines


def test_what_comes_with_a_batch_is_split_with_it(tmp_path: Path) -> None:
    squares = STEP.replace("F.cross_entropy(brain(a), b)", "(brain(a) - b).pow(2).mean()")
    lines = added(tmp_path, HEAD + "import feeding\nfor a, b in feeding.batches(8):\n" + squares)
    assert "a, b = dd.shard_batch(a, b)" in lines


def test_all_samples_at_once_are_split_before_the_loop(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + "for epoch in range(3):\n    a, b = sky, sea\n" + STEP)
    assert "sky = dd.shard_batch(torch.randn(90, 4))" in lines
    assert "sea = dd.shard_batch(torch.randint(3, (90,)))" in lines


RECURRENT = """\
import torch
from torch import nn

text = torch.randint(7, (200,)).view(10, -1).t()
net = nn.LSTM(5, 7)
words = nn.Embedding(7, 5)
rule = torch.optim.SGD([*net.parameters(), *words.parameters()], lr=0.1)
state = (torch.zeros(1, 10, 7), torch.zeros(1, 10, 7))
for i in range(0, 18, 6):
    output, _ = net(words(text[i : i + 6]), state)
    penalty = nn.functional.cross_entropy(output.view(-1, 7), text[i + 1 : i + 7].reshape(-1))
    penalty.backward()
    rule.step()
"""


def test_columns_are_split_where_the_layers_say_so(tmp_path: Path) -> None:
    lines = added(tmp_path, RECURRENT)
    assert "text = dd.shard_batch(torch.randint(7, (200,)).view(10, -1).t(), dim=1)" in lines
    assert "state = dd.shard_batch((torch.zeros(1, 10, 7), torch.zeros(1, 10, 7)), dim=1)" in lines


def test_an_evaluation_stays_whole(tmp_path: Path) -> None:
    check = "with torch.no_grad():\n    print(F.cross_entropy(brain(sky[:9]), sea[:9]).item())\n"
    lines = added(tmp_path, HEAD + WAYS["slices"][0] + STEP + check)
    assert not any("print" in line for line in lines)


SHARED = """\
def measure(a, b):
    right = (brain(a).argmax(1) == b).sum().item()
    return F.cross_entropy(brain(a), b), right


for i in range(0, 72, 8):
    a, b = sky[i : i + 8], sea[i : i + 8]
    rule.zero_grad()
    penalty, right = measure(a, b)
    penalty.backward()
    rule.step()
with torch.no_grad():
    for i in range(72, 90, 8):
        c, d = sky[i : i + 8], sea[i : i + 8]
        print(measure(c, d)[1])
"""


def test_an_evaluation_that_shares_code_with_the_training_is_split_too(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + SHARED)
    assert "right = dd.sum((brain(a).argmax(1) == b).sum()).item()" in lines
    assert "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines
    assert "c, d = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines


ALIKE = """\
def batch(many):
    at = torch.randint(80, (8,))
    return sky[at] * many, sea[at]


for step in range(9):
    a, b = batch(1)
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
with torch.no_grad():
    for step in range(3):
        c, d = batch(2)
        print(F.cross_entropy(brain(c), d).item())
"""


def test_an_evaluation_on_batches_of_the_same_function_is_split_too(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + ALIKE)
    assert "c, d = dd.shard_batch(c, d)" in lines
    assert "print(dd.mean(F.cross_entropy(brain(c), d)).item())" in lines


def test_one_that_needs_its_batches_whole_stays_so(tmp_path: Path) -> None:
    text = ALIKE.replace("print(", "c = c[: len(c) // 3]; d = d[: len(d) // 3]; print(")
    lines = added(tmp_path, HEAD + text + "torch.save([*batch(3)], open('x', 'wb'))\n")
    assert "a, b = dd.shard_batch(a, b)" in lines


TAGGER = """\
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.along = nn.LSTM(4, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        steps, _ = self.along(x.view(len(x), 1, -1))
        return self.out(steps.view(len(x), -1))


brain = Tagger()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
REFUSED = {
    "the steps of one sequence": (
        f"{TAGGER}for text, kinds in zip(sky.split(9), sea.split(9)):\n"
        "    a, b = torch.tensor(text.tolist()), torch.tensor(kinds.tolist())\n"
    ),
    "one sequence, step by step": (
        "def coded(word):\n"
        "    steps = torch.zeros(len(word), 1, 4)\n"
        "    for i, letter in enumerate(word):\n        steps[i][0][ord(letter) % 4] = 1\n"
        "    return steps\n\n\n"
        "for word in ['ab', 'cab']:\n"
        "    steps, b = coded(word), torch.LongTensor([len(word) % 3])\n"
        "    for i in range(len(word)):\n        a = steps[i]\n        brain(a)\n"
    ),
    "one sample a step": "for i in range(90):\n    a, b = sky[i][None], sea[i][None]\n",
    "one sample a step, by a list of it": "for i in range(90):\n    a, b = sky[[i]], sea[[i]]\n",
    "one sample a step, by a slice": (
        "for i in range(90):\n    a, b = sky[i : i + 1], sea[i : i + 1]\n"
    ),
    "one sample a step, and all in an evaluation": (
        "def check():\n    brain.eval()\n    print(F.cross_entropy(brain(sky), sea).item())\n\n\n"
        "for i in range(90):\n    check()\n    brain.train()\n    a, b = sky[[i]], sea[[i]]\n"
    ),
    "one sample that is given a batch dimension by NumPy": (
        "import numpy as np\nocean = np.random.randn(90, 4).astype(np.float32)\n"
        "for i in range(90):\n    a = torch.from_numpy(ocean[i, :][np.newaxis, :])\n"
        "    b = torch.from_numpy(np.arange(3)[i % 3 : i % 3 + 1])\n"
    ),
    "words that a loader gives": (
        "words = torch.utils.data.DataLoader(['ab', 'cd'] * 9, batch_size=1)\n"
        "def coded(word):\n    return torch.tensor([[ord(c) / 128, 0, 0, 1] for c in word])\n\n\n"
        "for word in words:\n    a, b = coded(word[0]), torch.zeros(2).long()\n"
    ),
    "no data": "for i in range(90):\n    a, b = brain[0].weight, sea\n",
}
GRAPH = """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, nodes, edges):
        return torch.mm(edges, torch.mm(nodes, self.weight))


nodes, edges, kinds = torch.randn(9, 4), torch.eye(9), torch.randint(3, (9,))
net = Graph()
rule = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    penalty = nn.functional.cross_entropy(net(nodes, edges), kinds)
    penalty.backward()
    rule.step()
"""


FLAT = """\
def draw(i):
    return sky[i : i + 8], torch.stack([sea[i : i + 8]] * 2, 1).view(-1)


for i in range(0, 72, 8):
    a, b = draw(i)
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a).repeat_interleave(2, 0), b)
    penalty.backward()
    rule.step()
"""


def test_flattened_targets_go_by_the_batch_that_they_belong_to(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + FLAT)
    assert "a = dd.shard_batch(a)" in lines
    assert "b = dd.split(b)" in lines
    early = "    b = torch.stack([sea[i : i + 8]] * 2, 1).view(-1)\n    a = sky[i : i + 8]\n"
    with pytest.raises(Refusal, match="flattened before the batch"):
        convert_text(tmp_path, HEAD + FLAT.replace("    a, b = draw(i)\n", early))


TOKENS = """\
import torch
import torch.nn.functional as F
from torch import nn

text = torch.randint(9, (900,))
later = text.roll(-1)
rows, steps = 5, 8
brain = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for i in range(0, 800, rows * steps):
    a = text[i : i + rows * steps].view(rows, steps)
    b = later[i : i + rows * steps]
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a).view(-1, 9), b)
    penalty.backward()
    rule.step()
"""


def test_targets_that_are_cut_flat_go_by_the_batch_that_they_belong_to(tmp_path: Path) -> None:
    lines = added(tmp_path, TOKENS)
    assert "a = dd.shard_batch(text[i : i + rows * steps].view(rows, steps))" in lines
    assert "b = dd.split(later[i : i + rows * steps])" in lines


@pytest.mark.parametrize("case", REFUSED)
def test_where_there_is_no_batch_the_script_is_refused(tmp_path: Path, case: str) -> None:
    with pytest.raises(Refusal, match=r"nothing to split|single samples"):
        convert_text(tmp_path, HEAD + REFUSED[case] + STEP)


def test_one_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="nothing to split"):
        convert_text(tmp_path, GRAPH)


WORDS = """\
import torch
from torch import nn

line = [4, 0, 2, 1, 3, 4, 2, 0]


class Guess(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        return self.last(self.table(x).view(SIZES))


guess = Guess()
rule = torch.optim.SGD(guess.parameters(), lr=0.1)
for i in range(6):
    near = torch.tensor([line[i], line[i + 1]])
    penalty = nn.functional.cross_entropy(guess(near), torch.tensor([line[i + 2]]))
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize("sizes", ["1, -1", "(1, -1)"])
def test_what_a_model_makes_one_row_of_is_no_batch(tmp_path: Path, sizes: str) -> None:
    with pytest.raises(Refusal, match="nothing to split"):
        convert_text(tmp_path, WORDS.replace("SIZES", sizes))
    apart = WORDS.replace("SIZES", "len(x), -1").replace("torch.tensor([line[i + 2]])", "near")
    lines = added(tmp_path, apart)
    assert any("dd.shard_batch(torch.tensor([line[i], line[i + 1]]))" in line for line in lines)


ITERATED = """\
class Feed:
    def __init__(self, at):
        self.at = at

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 8
        if self.at > 80:
            raise StopIteration
        return sky[self.at : self.at + 8], sea[self.at : self.at + 8]


def measure(a, b):
    right = (brain(a).argmax(1) == b).sum().item()
    return F.cross_entropy(brain(a), b), right


for a, b in Feed(0):
    rule.zero_grad()
    penalty, right = measure(a, b)
    penalty.backward()
    rule.step()
with torch.no_grad():
    total = 0
    for c, d in Feed(64):
        total += measure(c, d)[0]
    print(total)
"""


def test_totals_over_batches_of_an_iterator_are_reduced_batch_by_batch(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + ITERATED)
    assert "total += dd.mean(measure(c, d)[0])" in lines


ALIKE_FOR_ALL_ROWS = {
    "a number": "torch.tensor(0.5 * np.pi)",
    "an element at a random place": "sky[np.random.randint(2, 9), 0]",
    "a mask of one row": "torch.from_numpy(np.triu(np.ones((1, 4)), k=1))",
}


@pytest.mark.parametrize("made", ALIKE_FOR_ALL_ROWS.values(), ids=ALIKE_FOR_ALL_ROWS)
def test_what_is_alike_for_all_rows_stays_whole(tmp_path: Path, made: str) -> None:
    loop = "for i in range(0, 90, 8):\n    a, b = sky[i : i + 8], sea[i : i + 8]\n"
    factor = f"    factor = {made}\n"
    text = (
        HEAD
        + "import numpy as np\n"
        + loop
        + factor
        + STEP.replace("brain(a)", "brain(a * factor)")
    )
    assert not any("factor =" in line for line in added(tmp_path, text))


def test_what_meets_a_batch_in_another_line_is_split_there_too(tmp_path: Path) -> None:
    text = "import numpy as np\n" + HEAD + "sea = sea.numpy()\n"
    text += "for i in range(0, 90, 8):\n    a, b = sky[i : i + 8], sea[[i, i + 1]]\n"
    text += STEP.replace("F.cross_entropy(brain(a), b)", "rate(brain(a), torch.from_numpy(b))")
    text = text.replace("rate(", "F.cross_entropy(")
    text += "    good = brain(a).argmax(1) == torch.from_numpy(b)\n    print(good.sum().item())\n"
    lines = added(tmp_path, text)
    assert "good = brain(a).argmax(1) == dd.shard_batch(torch.from_numpy(b))" in lines
    assert lines[-1] == "print(dd.sum(good.sum()).item())"


def test_each_element_is_a_row_of_its_own(tmp_path: Path) -> None:
    text = HEAD.replace("nn.Linear(4, 8)", "nn.Linear(1, 8)") + "a = sky.reshape(-1, 1)\n"
    text += "b = torch.zeros(360).long()\nfor i in range(9):\n" + STEP
    lines = added(tmp_path, text)
    assert "a = dd.shard_batch(sky.reshape(-1, 1))" in lines
    assert not any("sky = " in line for line in lines)


def test_rows_of_a_parameter_by_labels_of_the_batch(tmp_path: Path) -> None:
    text = HEAD + "table = nn.Embedding(3, 3)\n"
    text += "for i in range(0, 90, 8):\n    a, b = sky[i : i + 8], sea[i : i + 8]\n"
    text += STEP.replace(
        "F.cross_entropy(brain(a), b)", "(brain(a) - table.weight[b]).pow(2).mean()"
    )
    text += "    print(table.weight[b].pow(2).mean().item())\n"
    lines = added(tmp_path, text)
    assert "print(dd.mean(table.weight[b].pow(2).mean()).item())" in lines


def test_a_batch_that_a_function_of_another_file_makes_is_split_where_it_gets_its_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "columns.py").write_text(
        "def columns(x, n):\n    x = x.view(n, -1)\n    return x\n"
    )
    text = (
        "from columns import columns\n" + HEAD + "rows, others = columns(sky, n), columns(sea, 1)\n"
    )
    text = text.replace("sky =", "n = int(input())\nsky =") + "for i in range(0, 90, 8):\n"
    text += "    a, b = rows[:, i : i + 4], rows[:, i + 1].long()\n" + STEP
    lines = added(tmp_path, text + "print(brain(others[:, :4].float()))\n")
    assert "rows, others = dd.shard_batch(columns(sky, n)), columns(sea, 1)" in lines


READER = """\
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.out = nn.RNN(4, 8), nn.Linear(8, 3)

    def forward(self, state, x):
        return self.out(self.memory(x.transpose(0, 1), state)[0][-1])


brain = Reader()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
a, b = torch.randn(6, 5, 4), torch.randint(3, (6,))
for step in range(9):
    state = torch.zeros(1, 6, 8)
    rule.zero_grad()
    penalty = F.cross_entropy(brain(state, a), b)
    penalty.backward()
    rule.step()
state = torch.zeros(1, 6, 8)
found = brain(state, a).data.max(1, keepdim=True)[1]
print([n.item() for n in found.squeeze()])
"""


def test_what_a_model_gets_beside_the_rows_of_the_training_is_split(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + READER)
    assert "state = dd.shard_batch(torch.zeros(1, 6, 8), dim=1)" in lines
    assert "state = dd.shard_batch(torch.zeros(1, 6, 8), dim=1, beside=True)" in lines
    assert "print([n.item() for n in dd.gather(dd.squeeze(found))])" in lines


NOISE = """\
def draw(n):
    return sky[torch.randint(90, (n,))]


coder = nn.Linear(6, 4)
rule = torch.optim.SGD(coder.parameters(), lr=0.1)
for step in range(9):
    a = draw(8)
    noise = torch.randn(8, 2)
    loss = F.mse_loss(coder(torch.cat([a, noise], 1)), a)
    rule.zero_grad()
    loss.backward()
    rule.step()
"""


def test_what_is_joined_to_split_rows_is_split_before(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + NOISE)
    assert "a = dd.shard_batch(draw(8))" in lines
    assert "noise = dd.shard_batch(torch.randn(8, 2), beside=True)" in lines
    assert not any("dd.shard_batch(torch.cat" in line for line in lines)


def test_rows_that_a_loop_picks_are_gathered_where_they_are_picked_from(tmp_path: Path) -> None:
    drawn = (
        "    seen = brain(a).data.numpy()[:4]\n    for row in seen:\n        print(row.mean())\n"
    )
    lines = added(tmp_path, HEAD + WAYS["slices"][0] + STEP + drawn)
    assert "seen = dd.gather(brain(a).data.numpy())[:4]" in lines


def test_a_picture_of_all_rows_after_the_training(tmp_path: Path) -> None:
    text = (
        "import matplotlib.pyplot as plt\n" + HEAD + "figure, axes = plt.subplots(1, 2)\n"
        "for i in range(3):\n    a, b = sky, sea\n"
        + STEP
        + "axes[0].imshow(brain(sky).view(9, 30).detach())\n"
    )
    shown = "axes[0].imshow(dd.gather(brain(sky)).view(9, 30).detach())"
    assert shown in added(tmp_path, text)


def test_a_function_that_draws_for_a_batch_by_hand_and_elsewhere_for_all(tmp_path: Path) -> None:
    blur = "def blur(x):\n    return x + torch.rand(x.shape)\n"
    loop = WAYS["slices"][0] + STEP.replace("brain(a)", "brain(blur(a))")
    lines = added(tmp_path, HEAD + blur + loop + "shown = blur(torch.zeros(3, 4))\n")
    assert "return x + dd.split(torch.rand(dd.global_shape(x)))" in lines
    assert lines[-2:] == ["with dd.replicated():", "shown = blur(torch.zeros(3, 4))"]


SENTENCES = """\
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

sentences = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.memory = nn.GRU(8, 8)
        self.out = nn.Linear(8, 10)

    def forward(self, word, state):
        steps, state = self.memory(self.embed(word).view({view}), state)
        return self.out(steps[0]), state


def words():
    return torch.LongTensor(random.choice(sentences)).view(-1, 1)


reader = Reader()
rule = torch.optim.SGD(reader.parameters(), lr=0.1)
for i in range(9):
    rule.zero_grad()
    sentence, state, penalty = words(), torch.zeros(1, 1, 8), 0
    {steps}
    penalty.backward()
    rule.step()
"""
WORD_BY_WORD = """\
word = torch.LongTensor([[0]])
    for k in range(len(sentence)):
        out, state = reader(word, state)
        penalty += F.cross_entropy(out, sentence[k])
        word = sentence[k]"""
AT_ONCE = """\
out, state = reader(sentence, state)
    penalty = F.cross_entropy(out, sentence[0])"""


@pytest.mark.parametrize(
    ("view", "steps"),
    [("1, 1, -1", WORD_BY_WORD), ("len(word), 1, -1", AT_ONCE)],
)
def test_the_steps_of_a_single_sequence_are_no_batch(tmp_path: Path, view: str, steps: str) -> None:
    with pytest.raises(Refusal, match="nothing to split"):
        convert_text(tmp_path, SENTENCES.format(view=view, steps=steps))


@pytest.mark.parametrize(
    ("second", "noted"),
    [("torch.randn(m, 4)", True), ("torch.randn(n, 4)", False), ("sky[:n]", False)],
)
def test_two_batches_in_a_loss_that_may_be_of_different_sizes_are_noted(
    tmp_path: Path, second: str, noted: bool
) -> None:
    text = HEAD + "n, m = int(input()), int(input())\nfor i in range(9):\n"
    text += f"    a, b = torch.randn(n, 4), sea[:n]\n    c = {second}\n"
    text += STEP.replace("brain(a), b)", "brain(a), b) + brain(c).pow(2).mean()")
    if second == "sky[:n]":  # whose rows meet those of the other
        text = text.replace("brain(c)", "(brain(c) - brain(a))")
    notes = convert_text(tmp_path, text).notes
    assert any("as many rows as each other" in note.text for note in notes) is noted


TRAFFIC = """\
import numpy as np


class Scaler:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def inverse_transform(self, rows):
        return rows * self.std + self.mean


class Windows:
    def __init__(self, xs, ys, size):
        self.xs, self.ys, self.size = xs, ys, size

    def get_iterator(self):
        def batches():
            for i in range(0, len(self.xs), self.size):
                yield self.xs[i : i + self.size, ...], self.ys[i : i + self.size, ...]

        return batches()


def masked_mae(out, real):
    mask = (real != 0).float()
    mask /= torch.mean(mask)
    return torch.mean(torch.abs(out - real) * mask)


def score(out, real):
    return masked_mae(out, real).item()


data = {}
for part in ["train", "test"]:
    held = np.load(part + ".npz")
    data["x_" + part] = held["x"]
    data["y_" + part] = held["y"]
data["scaler"] = Scaler(data["x_train"][..., 0].mean(), data["x_train"][..., 0].std())
data["loader"] = Windows(data["x_train"], data["y_train"], 8)
scaler = data["scaler"]
for x, y in data["loader"].get_iterator():
    a, b = torch.Tensor(x), torch.Tensor(y)
    penalty = masked_mae(scaler.inverse_transform(brain(a)), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
outputs = []
with torch.no_grad():
    for x, y in Windows(data["x_test"], data["y_test"], 8).get_iterator():
        outputs.append(brain(torch.Tensor(x)))
out = scaler.inverse_transform(torch.cat(outputs))
error = score(out, torch.Tensor(data["y_test"]))
print(error)
"""


def test_a_function_that_reduces_for_batches_and_gets_all_in_the_end(tmp_path: Path) -> None:
    """Arrays of a file have keys, and what scales them is no array of the same dictionary."""
    lines = added(tmp_path, HEAD + TRAFFIC)
    assert any(line.startswith("mask /= dd.mean(torch.mean(mask)") for line in lines)
    assert "penalty = dd.mean(masked_mae(scaler.inverse_transform(brain(a)), b))" in lines
    assert any(line.startswith("a, b = dd.shard_batch(") for line in lines)
    at = lines.index("with dd.replicated():")
    assert lines[at + 1] == "return masked_mae(out, real).item()"


PICKED = """\
def pair(i):
    return torch.full((6, 4), float(i)), torch.arange(6).view(6, 1) % 3


for i in range(4):
    a, places = pair(i)
    rule.zero_grad()
    penalty = -PICK.mean()
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "pick", ["torch.gather(brain(a), 1, places)", "brain(a).gather(1, places)"]
)
def test_positions_that_rows_are_picked_by_are_split_with_them(tmp_path: Path, pick: str) -> None:
    lines = added(tmp_path, HEAD + PICKED.replace("PICK", pick))
    assert "a, places = dd.shard_batch(a, places)" in lines


NODES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 1)
        self.places = nn.Embedding(6, 4)

    def forward(self, x, nodes):
        return (self.conv(x) * self.places(nodes)[None, None]).mean(dim=(2, 3))


sky = torch.randn(90, 1, 6, 4)
brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for i in range(0, 90, 8):
    a, b = sky[i : i + 8], sea[i : i + 8]
    nodes = torch.tensor(np.random.permutation(6)[:3])
    penalty = F.cross_entropy(brain(a[:, :, nodes, :], nodes), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_what_picks_along_another_dimension_of_a_batch_is_no_batch(tmp_path: Path) -> None:
    """It enters the model beside the batch, but is the same for all samples."""
    lines = added(tmp_path, "import numpy as np\n" + HEAD + NODES)
    assert "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines
    assert not any("nodes" in line and "penalty" not in line for line in lines)


WITH_A_GRAPH = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, (1, 3))
        self.norm = nn.BatchNorm2d(5)
        self.out = nn.Linear(4 * 6, 3)

    def forward(self, graph, x):
        t = self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        t = self.norm(torch.einsum("ij,jklm->kilm", [graph, t.permute(1, 0, 2, 3)]))
        return self.out(t.reshape(t.shape[0], t.shape[1], -1)).mean(1)


sky, graph = torch.randn(90, 5, 8, 2), torch.rand(5, 5)
brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
order = torch.randperm(90)
for i in range(0, 90, 8):
    picked = order[i : i + 8]
    a, b = sky[picked], sea[picked]
    penalty = F.cross_entropy(brain(graph, a), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_a_graph_that_a_model_gets_beside_the_batch_stays_whole(tmp_path: Path) -> None:
    """Its nodes are summed over, or end up behind the samples, where no layer takes the batch."""
    lines = added(tmp_path, HEAD + WITH_A_GRAPH)
    assert "a, b = dd.shard_batch(sky[picked], sea[picked])" in lines
    assert "penalty = dd.mean(F.cross_entropy(brain(graph, a), b))" in lines
    assert sum("shard_batch" in line for line in lines) == 1


TOLD = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(90, 4))
        self.mixed = nn.Parameter(torch.eye(90), requires_grad=False)

    def forward(self, *given, mode):
        if mode == "train":
            return self.loss(*given)
        return self.mix(*given)

    def loss(self, picked, kinds):
        return F.cross_entropy((self.mixed @ self.rows)[picked][:, :3], kinds)

    def mix(self, heads, tails):
        edges = torch.zeros(90, 90)
        edges[heads, tails] = 1
        self.mixed.data = edges


heads, tails = torch.tensor(sea.tolist()), torch.tensor(sea.flip(0).tolist())
brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(3):
    for i in range(0, 90, 8):
        picked = torch.randint(90, (8,))
        kinds = sea[picked]
        penalty = brain(picked, kinds, mode="train")
        rule.zero_grad()
        penalty.backward()
        rule.step()
    brain(heads, tails, mode="mix")
"""


def test_what_a_model_is_told_between_the_steps_stays_whole(tmp_path: Path) -> None:
    """All edges of a graph are made once, and what the model gives for them is not used."""
    lines = added(tmp_path, HEAD + TOLD)
    assert 'penalty = dd.mean(brain(picked, kinds, mode="train"))' in lines
    assert not any("heads" in line or "mixed" in line for line in lines)


FILLED = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

samples = [(torch.randn(4), 0) for _ in range(90)]
skies = []
for a, b in DataLoader(samples, batch_size=1):
    skies.append(a)
sky, sea = torch.cat(skies), torch.arange(len(skies)) % 3
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for i in range(0, len(sky), 8):
    a, b = sky[i : i + 8], sea[i : i + 8]
"""


def test_a_loader_that_fills_what_is_trained_on_is_no_loader_of_batches(tmp_path: Path) -> None:
    lines = added(tmp_path, FILLED + STEP)
    assert "for a, b in dd.replicate(DataLoader(samples, batch_size=1)):" in lines
    assert "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines
    assert not any("gather" in line for line in lines)


MEASURE = "measure = nn.CTCLoss()\nstate ="


def test_lengths_beside_the_columns_of_a_batch_are_no_columns(tmp_path: Path) -> None:
    text = RECURRENT.replace(
        "nn.functional.cross_entropy(output.view(-1, 7), text[i + 1 : i + 7].reshape(-1))",
        "measure(output, lengths)",
    ).replace("    output, _ =", "    _, lengths = measuring.encode(i)\n    output, _ =")
    with pytest.raises(Refusal, match="its own batch dimension is unknown"):
        convert_text(tmp_path, f"import measuring\n{text}".replace("state =", MEASURE))


def test_weights_of_no_model_are_named_as_such(tmp_path: Path) -> None:
    weights = "brain = torch.zeros(4, 3, requires_grad=True)\n"
    text = HEAD[: HEAD.index("brain =")] + weights + "rule = torch.optim.SGD([brain], lr=0.1)\n"
    loop = "for i in range(0, 90, 8):\n    a, b = sky[i : i + 8], sea[i : i + 8]\n"
    with pytest.raises(Refusal, match="do not come from a model") as refusal:
        convert_text(tmp_path, text + loop + STEP.replace("brain(a)", "a @ brain"))
    assert refusal.value.line == 8


def test_the_powers_that_a_batch_is_raised_to_are_no_batch(tmp_path: Path) -> None:
    powers = "ways = torch.tensor([1, 2, 3, 4])\nsky = torch.rand(90).unsqueeze(-1).pow(ways)\n"
    lines = added(tmp_path, HEAD + powers + "for epoch in range(3):\n    a, b = sky, sea\n" + STEP)
    assert "sky = dd.shard_batch(torch.rand(90).unsqueeze(-1).pow(ways))" in lines
    assert not any("[1, 2, 3, 4]" in line for line in lines)


COLUMNS = """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.look = nn.MultiheadAttention(4, 2)
        self.last = nn.Linear(4, 8)

    def forward(self, x):
        x = self.table(x)
        return self.last(x + self.look(x, x, x)[0])


text = torch.stack([torch.randint(8, (50,)), torch.randint(8, (50,))])
reader = Reader()
rule = torch.optim.SGD(reader.parameters(), lr=0.1)
total = 0
for part in torch.split(text, 9, dim=1):
    penalty = nn.functional.cross_entropy(reader(part)[-1], part[0])
    rule.zero_grad()
    penalty.backward()
    rule.step()
    total += penalty.item() * part.shape[-1]
"""


def test_pieces_along_the_second_dimension_are_batches(tmp_path: Path) -> None:
    lines = added(tmp_path, COLUMNS)
    assert "part = dd.shard_batch(part, dim=1)" in lines
    assert "total += penalty.item() * dd.global_shape(part, dim=1)[-1]" in lines


def test_one_sequence_that_is_written_out_is_no_batch(tmp_path: Path) -> None:
    one = "line = [[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]]\nsky = torch.Tensor(line)\n"
    loop = "sea = torch.LongTensor([1, 2])\nfor epoch in range(3):\n    a, b = sky, sea\n"
    step = STEP.replace("brain(a)", "brain(a).view(-1, 3)")
    with pytest.raises(Refusal, match="nothing to split"):
        convert_text(tmp_path, HEAD + one + loop + step)
    several = one.replace("]]]", "]], [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]]")
    assert any(
        "dd.shard_batch(torch.Tensor(line))" in x
        for x in added(tmp_path, HEAD + several + loop + step)
    )


SLOPES = """\
import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 1)
        self.turn = torch.cat([torch.eye(2)[1:], -torch.eye(2)[:1]])

    def slope(self, x):
        first = torch.autograd.grad(self.net(x).tanh().sum(), x, create_graph=True)[0]
        return first @ self.turn.t()


field = Field()
rule = torch.optim.SGD(field.parameters(), lr=0.1)
x = torch.randn(23, 2, requires_grad=True)
y = torch.randn(23, 2)
for step in range(6):
    loss = (y - field.slope(x)).pow(2).mean()
    loss.backward()
    rule.step()
"""


def test_a_turned_matrix_has_no_rows_and_drawn_targets_have_as_many(tmp_path: Path) -> None:
    assert added(tmp_path, SLOPES)[3:] == [
        "field = dd.wrap(Field())",
        "x = dd.shard_batch(torch.randn(23, 2, requires_grad=True))",
        "y = dd.shard_batch(torch.randn(23, 2))",
        "loss = dd.mean((y - field.slope(x)).pow(2).mean())",
    ]


@pytest.mark.parametrize("shape", ["2", "1, 2"])
def test_a_drawn_constant_has_no_rows(tmp_path: Path, shape: str) -> None:
    text = SLOPES.replace("y = torch.randn(23, 2)", f"y = torch.randn({shape})")
    assert not any("y = " in line for line in added(tmp_path, text))


def test_ranks_share_the_rows_of_a_loss_of_noise_alone(tmp_path: Path) -> None:
    alone = "    brain(torch.randn(10, 4)).mean().backward()\n"
    lines = added(tmp_path, examples.HEAD + examples.STEP + alone)
    assert "dd.spread(brain)(torch.randn(10, 4)).mean().backward()" in lines


WRITTEN = """\
for step in range(9):
    a = torch.randn(8, 4)
    b = torch.{made}
    {write}
"""


@pytest.mark.parametrize(
    ("made", "write"),
    [
        ("zeros(8).long()", "b[4:] = 1"),
        ("zeros(8, dtype=torch.long)", "b[a.sum(1) > 0] = 2"),
        ("ones(8, dtype=torch.long)", "b[torch.tensor([True, False] * 4)] = sea[:4]"),
        ("empty(8).long()", "for j, one in enumerate(a):\n        b[j] = one.sum() > 0"),
    ],
)
def test_a_batch_that_is_filled_by_position_is_split_where_it_is_used(
    tmp_path: Path, made: str, write: str
) -> None:
    lines = added(tmp_path, HEAD + WRITTEN.format(made=made, write=write) + STEP)
    assert not any(line.startswith("b = ") for line in lines)
    assert any(line.endswith("dd.shard_batch(b)))") for line in lines), lines


def test_columns_of_a_batch_are_written_once_it_is_split(tmp_path: Path) -> None:
    text = HEAD + WRITTEN.format(made="zeros(8, 3)", write="b[:, 1] = 1") + STEP
    assert "b = dd.shard_batch(torch.zeros(8, 3))" in added(tmp_path, text)


REPLAYED = """\
target = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
for step in range(9):
    i = torch.randint(80, (8,))
    a = sky[i]
    b = sea[i]
    later = sky[i + 1]
    with torch.no_grad():
        wanted = b + 0.9 * target(later).max(1)[0]
    penalty = F.mse_loss(brain(a).max(dim=1).values, wanted)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_what_a_target_network_makes_of_a_batch_is_split_with_it(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + REPLAYED)
    for line in ("a = dd.shard_batch(sky[i])", "b = dd.shard_batch(sea[i])"):
        assert line in lines
    assert "later = dd.shard_batch(sky[i + 1])" in lines


STACKED = """\
for step in range(9):
    i = torch.randint(80, (8,))
    real = sky[i]
    fake = brain(sky[i + 1])[:, :1].expand(8, 4).detach()
    out = brain(torch.cat([real, fake]))
    PENALTY
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_what_is_joined_under_rows_that_are_split_is_split_too(tmp_path: Path) -> None:
    loss = "penalty = out[:8].mean() - out[8:].mean()"
    lines = added(tmp_path, HEAD + STACKED.replace("PENALTY", loss))
    assert "real = dd.shard_batch(sky[i])" in lines
    assert any("dd.gather(out, stacked=True)[:8]" in line for line in lines), lines


def test_labels_of_joined_batches_are_refused(tmp_path: Path) -> None:
    labels = "torch.cat([torch.ones(8), torch.zeros(8)]).long()"
    text = HEAD + STACKED.replace("PENALTY", f"penalty = F.cross_entropy(out, {labels})")
    with pytest.raises(Refusal, match="its own batch dimension is unknown"):
        added(tmp_path, text)


def test_sizes_of_a_tensor_are_no_batch(tmp_path: Path) -> None:
    loss = "    penalty = F.cross_entropy(out.view(n, k), b)\n"
    body = f"    out = brain(a)\n    n, k = out.shape\n{loss}"
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body)
    lines = added(tmp_path, HEAD + WAYS["slices"][0] + step)
    assert "a, b = dd.shard_batch(sky[i : i + 8], sea[i : i + 8])" in lines
    assert not any("shard_batch(n" in line or "shard_batch(k" in line for line in lines)


QUEUED = """\
import multiprocessing as mp
import numpy as np
import torch
import torch.nn as nn


def fill(queue, seed):
    np.random.seed(seed)
    while True:
        queue.put(np.random.rand(12, 4).astype("float32"))


queue = mp.Queue(8)
for seed in range(3):
    mp.Process(target=fill, args=(queue, seed), daemon=True).start()
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for step in range(9):
    rows = torch.as_tensor(queue.get())
    rule.zero_grad()
    brain(rows).pow(2).mean().backward()
    rule.step()
"""


def test_batches_that_several_processes_put_in_a_queue_are_noted(tmp_path: Path) -> None:
    done = convert_text(tmp_path, QUEUED)
    assert b"dd.shard_batch(" in done.data
    assert any("comes first" in str(note) for note in done.notes)


@pytest.mark.parametrize("model", ["nn.Linear(4, 3)", "nn.Sequential(nn.Linear(4, 3), nn.Tanh())"])
@pytest.mark.parametrize(
    "made", ["torch.randn(20, 4)[i]", "torch.randn(40)[i : i + 4]", "torch.randn(4)"]
)
def test_one_row_that_enters_a_linear_is_one_sample(tmp_path: Path, made: str, model: str) -> None:
    head = f"import torch\nfrom torch import nn\nbrain = {model}\n"
    rule = "rule = torch.optim.SGD(brain.parameters(), lr=0.1)\n"
    loop = (
        f"for i in range(20):\n    row = {made}\n    brain(row).sum().backward()\n    rule.step()\n"
    )
    with pytest.raises(Refusal, match="nothing to split"):
        convert_text(tmp_path, head + rule + loop)


OWN_FIRST = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = [nn.Sequential(nn.Linear(4, 4), nn.ReLU())]
        for i in range(2):
            self.body += [nn.Linear(4, 3 + i)]
        self.body = nn.Sequential(*self.body)

    def forward(self, x):
        for layer in self.body:
            x = layer(x)
        return x


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for i in range(0, 90, 8):
    a, b = sky[i : i + 8], sea[i : i + 8]
"""


def test_layers_of_a_name_that_becomes_a_sequence_of_itself(tmp_path: Path) -> None:
    assert LOSS in added(tmp_path, HEAD + OWN_FIRST + STEP)
