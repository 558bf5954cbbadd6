"""Functions that cannot be read get the samples of all ranks, in a loop and in a forward."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

IN_FORWARD = [
    "import importlib\nfunctional = importlib.import_module('torch.nn.functional')\n"
    "f = getattr(functional, 'soft' + 'max')\nh = f(h, 0)",
    "h = h * eval('lambda v: v.std()')(h.detach())",
    "h = globals()['F'].softmax(h, 0) + __import__('torch').cumsum(h, 0)",
    "f = F.__dict__['softmax']\nh = f(h, 0)",
    "f = torch.jit.trace(lambda v: v - v.mean(0), torch.randn(3, h.shape[1]))\nh = f(h)",
    "h = torch.ops.aten.softmax.int(h, 0) + type(h).softmax(h, 0)",
    "class Lazy:\n    def __init__(self, name):\n        self.name = name\n"
    "    def __call__(self, *given):\n        return getattr(F, self.name)(*given)\n"
    "h = Lazy('soft' + 'max')(h, 0)",
    "h = h + eval('h - h.mean(0)')",
    "import sys\nmodule, _, name = 'torch.nn.functional.softmax'.rpartition('.')\n"
    "__import__(module)\nh = getattr(sys.modules[module], name)(h, 0)",
    "parts = 'torch.nn.functional.softmax'.split('.')\nfound = __import__(parts[0])\n"
    "for part in parts[1:]:\n    found = getattr(found, part)\nh = found(h, 0)",
    "*parts, name = 'torch.nn.functional.softmax'.split('.')\n"
    "h = getattr(__import__('.'.join(parts), fromlist=[name]), name)(h, 0)",
]
IN_LOOP = [
    "loss = loss + eval(compile('out.std()', 'text', 'eval'))\n"
    "exec('print(round(float(out.std()), 6))')",
    "loss = loss + globals()['F'].softmax(out, 0).pow(2).mean()",
    "import sys\nloss = loss + sys.modules['torch'].softmax(out, 0).pow(2).mean()",
    "loss = loss + __import__('torch').softmax(out, 0).pow(2).mean()",
    "f = torch.jit.trace(lambda v: v - v.mean(0), torch.randn(3, 4))\n"
    "loss = loss + f(out).pow(2).mean() + torch.ops.aten.softmax.int(out, 0).pow(2).mean()",
]


@pytest.mark.parametrize(
    ("place", "lines"),
    [*(("forward", one) for one in IN_FORWARD), *(("loop", one) for one in IN_LOOP)],
)
def test_unread_functions_get_all_samples(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
