"""Reports that an object writes of what it has gathered from all ranks before."""

from __future__ import annotations

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
class Evaluator:
    def __init__(self):
        self.scores = []

    def update(self, scores):
        self.scores += scores

    def synchronize(self):
        every = [None for _ in range(world_size)]
        dist.all_gather_object(every, self.scores)
        self.scores = [one for scores in every for one in scores]

    def summarize(self):
        if dist.get_rank() == 0:
            table = {"scores": self.scores}
            with open("scores.json", "w") as file:
                file.write(json.dumps(table))


for epoch in range(epochs):
    sampler.set_epoch(epoch)
    evaluator = Evaluator()
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        evaluator.update([loss.item()])
    evaluator.synchronize()
    evaluator.summarize()
"""


def test_what_was_gathered_is_that_of_all_ranks(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + SCRIPT
    assert not lint_text(text, select=("DDP405",))
