"""Calls that go deeper than they are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, convert_text

MODEL = """\
class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return {signs}self.inner(x + self.inner(x * 2))


brain = nn.Linear(4, 3)
for _ in range(9):
    brain = Block(brain)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
CHAIN = "def f40(x):\n    return x\n" + "".join(
    f"def f{i}(x):\n    return {{signs}}f{i + 1}(x)\n" for i in range(39, -1, -1)
)


def test_the_function_that_goes_into_itself_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"script.py:17: forward\(\) is called here while it runs"):
        convert_text(tmp_path, HEAD + MODEL.replace("{signs}", "-" * 110) + STEP)


def test_a_long_chain_of_calls_is_no_error_of_the_script(tmp_path: Path) -> None:
    text = HEAD + CHAIN.replace("{signs}", "-" * 20) + STEP + "print(f0(penalty))\n"
    with pytest.raises(Refusal, match="deeper than ddpify follows them"):
        convert_text(tmp_path, text)
