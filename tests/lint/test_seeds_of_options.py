"""A seed out of options is the same on all ranks, whatever else these hold of a rank."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(10, 2), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x))


def start(args):
    args.rank, args.gpu = dist.get_rank(), local_rank


def main(args):
    start(args)
    seed = args.seed + args.rank
    np.random.seed(seed)
    torch.manual_seed({})
    kept = DDP(Drops().to(device), device_ids=[args.gpu])
    steps = torch.optim.SGD(kept.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            steps.zero_grad()
            criterion(kept(x.to(device)), y.to(device)).backward()
            steps.step()


parser = argparse.ArgumentParser()
parser.add_argument("--seed", default=1, type=int)
main(parser.parse_args())
"""
SEEDS = {
    "the option": ("args.seed", True),
    "the option and a number": ("args.seed + 1", True),
    "the option and the rank": ("args.seed + args.rank", False),
    "a name with the rank in it": ("seed", False),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_of_the_options(name: str, lint_text: Lint) -> None:
    seed, found = SEEDS[name]
    text = SETUPS["distributed"] + SCRIPT.format(seed)
    assert bool(lint_text(text, select=("DDP601",))) is found
