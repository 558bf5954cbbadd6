"""Tensors that are kept from batch to batch and written in place: banks, queues, centres."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added, convert_text

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("kept", torch.zeros(4, 60))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        WRITE
        return self.layer(x - self.kept[:, 0])


"""


def with_forward(write: str) -> str:
    model = NET.replace("WRITE", write.replace("\n", "\n        "))
    return HEAD.replace("brain = nn.Linear(4, 3)\n", model + "brain = Net()\n") + STEP


OF_ALL_RANKS = {
    "a queue": (
        "self.kept[:, : len(x)] = x.T",
        "self.kept[:, : dd.global_batch_size(x)] = dd.gather(x.T, dim=1)",
    ),
    "by index": (
        "self.kept.index_copy_(1, torch.arange(len(x)), x.T)",
        "self.kept.index_copy_(1, torch.arange(dd.global_batch_size(x)), dd.gather(x.T, dim=1))",
    ),
    "rows at labels": (
        "self.kept[x.argmax(1)] += 1",
        "self.kept[dd.gather(x.argmax(1))] += 1",
    ),
    "through a view": (
        "self.kept.data.copy_(x.max(0).values)",
        "self.kept.data.copy_(dd.gather(x).max(0).values)",
    ),
    "in a chain": (
        "self.kept.mul_(0.9).add_(x.max(0).values)",
        "self.kept.mul_(0.9).add_(dd.gather(x).max(0).values)",
    ),
    "a new value": (
        "self.kept = 0.9 * self.kept + x.max(0).values",
        "self.kept = 0.9 * self.kept + dd.gather(x).max(0).values",
    ),
    "in a list before itself": (
        "self.kept = torch.cat([x.T, self.kept], 1)[:, :60]",
        "self.kept = torch.cat([dd.gather(x.T, dim=1), self.kept], 1)[:, :60]",
    ),
    "a layer's parameter": (
        "self.layer.weight.data.copy_(x[:3])",
        "self.layer.weight.data.copy_(dd.gather(x)[:3])",
    ),
}


@pytest.mark.parametrize("name", OF_ALL_RANKS)
def test_a_forward_keeps_what_it_takes_of_the_rows_of_all_ranks(tmp_path: Path, name: str) -> None:
    written, expected = OF_ALL_RANKS[name]
    assert expected in added(tmp_path, with_forward(written))


FINE = {
    "counters": "self.steps += 1\nself.steps.add_(1)",
    "of the parameters": "self.kept[0, 0].copy_(self.layer.weight.norm())",
    "a mask of the size": "self.mask = torch.ones(x.shape[0], x.size(1))",
    "the last rows": "self.last = x",
    "made for the batch": "own = torch.zeros_like(x)\nown[:, 1] = x[:, 1]\nown.copy_(x)",
}


@pytest.mark.parametrize("name", FINE)
def test_what_does_not_keep_rows_stays(tmp_path: Path, name: str) -> None:
    plain = added(tmp_path, with_forward("pass"))
    assert added(tmp_path, with_forward(FINE[name])) == plain


def test_a_mean_is_taken_over_all_ranks_before_it_is_kept(tmp_path: Path) -> None:
    lines = added(tmp_path, with_forward("self.kept[0].mul_(0.9).add_(x.mean(0).mean())"))
    assert "self.kept[0].mul_(0.9).add_(dd.mean(x.mean(0).mean()))" in lines


BANK = """\
bank = torch.zeros(20, 3)
for a, b in feed:
    out = brain(a)
    penalty = F.cross_entropy(out, b) + (out - bank[b]).pow(2).mean()
    rule.zero_grad()
    WRITE
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    ("write", "resolved"),
    [
        ("bank[b] = out.detach()", "bank[dd.gather(b)] = dd.gather(out.detach())"),
        ("bank[b, :] = out.detach()", "bank[dd.gather(b), :] = dd.gather(out.detach())"),
        ("bank[b] += 1", "bank[dd.gather(b)] += 1"),
        (
            "bank.index_add_(0, b, out.detach())",
            "bank.index_add_(0, dd.gather(b), dd.gather(out.detach()))",
        ),
    ],
)
def test_rows_at_labels_are_those_of_all_ranks(tmp_path: Path, write: str, resolved: str) -> None:
    assert resolved in added(tmp_path, HEAD + BANK.replace("WRITE", write))


def test_a_table_of_counts_takes_the_samples_of_all_ranks_one_by_one(tmp_path: Path) -> None:
    counted = (
        "    guess = brain(a).argmax(1)\n"
        "    for i in range(len(b)):\n"
        "        table[b[i].numpy(), guess[i].numpy()] += 1\n"
    )
    lines = added(tmp_path, HEAD + "table = torch.zeros(3, 3)\n" + STEP + counted)
    assert "for i in range(dd.global_batch_size(b)):" in lines
    assert "all_guess = dd.gather(guess)" in lines
    assert "table[all_b[i].numpy(), all_guess[i].numpy()] += 1" in lines


def test_a_table_of_an_evaluation_needs_it_whole(tmp_path: Path) -> None:
    counts = (
        "table = torch.zeros(3, 3)\n"
        "with torch.no_grad():\n"
        "    for a, b in check:\n"
        "        table[:, : len(b)] = brain(a).T[:, :3]\n"
        "print(table)\n"
    )
    lines = added(tmp_path, HEAD + STEP + counts)
    assert any(line.startswith("check = dd.replicate(") for line in lines)
    assert not any("table" in line for line in lines)


def test_rows_drawn_into_a_tensor_of_the_whole_batch_are_refused(tmp_path: Path) -> None:
    text = (
        HEAD.replace("features, labels =", "size = 6\nfeatures, labels =", 1).replace(
            "batch_size=6", "batch_size=size"
        )
        + "noise = torch.randn(size, 4)\n"
        + STEP.replace("brain(a)", "brain(a + noise)").replace(
            "    rule.zero_grad()\n", "    noise.data.copy_(torch.randn(size, 4))\n"
        )
    )
    with pytest.raises(DdpifyError, match="kept from batch to batch") as refusal:
        convert_text(tmp_path, text)
    assert "noise.data.copy_" in text.splitlines()[(refusal.value.line or 1) - 1]


@pytest.mark.parametrize(
    "fill",
    [
        "held.resize_as_(a).copy_(a)",
        "held.set_(a)",
        "held.resize_(a.size())\n    held.copy_(a)",
        "held.resize_(len(a), 4).copy_(a)",
    ],
)
def test_a_tensor_that_is_resized_to_the_rows_holds_them(tmp_path: Path, fill: str) -> None:
    loop = STEP.replace("    rule.zero_grad()\n", f"    {fill}\n    rule.zero_grad()\n")
    lines = added(
        tmp_path, HEAD + "held = torch.empty(0)\n" + loop.replace("brain(a)", "brain(held)")
    )
    assert "penalty = dd.mean(F.cross_entropy(brain(held), b))" in lines
    assert not any("gather" in line or "sum" in line for line in lines)


def test_a_model_object_may_hold_the_rows_of_its_batch(tmp_path: Path) -> None:
    text = HEAD + (
        "class Holder:\n"
        "    def __init__(self):\n"
        "        self.held = torch.empty(0)\n\n"
        "    def take(self, rows):\n"
        "        self.held.resize_(rows.size()).copy_(rows)\n\n\n"
        "holder = Holder()\n"
    )
    loop = STEP.replace("    rule.zero_grad()\n", "    holder.take(a)\n    rule.zero_grad()\n")
    lines = added(tmp_path, text + loop.replace("brain(a)", "brain(holder.held)"))
    assert "penalty = dd.mean(F.cross_entropy(brain(holder.held), b))" in lines


def test_sums_over_the_rows_are_those_of_all_ranks_before_they_are_kept(tmp_path: Path) -> None:
    write = (
        "near = F.one_hot(x.argmax(1), 4).float()\n"
        "self.kept.mul_(0.9).add_(near.t() @ x, alpha=0.1)\n"
        "self.layer.weight = nn.Parameter(0.9 * self.layer.weight + (near.t() @ x)[:3])"
    )
    lines = added(tmp_path, with_forward(write).replace("zeros(4, 60)", "zeros(4, 4)"))
    assert "self.kept.mul_(0.9).add_(dd.sum(near.t() @ x), alpha=0.1)" in lines
    assert any(line.startswith("self.layer.weight") and "dd.sum" in line for line in lines)


NORMALISED = """\
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))
        self.known = False

    def forward(self, rows):
        if not self.known:
            self.shift.data.copy_(rows.mean(0))
            self.known = True
        return rows - self.shift


brain = nn.Sequential(nn.Linear(4, 4), {layer}, nn.Linear(4, 3))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize("layer", ["Norm()", "nn.Sequential(nn.Tanh(), Norm())"])
def test_a_layer_in_a_sequential_that_sets_itself_by_its_first_batch(
    tmp_path: Path, layer: str
) -> None:
    lines = added(tmp_path, HEAD + NORMALISED.format(layer=layer) + STEP)
    assert "self.shift.data.copy_(dd.mean(rows.mean(0)))" in lines


QUEUE = """\
def learn():
    global queue
    for a, b in feed:
        rule.zero_grad()
        order = torch.randperm(len(a))
        keys = brain(a[order])
        keys = keys[torch.argsort(order)]
        penalty = (brain(a) @ queue.t()).pow(2).mean()
        penalty.backward()
        rule.step()
        queue = torch.cat((queue, keys.detach()))[keys.size(0):]


queue = torch.randn(12, 3)
learn()
"""


def test_a_queue_takes_the_rows_of_all_ranks(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + QUEUE)
    assert "keys = dd.split(dd.gather(keys)[torch.argsort(order)])" in lines
    queue = "queue = torch.cat((queue, dd.gather(keys.detach())))[dd.global_batch_size(keys):]"
    assert queue in lines


TABLE = """\
def record(i, rows, table):
    start = 6 * i
    end = start + len(rows)
    WRITE


table = torch.zeros(SHAPE)
for i, (a, b) in enumerate(feed):
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    record(i, b, table)
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    ("shape", "write", "resolved"),
    [
        ("20", "table[start:end] = rows", "table[start:end] = dd.gather(rows)"),
        ("2, 20", "table[1, start:end] = rows", "table[1, start:end] = dd.gather(rows)"),
        ("20, 2", "table[start:end, 0] = rows", "table[start:end, 0] = dd.gather(rows)"),
        (
            "20",
            "table[i * 6 : i * 6 + len(rows)] = 1",
            "table[i * 6 : i * 6 + dd.global_batch_size(rows)] = 1",
        ),
    ],
)
def test_a_slice_of_a_table_takes_the_rows_of_all_ranks(
    tmp_path: Path, shape: str, write: str, resolved: str
) -> None:
    """The table is the caller's, who had it before the batch."""
    assert resolved in added(tmp_path, HEAD + TABLE.replace("WRITE", write).replace("SHAPE", shape))


def test_a_table_that_is_made_for_a_batch_takes_the_ranks_own_rows(tmp_path: Path) -> None:
    text = TABLE.replace("WRITE", "table[: len(rows)] = rows").replace(
        "table = torch.zeros(SHAPE)\n", ""
    )
    text = text.replace("    record(", "    table = torch.zeros(len(b))\n    record(")
    assert not any("gather" in line for line in added(tmp_path, HEAD + text))


HOLDER = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=6)
given = parser.parse_args()
feed = DataLoader(TensorDataset(features, labels), batch_size=given.rows, shuffle=True)
held = torch.FloatTensor(given.rows, 4)
for a, b in feed:
    rule.zero_grad()
    WRITE
    penalty = F.cross_entropy(brain(held), b)
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "write",
    [
        "held.resize_as_(a).copy_(a)",
        "held.resize_(a.size()).copy_(a)",
        "held.resize_(a.size(0), 4).copy_(a)",
        "held.resize_as_(a)\n    held.copy_(a)",
    ],
)
def test_a_tensor_of_a_batchs_size_that_is_resized_to_the_rows_holds_them(
    tmp_path: Path, write: str
) -> None:
    lines = added(tmp_path, HEAD + HOLDER.replace("WRITE", write))
    assert not any("held" in line and "dd.mean" not in line for line in lines)
    assert "penalty = dd.mean(F.cross_entropy(brain(held), b))" in lines


def test_to_resize_its_data_leaves_a_tensor_its_size(tmp_path: Path) -> None:
    text = HOLDER.replace("WRITE", "held.data.resize_(a.size()).copy_(a)")
    with pytest.raises(DdpifyError, match="a write into a tensor that is kept"):
        added(tmp_path, HEAD + text)
