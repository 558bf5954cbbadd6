"""What a model's forward does over all samples, and the layers that it goes through."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.scale = 1.0

    def forward(self, x):
        x = self.inner(x)
        LINE
        return x * self.scale


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("self.scale = torch.median(x[x > 0])", "torch.median(dd.gather_ragged(x[x > 0]))"),
        ("self.scale = 1 / (1 + x.std())", "1 / (1 + dd.gather(x).std())"),
        ("self.scale = x.quantile(0.5)", "dd.gather(x).quantile(0.5)"),
        ("self.scale = x.std(0).mean()", "dd.gather(x).std(0).mean()"),
    ],
)
def test_a_statistic_of_all_samples_is_that_of_all_ranks(
    tmp_path: Path, line: str, wanted: str
) -> None:
    lines = added(tmp_path, HEAD + MODEL.replace("LINE", line) + STEP)
    assert any(wanted in one for one in lines)


@pytest.mark.parametrize(
    "line",
    [
        "self.scale = x.std(1, keepdim=True)",
        "x = self.inner(F.pad(torch.flatten(x, start_dim=1), (0, 1)))",
        "x = self.inner(F.pad(x.flatten(start_dim=1, end_dim=-1), (0, 1)))",
        "x = torch.cat(x.chunk(chunks=3, dim=1), dim=1)",
    ],
)
def test_others_stay(tmp_path: Path, line: str) -> None:
    lines = added(tmp_path, HEAD + MODEL.replace("LINE", line) + STEP)
    assert not any("dd.gather" in one for one in lines)


LAYERS = """\
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x, mode):
        return x - x.mean(0) + self.shift, mode


class Stack(nn.Sequential):
    INIT
    def forward(self, x, mode="train"):
        for layer in CHILDREN:
            x, mode = layer(x, mode)
        return x


brain = Stack(*[Centred() for _ in range(3)])
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
INIT = "def __init__(self, *layers):\n        super().__init__(*layers)\n"


@pytest.mark.parametrize("init", ["pass", INIT])
@pytest.mark.parametrize("children", ["self._modules.values()", "self", "self.children()"])
def test_a_container_of_the_script_runs_its_layers(
    tmp_path: Path, children: str, init: str
) -> None:
    model = LAYERS.replace("CHILDREN", children).replace("INIT", init)
    lines = added(tmp_path, HEAD + model + STEP)
    assert "return x - dd.mean(x.mean(0)) + self.shift, mode" in lines


def test_layers_that_are_added_by_name_run_too(tmp_path: Path) -> None:
    init = "def __init__(self, layer):\n        super().__init__()\n"
    model = LAYERS.replace("CHILDREN", "self._modules.values()").replace(
        "INIT", init + '        self.add_module("first", layer)\n'
    )
    lines = added(
        tmp_path, HEAD + model.replace("*[Centred() for _ in range(3)]", "Centred()") + STEP
    )
    assert "return x - dd.mean(x.mean(0)) + self.shift, mode" in lines


SHORTENED = """\
import torchvision


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torchvision.models.resnet18(weights=None)
        self.inner = nn.Sequential(*(list(self.inner.children())[:-1]))

    def forward(self, x):
        return self.inner(x)


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_a_sequence_that_is_made_of_itself_is_followed(tmp_path: Path) -> None:
    assert "brain = dd.wrap(Net())" in added(tmp_path, HEAD + SHORTENED + STEP)


SEQUENCE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(2, 3, batch_first=FIRST)

    def forward(self, x):
        steps = torch.stack([x[:, :2], x[:, 2:]])
        LINE
        return out.sum(DIM)


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("line", "first", "dim"),
    [
        ("out, _ = self.inner(steps.transpose_(0, 1))", "True", "1"),
        ("steps.transpose_(0, 1)\n        out, _ = self.inner(steps)", "True", "1"),
        ("out, _ = self.inner(x[:, :2].clone().unsqueeze_(0))", "False", "0"),
    ],
)
def test_a_tensor_that_is_laid_out_anew_in_place(
    tmp_path: Path, line: str, first: str, dim: str
) -> None:
    model = SEQUENCE.replace("LINE", line).replace("FIRST", first).replace("DIM", dim)
    lines = added(tmp_path, HEAD + model + STEP)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


def test_the_name_of_a_tensors_type_is_alike_on_all_ranks(tmp_path: Path) -> None:
    body = "    if a.type() == b.type():\n        a = a * 2\n    penalty = "
    lines = added(tmp_path, HEAD + STEP.replace("    penalty = ", body))
    assert not any("dd.gather" in line for line in lines)


@pytest.mark.parametrize("last", ["brain.weight", "brain.layers[-1].weight"])
def test_gradients_of_a_layer_that_the_script_takes_itself(tmp_path: Path, last: str) -> None:
    deep = "brain.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))\n"
    taken = f"torch.autograd.grad(penalty, {last}, retain_graph=True)"
    body = f"    grads = {taken}[0]\n    penalty = penalty * grads.norm()\n    penalty.backward()\n"
    text = HEAD + deep + STEP.replace("    penalty.backward()\n", body)
    assert f"dd.averaged({taken})[0]" in "".join(added(tmp_path, text))
    with pytest.raises(Refusal, match="takes gradients of a model's parameters"):
        convert_text(tmp_path, text.replace("retain_graph", "create_graph"))


@pytest.mark.parametrize("empty", ["[]", "list()"])
def test_a_list_that_gets_an_item_for_each_row(tmp_path: Path, empty: str) -> None:
    body = f"    outs = {empty}\n    for row in a:\n        outs.append(row * 2)\n"
    body += "    a = torch.stack(outs, dim=0)\n    penalty = "
    lines = added(tmp_path, HEAD + STEP.replace("    penalty = ", body))
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


SPELLED = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchtext.data import BucketIterator

table = {0: [0, 1], 1: [1, 1]}
brain = nn.EmbeddingBag(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for batch in BucketIterator.splits(None, batch_size=6):
    text = batch.text
    spelled = torch.LongTensor([[table[w] for w in row] for row in text.tolist()])
    loss = F.cross_entropy(brain(text) + brain(spelled[:, :, 0]), batch.label)
    rule.zero_grad()
    loss.backward()
    rule.step()
"""


def test_words_that_rows_are_looked_up_in_are_rows(tmp_path: Path) -> None:
    lines = added(tmp_path, SPELLED)
    assert "text = dd.shard_batch(batch.text)" in lines
    assert not any("spelled =" in line for line in lines)


PARAMETERS = """\
def train(model):
    for one in brain.parameters():
        one.requires_grad = True
    for a, b in feed:
        rule.zero_grad()
        F.cross_entropy(brain(a), b).backward()
        rule.step()


for epoch in range(2):
    train(brain)
"""


def test_a_model_of_the_names_around_is_wrapped_where_it_is_made(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + PARAMETERS)
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert sum("dd.wrap" in line for line in lines) == 1


STATES = """\
class Net(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.words = EMBEDDING
        self.inner = nn.GRU(4, 3)
        self.start()

    def start(self, rows=None):
        if rows:
            size = rows
        else:
            size = self.rows
        self.state = torch.zeros(1, size, 3)

    def forward(self, x):
        x = self.words(x.permute(1, 0))
        out, self.state = self.inner(x.float(), self.state)
        return out[-1]


parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=6)
opt = parser.parse_args()
words = torch.randint(0, 9, (24, 5))
feed = DataLoader(TensorDataset(words, labels), batch_size=opt.rows)
check = DataLoader(TensorDataset(words, labels), batch_size=opt.rows)
brain = Net(opt.rows)
rule = torch.optim.SGD(brain.inner.parameters(), lr=0.1)
for a, b in feed:
    brain.start()
    rule.zero_grad()
    F.cross_entropy(brain(a), b).backward()
    rule.step()
for a, b in check:
    with torch.no_grad():
        brain.start(len(b))
        print(F.cross_entropy(brain(a), b).item())
"""


@pytest.mark.parametrize("made", ["nn.Embedding(9, 4)", "nn.Embedding"])
def test_states_of_as_many_rows_as_an_option_says_are_split_where_a_layer_gets_them(
    tmp_path: Path, made: str
) -> None:
    layer = f"{made}.from_pretrained(torch.randn(9, 4))"
    lines = added(tmp_path, "import argparse\n" + HEAD + STATES.replace("EMBEDDING", layer))
    assert not any("torch.zeros" in line for line in lines)
    state = "dd.split(self.state, dim=1, rows=x.size(1))"
    assert f"out, self.state = self.inner(x.float(), {state})" in lines
    assert "if dd.sum(rows):" in lines


BLOCKS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from unseen import pictures


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.after = nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(inplace=True)

    def forward(self, x):
        before = x
        out = self.first(x)
        out += before
        return self.after(out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = LAYER
        self.blocks = nn.Sequential(Block(), Block())
        self.last = nn.Linear(32, 3)

    def forward(self, x):
        return self.last(self.blocks(self.stem(x)).flatten(1))


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for inputs, wanted in DataLoader(pictures, 4):
    if len(inputs) == 2:
        scores = brain(inputs[0])
    else:
        scores = brain(inputs)
    F.cross_entropy(scores, wanted).backward()
    rule.step()
"""


def test_a_layer_that_computes_shows_nothing_of_the_samples(tmp_path: Path) -> None:
    new = BLOCKS.replace("LAYER", "nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True))")
    assert any("dd.shard(" in line for line in added(tmp_path, new))
    same = BLOCKS.replace("LAYER", "nn.Identity()").replace("out = self.first(x)", "out = x")
    with pytest.raises(Refusal, match="at one position"):
        convert_text(tmp_path, same)
