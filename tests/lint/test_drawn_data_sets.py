"""Random numbers in what makes a data set: those that it keeps, and others."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TEXT = """
class Samples(Dataset):
    def __init__(self, files):
        self.files, self.held, scale = files, [], 1.0
        {line}

    def fits(self):
        total = 0
        for _ in range(30):
            total += os.path.getsize(random.choice(self.files))
        return total < 1000

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.zeros(10), 0

data = Samples([*open("files.txt")])
order = DistributedSampler(data)
for epoch in range(epochs):
    order.set_epoch(epoch)
    for x, y in DataLoader(data, 8, sampler=order):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("print(random.choice(files))", False),
        ("print('in memory' if self.fits() else 'on disk')", False),
        ("cached = self.fits()", False),
        ("self.held = [random.random() for _ in files]", True),
        ("self.scale = 2 * random.random() + 1", True),
        ("self.held += [one for one in files if random.random() < 0.5]", True),
        ("self.held.append(random.choice(files))", True),
        ("if random.random() < 0.5: self.held = files", True),
        ("kept = random.sample(files, 3); self.files = sorted(kept)", True),
        ("random.shuffle(self.files)", True),
    ],
)
def test_what_a_data_set_keeps(line: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT.replace("{line}", line)
    assert ("DDP108" in [one.code for one in lint_text(text)]) is found
