"""Parts of lists that a model's forward fills: lists again, whose elements are not picked rows."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 3)])

    def forward(self, x, y):
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1]))
        USED


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
CALL = STEP.replace("F.cross_entropy(brain(a), b)", "brain(a, b)")
USES = {
    "an item": "parts = found[1:]\n        return F.cross_entropy(parts[1].view(len(x), -1), y)",
    "the last": "return F.cross_entropy(found[1:][-1].view(x.size(0), 3), y)",
    "each": "return sum(one.view(len(x), -1).mean(1).mean() for one in found[1:])",
}


@pytest.mark.parametrize("name", USES)
def test_an_element_of_a_part_of_a_list_is_a_batch_of_rows(tmp_path: Path, name: str) -> None:
    lines = added(tmp_path, HEAD + NET.replace("USED", USES[name]) + CALL)
    assert "penalty = dd.mean(brain(a, b))" in lines
    assert not any("gather" in line for line in lines)
