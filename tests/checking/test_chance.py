"""Random numbers that the ranks draw alike where each draws for its own samples."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.checking import Report

Checked = Callable[..., tuple[Report, list[str]]]

SAMPLER = "    sampler = DistributedSampler(train_set)\n"
AUGMENTING = """class Moved(TensorDataset):
    def __getitem__(self, at):
        x, y = super().__getitem__(at)
        return x + random.random(), y


class Net(nn.Module):"""
NET = "class Net(nn.Module):"
MOVED = ("TensorDataset(x, x.sum", "Moved(x, x.sum")


def seeded(seed: str) -> tuple[str, str]:
    return SAMPLER, f"{SAMPLER}    torch.manual_seed({seed})\n"


def found(report: Report, lines: list[str]) -> set[tuple[str, str]]:
    return {(one.code, lines[(one.line or 1) - 1].strip()[:22]) for one in report.findings}


def test_equal_dropout_after_a_seed_that_is_everywhere_the_same(checked: Checked) -> None:
    assert found(*checked("sampled", seeded("5"), steps=3)) == {
        ("DDP601", "return self.last(self.")
    }


def test_seeds_by_rank_are_fine(checked: Checked) -> None:
    edits = (seeded("5 + rank"), (NET, AUGMENTING), MOVED,
             ("    net = Net()\n", "    random.seed(rank)\n    net = Net()\n"))  # fmt: skip
    assert found(*checked("sampled", *edits)) == set()


def test_augmentation_from_a_seed_that_is_everywhere_the_same(checked: Checked) -> None:
    edits = ((NET, AUGMENTING), MOVED,
             ("    net = Net()\n", "    random.seed(3)\n    net = Net()\n"))  # fmt: skip
    assert found(*checked("sampled", *edits)) == {("DDP601", "loader = DataLoader(tr")}


def test_augmentation_that_each_epoch_begins_anew(checked: Checked) -> None:
    edits = ((NET, AUGMENTING), MOVED,
             ("        sampler.set_epoch(epoch)\n",
              "        sampler.set_epoch(epoch)\n        random.seed(rank)\n"))  # fmt: skip
    report, lines = checked("sampled", *edits)
    assert found(report, lines) == {("DDP601", "loader = DataLoader(tr")}
    assert "every epoch" in report.findings[0].message
