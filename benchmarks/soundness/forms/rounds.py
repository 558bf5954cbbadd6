"""Loops of a round for each row, and what rows and their numbers pick from a table.

Each makes ``r`` from ``{x}`` of shape (rows, 4) and labels ``{k}``.
"""

from __future__ import annotations

from itertools import product

_LOOPS = [
    "for row in {x}:",
    "for row in {x}.unbind(0):",
    "for row in list({x}):",
    "for i in range(len({x})):",
    "for i in range({x}.shape[0] // 2):",
    "for i, row in enumerate({x}):",
    "for row, c in zip({x}, {k}):",
    "for c in {k}.tolist():",
    "for c in {k}.unique():",
    "for row in {x}[{k} > 0]:",
    "for part in torch.split({x}, 2):",
]
_CHANGES = [
    (["w = 1.0"], "w = w * 0.9", "{x} * w"),
    (["w = 1.0"], "w /= 1.1", "{x} * w"),
    (["w = 0"], "w += 1", "{x} / (1 + w)"),
    (["w = 0"], "w = w + 2", "torch.full((4,), 0.1 * w)"),
    (["w = torch.ones(4)"], "w = w.roll(1) * torch.arange(4.0)", "{x} + w"),
    (["w = torch.ones(4)"], "w.mul_(0.9)", "{x} * w"),
    (["w = torch.ones(4)"], "w[0] += 0.1", "{x} * w"),
    (["w = np.ones(4)"], "w *= 0.9", "{x} * torch.from_numpy(w)"),
    (["w = [1.0]"], "w[0] = w[0] * 0.9", "{x} * w[0]"),
    (["w = {'a': 1.0}"], "w['a'] *= 0.9", "{x} * w['a']"),
    (["w = collections.Counter()"], "w['rows'] += 1", "{x} / (1 + w['rows'])"),
    (["w = []"], "w.append(0.1)", "{x} + sum(w)"),
    (["w = []"], "w.append(0.1)", "{x} / (1 + len(w))"),
    (["w = ''"], "w = w + 'x'", "{x} / (1 + len(w))"),
    (["a, w = 1.0, 0.5"], "a, w = w, a", "{x} * w"),
    (["first, w = True, 1.0"], "w, first = (w if first else w * 0.9), False", "{x} * w"),
    (["numbers = iter(range(99))", "w = 0"], "w = w + next(numbers)", "{x} * (0.01 * w)"),
    (["class Box:", "    w = 1.0"], "Box.w = Box.w * 0.9", "{x} * Box.w"),
    (["def shrunk(v):", "    return 0.9 * v", "w = 1.0"], "w = shrunk(w)", "{x} * w"),
]  # fmt: skip

_TABLES = [
    ("t = torch.arange(4.0) / 4", ["t[{k}]", "t.take({k})", "t.gather(0, {k})"]),
    ("t = torch.arange(16.0).view(4, 4) / 16",
     ["t[{k}]", "t[:, {k}]", "t[..., {k}]", "t[{k}, 0]", "t[0, {k}]", "t[{k}, {k}]", "t[None, {k}]",
      "t.index_select(0, {k})", "t.index_select(1, {k})", "t.index_select(-1, {k})", "t.T[{k}]"]),
    ("t = torch.arange(64.0).view(4, 4, 4) / 64",
     ["t[{k}]", "t[:, {k}]", "t[:, :, {k}]", "t[..., {k}]", "t[0, :, {k}]", "t[:, {k}, {k}]",
      "t[{k}, :, {k}]", "t[{k}].sum(1)", "t[1:3, {k}].sum(0)"]),
    ("t = np.arange(16.0).reshape(4, 4) / 16",
     ["torch.from_numpy(t[:, {k}.numpy()])", "torch.from_numpy(t[{k}.numpy()])"]),
]  # fmt: skip
_ENDS = ["", ".mean(0)", ".mean(-1)", ".softmax(-1)", ".cumsum(0)", ".max()"]

_NUMBERED = [
    ["t = torch.arange(32.0) / 32", "r = sum(t[i] for i in range(len({x})))"],
    ["t = torch.arange(32.0) / 32", "r = torch.stack([t[i % 5] for i in range(len({x}))])"],
    ["t = torch.arange(32.0) / 32", "r = torch.stack([t[i] * v for i, v in enumerate({x})])"],
    ["t = [0.1 * i for i in range(32)]", "r = {x} * sum(t[i] for i in range(len({x})))"],
    ["t = {i: 0.1 * i for i in range(32)}", "r = {x} * sum(t[i] for i in range(len({x})))"],
    ["t = {i: 0.1 * i for i in range(32)}", "r = {x} + max(t.get(i, 0) for i in range(len({x})))"],
    ["r = {x} * len({i: 0.5 for i in range(len({x}))})"],
    ["r = {x} * len(''.join('x' for row in {x}))"],
    ["r = {x} * sum(float(np.sin(i)) for i in range(len({x})))"],
]

_ROUNDS = [
    [*start, loop, f"    {change}", f"r = {end}"]
    for loop, (start, change, end) in product(_LOOPS, _CHANGES)
]
_PICKED = [
    [made, f"r = {picked}{end}"]
    for made, picks in _TABLES
    for picked, end in product(picks, _ENDS)
]  # fmt: skip
ROUNDS = [*_ROUNDS, *_PICKED, *_NUMBERED * 10]
