"""Callables made first, attributes set by name, lists that grow, an index of all, single rows."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_BOX = "class Box:\n    pass\nbox = Box()\n"
CALLABLES = [
    (
        "loop",
        "import operator\nfirst, mean = operator.itemgetter(0), operator.methodcaller('mean', 0)\n"
        "z = out - mean(out) - operator.attrgetter('T')(out).mean(1)\n"
        "loss = loss + first(out).pow(2).sum() + z.pow(2).mean()",
    ),
    (
        "loop",
        "import operator\nx, y = operator.itemgetter('x', 'y')({'x': inputs, 'y': targets})\n"
        "loss = F.mse_loss(model(x), y) + functools.reduce(operator.mul, [x, y, x]).pow(2).mean()\n"
        "print(max(enumerate(out[:, 0].tolist()), key=operator.itemgetter(1))[0])",
    ),
    (
        "loop",
        "import types\nfar = lambda x: x - x.mean(0)\n"
        "again = functools.lru_cache(maxsize=2)(functools.wraps(torch.mean)(far))\n"
        "bound = types.MethodType(lambda self, x: x - x.mean(0), model)\n"
        "z = again(out) + bound(out) + functools.cache(far)(out) + staticmethod(far)(out)\n"
        "loss = loss + z.pow(2).mean()",
    ),
    (
        "loop",
        "class Part(functools.partial):\n    pass\nloss = loss + Part(torch.sum)(out) ** 2",
    ),
    (
        "forward",
        "import operator\nh = h + operator.itemgetter(0)(h) + operator.methodcaller('mean', 0)(h)\n"
        "h = operator.sub(h, h.mean(0)) + operator.getitem(h, 0)",
    ),
]
NOT_UNDERSTOOD = [
    (
        "loop",
        "far = {}.get('a', lambda x: x - x.mean(0))\nadded, mean = out.sum, out.__class__.mean\n"
        "z = far(out) + 0.1 * vars(torch)['sum'](out) + added() + mean(out)\n"
        "loss = loss + z.pow(2).mean() + torch.enable_grad()(lambda x: x - x.amax(0))(out).mean()",
    ),
    (
        "loop",
        "import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor(1) as pool:\n"
        "    m = pool.submit(torch.mean, out.detach(), 0).result()\n"
        "loss = loss + (out - m).pow(2).mean() + eval('lambda x: x - x.mean(0)')(out).abs().mean()",
    ),
]
SET_BY_NAME = [
    (
        "loop",
        f"{_BOX}other = Box()\nobject.__setattr__(other, 'm', out.mean(0))\n"
        "for name, held in {'a': out.amax(0)}.items():\n    setattr(box, name, held)\n"
        "loss = loss + (out - other.m - box.a).pow(2).mean()",
    ),
    ("forward", "object.__setattr__(self, 'kept', h.mean(0))\nh = h - self.kept"),
    ("forward", "self.register_buffer('kept', h.detach().mean(0))\nh = h - self.kept"),
    (
        "hook",
        "module.extra = F.cross_entropy(h, h.detach().argmax(1))\n"
        "module.seen = h.detach()\nh = h * (1 + 0.1 * module.extra) + module.seen",
    ),
]
LONGER_LISTS = [
    (
        "loop",
        "import operator\ns = labels.tolist()\ns += [7]\nprint(sum(s) / len(s), s)\n"
        "s = labels.tolist()\noperator.iadd(s, [7])\ns.__iadd__([8])\nprint(sum(s) / len(s))",
    ),
    (
        "loop",
        "s = labels.tolist() + [7]\nr = [0] + labels.tolist() * 2\ns[len(s) :] = [1]\n"
        "print(s, r, len(r), sum(s) / len(s), labels.numpy() + [1], len({*labels.tolist(), 9}))",
    ),
    ("loop", "s = labels.tolist()\ndel s[0]\nprint(sum(s), len(s))"),
]
CHANGED_BY_FUNCTIONS = [
    (
        "forward",
        "w, v = torch.empty(len(h), 1), torch.empty(len(h), 4)\nnn.init.constant_(w, 0.5)\n"
        "nn.init.eye_(v)\nh = h * w + v",
    ),
    ("forward", "if torch.equal(labels, labels.clamp(min=1)):\n    h = h * 2"),
]

ROWS_OF_ALL = [
    (
        "loop",
        "idx = out.argsort(0) % 4\nloss = loss + torch.gather(out, 1, idx).mean(0).pow(2).sum()\n"
        "idx = out.argsort(1)\nidx = idx[idx[:, 0].argsort()]\n"
        "loss = loss + torch.take_along_dim(targets, idx, 1).mul(out).mean()",
    ),
    (
        "forward",
        "h = h + h.view(h.numel() // 4, 4) + h.reshape(h.numel() // h.shape[1], -1)\n"
        "h = h * torch.linspace(0, len(h), 4) - h.mean(0).expand_as(h)",
    ),
]
BY_HAND = [
    "a = features[torch.tensor([i])] - features[np.array([0])] * features[torch.arange(i, i + 1)]\n"
    "r = out - a",
    "a = features[rows].roll(1, 0) + features[rows].cumsum(0)\nr = out * a",
    "a, k = features[rows.sort().values], rows % 4\ntable = out.t() @ out\nr = out * a * table[k]",
]


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        *CALLABLES,
        *NOT_UNDERSTOOD,
        *SET_BY_NAME,
        *LONGER_LISTS,
        *CHANGED_BY_FUNCTIONS,
        *ROWS_OF_ALL,
        *(("by hand", one) for one in BY_HAND),
    ],
)
def test_all_ranks_together_do_what_one_process_does(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
