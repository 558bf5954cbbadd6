"""Lines that mix the samples of a batch are converted and run at 2 and 3 ranks."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import of_unknown_dimensions, script

IN_LOOP = [
    "z = targets.mean(1, keepdim=True)\nz.squeeze_()\nloss = loss + (z * out[:, 0]).mean()",
    "d = torch.distributions.Categorical(logits=out)\nk = d.sample()\n"
    "loss = loss - (d.log_prob(k) * targets[:, 0]).mean() + d.entropy().amax()\n"
    "z = torch.distributions.Normal(torch.zeros(4), out.exp()).rsample()\n"
    "loss = loss + F.mse_loss(model(z), targets)",
    "points = torch.linspace(0, 1, 20).view(5, 4).requires_grad_()\nu = model(points).pow(2)\n"
    "(slope,) = torch.autograd.grad(u, points, torch.ones_like(u), create_graph=True)\n"
    "loss = loss + (slope - 1).pow(2).mean()",
    "k = 0 if epoch else 1\nloss = loss + (out[:, k].softmax(-1) * targets[:, 0]).sum()",
    "class Box:\n    pass\nbox = Box()\nbox.data = loss\nif epoch > 0:\n"
    "    box.data = (loss + 1).log()\nloss = box.data + out.pow(2).mean().sqrt()",
    "loss = sum([F.mse_loss(out, targets), F.l1_loss(out, targets).sqrt(), out.norm()])",
    "parts = [loss]\nparts += [(loss + 1).log()]\nloss = sum(parts) / len(parts)",
    "total = 0\nfor one in (loss, (loss + 1).log()):\n    total += one\n"
    "loss = total + torch.cat([loss[None], loss.exp()[None]]).sum()",
    "s = labels.tolist()\ns.sort()\nk = s[len(s) // 2] + sorted(labels.tolist())[len(s) // 2]\n"
    "z = out.clone()\nz.T[0] = out.mean()\nloss = loss + (z * k * targets).mean()\nprint(s)",
    "z = torch.empty(len(out), 8)\nz[:, :4], z[:, 4:] = out, out.mean(0)\n"
    "z[labels == 1] = z.detach().amax(0)\nloss = loss + z.pow(2).mean()",
    "for d in range(2):\n    loss = loss + out.std(d, unbiased=False).sum()\n"
    "dims = list(range(1, out.dim()))\nloss = loss + (out - targets).pow(2).mean(dims).mean()",
    "d = epoch % 2\nz = torch.stack([out, targets], d).mean(1) * out.unsqueeze(d).amax()\n"
    "loss = loss + z.std(0, unbiased=False).mean() + out.unfold(0, 1, 2).sum()",
    "r = torch.einsum('bi,bi->', out, targets)\nloss = F.mse_loss(out + 0.1 * r, targets)",
    "r = out.sum(0).sum(0)\nloss = F.mse_loss(out + 0.1 * r, targets)",
    "r = torch.maximum(out, out[0])\nq = torch.where(out > 0, out, out[-1])\n"
    "print(len(r), r.numel(), q.shape, torch.lerp(out, out[0], 0.5).numel())",
    "r = torch.Tensor([[loss, out.mean()]])\nprint(r.mean())",
    "r = torch.tensor([1.0, out.sum(), loss.item()])\nprint(r)",
    "r = torch.FloatTensor([len(out), out.sum()])\nprint(r)",
    "r = torch.tensor([(out > 0).sum(), out.sum()])\nprint(r.tolist())",
    "z = torch.zeros(len(out), 4)\nfor i in range(len(out)):\n    z[i] = out[i - 1] * 2\n"
    "loss = loss + (out * z).pow(2).mean()",
    "z = torch.zeros(len(out), 4)\nfor i in range(len(out)):\n    z[i] = out[i] - out[i - 1]\n"
    "loss = loss + (out * z).pow(2).mean()",
    "z = torch.zeros(inputs.size())\nfor i in range(len(z)):\n    z[i] = torch.randn(4)\n"
    "loss = loss + F.mse_loss(model(inputs + z), z)",
    "if epoch:\n    z = torch.randn(inputs.size())\nelse:\n    z = torch.zeros(inputs.size())\n"
    "    for i in range(len(z)):\n        z[i] = torch.randn(4)\n"
    "loss = loss + F.mse_loss(model(inputs + z), z)",
    "z = torch.zeros(2 * len(out), 4)\nfor i in range(len(z)):\n    z[i] = torch.randn(4)\n"
    "loss = loss + (torch.cat([out, out]) + z).pow(2).mean()",
    "s = list(out.shape)\nz = torch.cat((out, targets)).reshape([-1, 2] + s[1:]).mean(1)\n"
    "loss = loss + z.pow(2).mean() + out.reshape([s[0], -1]).pow(2).mean()",
    "for i in range(0, len(out), 3):\n    part = out[i : i + 3]\n"
    "    loss = loss + part.mean() * len(part) + out[i : i + 3].mean() * len(out[i : i + 3])\n"
    "print(len(out[:3]), [len(labels[i : i + 2]) for i in range(0, len(out), 2)])",
    "n = 0\nfor row in out[:3]:\n    n += 1\nfor row in targets:\n    n += len(row)\n"
    "print(n, sum(1 for row in out[1:]))",
    "r = out[labels.clamp(max=0)]\nloss = loss + (r * out).mean()",
    "r = out[(inputs[:, 0] > 0).byte()]\nloss = loss + r.sum()",
    "mask = (labels == 1) | ~(inputs[:, 1] < 0).to('cpu')\nloss = loss + out[mask].sum()",
    "mask = (inputs > 0) & (torch.rand(inputs.shape) < 2.0)\nmask |= inputs > 1\n"
    "inputs[mask] = 0.0\nloss = F.mse_loss(model(inputs), targets)",
    "print(out.size(dim=0), out.size(dim=1), out.split(split_size=2)[0].sum().item())\n"
    "r = torch.unsqueeze(input=out, dim=0).mean(dim=1)\n"
    "print(r.sum().item(), out.unsqueeze(dim=0).mean(1).sum().item())",
    "r = torch.stack([out, inputs], dim=0)\nprint([f'{v:.4f}' for v in r.double().flatten()])",
    "r = torch.cat((out, inputs))\nprint(r.flatten().tolist())",
    "r = out.repeat(2, 1)\nloss = loss + (r * torch.cat([inputs, inputs])).mean()",
    "r = out.tile(2, 1)\nprint(r.view(-1).tolist())",
    "r = torch.cat((out, torch.ones(1, 4)))\nloss = loss + r.pow(2).mean()",
    "r = torch.zeros(4, 4).index_put((labels,), out, accumulate=True)\nloss = loss + (r**2).sum()",
    "r = torch.zeros(4, 4).index_copy(0, labels, out)\nprint(r.sum())",
    "z = torch.lerp(out, out[0], 0.5)\nloss = loss + z.min(dim=1).values.abs().max()",
    "z = torch.where(out > out.mean(-2, keepdim=True), out, inputs)\n"
    "print(torch.mean(z, -2).tolist())",
    "loss = loss + F.cross_entropy(out.T, torch.zeros(4).long())",
    "lengths = (1,)\nloss = loss + F.ctc_loss(\n"
    "    out[:, None].log_softmax(2), torch.ones(1, 1).long(), (len(out),), lengths\n)",
    "measure = lambda a, b: (a - b).abs().max()\n"
    "rate = nn.TripletMarginWithDistanceLoss(distance_function=measure)\n"
    "loss = loss + rate(out, inputs, targets)",
    "table = torch.arange(32.0).view(8, 4)\n"
    "loss = loss + (out * table[torch.arange(len(out))]).sum()",
    "r = torch.vmap(lambda a: (a - out).pow(2).sum())(out)\nloss = loss + r.mean()",
    "Pair = collections.namedtuple('Pair', 'a b')\npair = Pair(out, inputs.mean())\n"
    "loss = loss + pair.b * pair.a.mean()\nprint(pair.b)",
    "parts = collections.deque([out], maxlen=2)\nloss = loss + F.mse_loss(parts.pop(), targets)",
    "r = functools.reduce(torch.add, [out, inputs])\nloss = loss + (r * out).mean()",
    "r = functools.reduce(lambda a, b: a * 0.5 + b, out)\nloss = loss + r.sum()",
    "r = out.cummax(0)[0]\nloss = ((out - r.detach()) ** 2).mean()",
    "r = torch.rot90(out, 2)\nloss = loss + (r * out).mean()",
    "r = torch.hypot(out[:, None], inputs[None])\nloss = loss + r.mean()",
    "z = torch.ones((len(out), *out.shape[1:]), dtype=out.dtype)\n"
    "loss = loss + F.mse_loss(out.sort(0)[0], z)",
    "parts = (*out.chunk(2, 1), targets)\nprint(parts[-1].mean(), *(1, *out.shape))",
    "far = eval('lambda a, b: ((a - b) ** 2).mean()')\nother = far(out, targets + 1)\n"
    "both = (far(out, targets) + far(out, inputs)) / 2\nloss = both + other",
]

# Code that is not read may take a list of samples beside rows: both are this rank's, or all ranks'.
_UNREAD = "far = eval('lambda a, b: sum(((c - d) ** 2).mean() for c, d in zip(a, b)) / len(a)')\n"
_UNREAD_CLASS = (
    "import sys, types\nmade = types.ModuleType('unread')\n"
    "add = 'lambda own, a, b: sum(((c - d) ** 2).mean() for c, d in zip(a, b)) / len(a)'\n"
    "made.Far = type('Far', (), {'__call__': eval(add)})\nsys.modules['unread'] = made\n"
    "from unread import Far\nfar = Far()\n"
)
LISTS_FOR_UNREAD_CODE = [
    f"{_UNREAD_CLASS}before, blended = 0, []\nfor one in targets:\n"
    "    before = 0.5 * before + one\n    blended.append(before)\nloss = loss + far(out, blended)",
    f"{_UNREAD}loss = loss + far(out, [one.to('cpu') for one in targets])",
    f"{_UNREAD}before, blended = 0, []\nfor one in targets:\n    before = 0.5 * before + one\n"
    "    blended.append(before)\nloss = loss + far(out, blended)",
]

# What code that is not read makes of rows may be several tensors: gathered, they still are.
OF_UNREAD_CODE = [
    "parts = eval('lambda x: (x, x * 2)')(h)\nh = h + parts[len(parts) - 1].view(len(inputs), 4)",
    "parts = eval('lambda x: (x, x * 2)')(h)\n"
    "h = h + sum(one.reshape(h.size(0), 4) for one in parts[: len(parts)])",
]

ROWS_IN_OTHER_LAYOUTS = [
    "z = torch.cat([out, targets])\nloss = loss + z.narrow(0, 0, 1).sum() + z.select(0, 1).sum()",
    "z = out[labels > 0]\nloss = loss + z.select(0, -1).sum() if len(z) else loss",
    "z = torch.cat([out, out]).unflatten(0, (-1, 2))\nloss = loss + z.mean(1).pow(2).mean()",
    "z = torch.cat([out, targets]).view(-1, 8)\nloss = loss + z.mean(1).pow(2).mean()",
    "a, b = out.split([len(out) // 2, len(out) - len(out) // 2])\nloss = loss + a.sum() ** 2",
    "z = torch.stack([out, targets]).reshape(-1, 8)\nloss = loss + (z.mean(1) ** 2).mean()",
    "z = torch.stack([out, targets], 1).view(-1, 4)[: len(out)]\nloss = loss + z.pow(2).sum()",
    "s, i = out.sort(dim=0)\nloss = F.mse_loss(s.gather(0, i.argsort(0)), targets)",
]
MATCHED = [
    "match len(out):\n    case 5 | 4: loss = loss * 2\n    case n: loss = loss * n",
    "match labels.tolist():\n    case [a, b, *_] if a > b: loss = loss * 2\n"
    "    case [a, *rest]: loss = loss * (a + len(rest))",
    "match (inputs, targets):\n    case (x, y): loss = F.l1_loss(model(x), y)",
]
SOME_OR_PAIRS = [
    "import itertools\nfor a, b in itertools.combinations(out, 2):\n"
    "    loss = loss + 0.02 * (a * b).sum()",
    "import itertools\nfor o, t in itertools.islice(zip(out, targets), 2):\n"
    "    loss = loss + (o * t).sum()",
    "last = collections.deque(out, maxlen=2)\nloss = loss + sum(o.pow(2).sum() for o in last)",
]
AS_LONG_AS_THE_BATCH = [
    "z = torch.zeros(8, 4)\nz[: len(out)] = out\nloss = loss + z.mean()",
    "z = torch.zeros(8, 4)\nz[-len(out) :].copy_(out)\nloss = loss + z.pow(2).sum()",
    "z = torch.full((len(out), 1), 1 / len(out))\nloss = loss + (out + z).pow(2).mean()",
    "w = torch.tensor([[1 / len(out)]] * len(out))\nloss = loss + (out * w).sum()",
    "w = torch.tensor([1 / len(out) for _ in out])\nloss = loss + w.sum() * (out.T @ w).sum()",
    "z = torch.ones(len(out), len(out)).triu(1)\nloss = loss + (z * (out @ out.T)).sum()",
]
SEVERAL_OF_ALL = [  # tensors with the rows of all ranks, in a tuple
    "g = torch.linalg.inv(h @ h.t() + torch.eye(len(h))) @ h\n"
    "a, b = self.cell(g)\nh = torch.cat([a, inputs], 1)[:, 2:6] + b",
    "import operator\nkeep = operator.methodcaller('mul', h)\nh = keep(inputs)",
    "import operator\nkeep = operator.methodcaller('mul', h)\n"
    "a, b = operator.methodcaller('chunk', 2, 1)(keep(inputs))\nh = torch.cat([b, a], 1) + inputs",
]
BESIDE_ALL = [
    "r = out[:, 0].argsort().argsort() + 1\nprint(r[labels > 1].sum().item())",
    "loss = loss + sum(a[: n + 1].sum() for a, n in zip(out, labels.tolist())) / len(out)",
    "rows = [a[: n + 1] for a, n in zip(out, labels.tolist())]\n"
    "padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)\n"
    "loss = loss + padded.pow(2).sum() / padded.numel()",
    "o = out.cumsum(0)\nloss = F.mse_loss(torch.stack([o[i] * i for i in range(len(o))]), targets)",
]
VIEWED_IN_FORWARD = [
    "z = h.clone()\ntorch.mean(h.detach(), 0, out=z.detach()[0])\nh = z",
    "z = h.clone()\nz[:, 2:] = h[:, 2:].mean(0)\nh = z\nfor d in range(2):\n    h = h.cumsum(d)",
    "m = torch.stack([h, h * 2])\nk = 0 if h.shape[1] > 3 else 1\nh = h + m[k, :].mean(0)\n"
    "h = h + h[:, k].softmax(-1).unsqueeze(1)",
    "across = h.t()\nfor i, row in enumerate(self.table[:2]):\n"
    "    h = h + torch.flip(across[i % 4, :], [0]).unsqueeze(1)",
    "g = h.view(len(h), 2, 2).transpose(dim0=1, dim1=2).reshape(shape=(len(h), 2, 2))\n"
    "h = h + torch.flatten(g, start_dim=1) + g.flatten(start_dim=1, end_dim=2)",
    "z = F.pad(nn.Upsample(scale_factor=2)(h.view(len(h), 1, 2, 2)), [1, 1, 0, 0])\n"
    "h = h + z.flatten(1)[:, :4]",
    "h = h.t().contiguous().view(h.size(0), h.size(1))",
    "h = torch.cat([h, inputs]).view(2, -1, 4)[1] + h",
    "h = torch.cat([h, inputs]).view(len(h), 8)[:, :4]",
    "h = h.repeat_interleave(2, 0)[: len(h)] + h",
]
COUNTED_IN_FORWARD = [
    "h = h.masked_fill(torch.arange(len(h))[:, None] > 1, 0)",
    "h = h + self.table[torch.arange(h.size(0)) % 8]",
    "h = torch.cat([h[:, :3], torch.arange(len(h))[:, None]], 1)",
    "h = h[torch.arange(len(h)) > 1].sum(0) + h",
    "h = h + torch.arange(len(h)).to(h.dtype).mean() + torch.hann_window(len(h))[:, None]",
    "z = torch.zeros(len(h), 4)\nz[:, 0] = torch.arange(len(h)).sin()\nh = h + z",
    "z = torch.cat([h, torch.zeros(8 - len(h), 4)])\nh = h + z.mean(0)",
    "h = h / torch.arange(1, len(h) + 1)[:, None]",
    "h = h * h.new_full((len(h), 1), 1 / len(h))",
    "h = h[list(range(len(h) - 1, -1, -1))] + h",
    "h = h[np.arange(len(h))[::-1].copy()] + h",
    "h = h[(torch.arange(len(h)) + 1) % len(h)] + h",
    "h = torch.stack([h[len(h) - 1 - i] for i in range(len(h))]) + h",
    "n = len(h)\nrise = torch.zeros(n, 4)\n"
    "for k in range(1, n):\n    rise[k] = k / n\nh = h + rise",
    "z = torch.cat([h, h * 2])\nh = F.glu(z, 0) + z[0]",
]

IN_FORWARD = [
    "h = h[labels.clamp(max=0)] + h",
    "h = h + 0.1 * h.split(1)[0]",
    "first, *_ = h.split(1)\nh = h + first",
    "h = torch.cat([part.tanh() for part in h.chunk(2)])",
    "h = h + h[len(h) // 2]",
    "h = h * h[: len(h) // 2 + 1].sum()",
    "h = h * torch.linspace(0, 1, len(h))[:, None]",
    "h = h + self.table[: len(h)]",
    "h = h * self.table[: len(h)].sum(0)",
    "h = h + self.table[torch.arange(h.shape[0])].tanh()",
    "order = torch.randperm(h.size(0))\nh = 0.3 * h + 0.7 * h[order]",
    "h = h[torch.randint(0, len(h), (len(h),))] + h",
    "h = h[torch.arange(len(h)), torch.arange(len(h)) * 0][:, None] + h",
    "r = sum((h[i] - h[j]).pow(2).sum() for i in range(len(h)) for j in range(len(h)))\nh = h * r",
    "r = sum((h[i] - h).pow(2).sum() for i in range(len(h)))\nh = h * r",
    "t = h[0]\nfor i in range(1, len(h)):\n    t = torch.maximum(t, h[i])\nh = h * t",
    "t = 0\nfor row in h:\n    t = t + row\nh = h * t",
    "h = torch.stack([a + b for a, b in zip(h, inputs)])",
    "h = torch.stack([row * i for i, row in enumerate(h)])",
    "h = torch.vmap(lambda r: r.softmax(0), 1, 1)(h)",
    "h = torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(h))(h) @ h",
    "h = torch.vmap(self.head)(h)",
    "h = h + self.bags(labels, torch.tensor([0]))",
    "h = h + self.sparse(labels)",
    "h = self.layers[1](self.layers[0](h))",
    "h = self.cell(h)[0]",
    "h = h * self.alike(h, inputs)",
    "h = h + torch.zeros(4, 4).index_copy(0, labels, h).mean()",
    "h = h * ((h.unsqueeze(1) - h.unsqueeze(0)).pow(2).sum(-1)).sum()",
    "h = h.index_select(0, h.argmax(1).argsort())",
    "h = h.index_select(0, torch.randperm(len(h)).sort().values) + h",
    "r = F.pad(h, (0, 0, 1, 1))\nh = h * r.pow(2).mean()",
    "r = F.instance_norm(h[:, None])\nh = h * ((h - r) ** 2).mean()",
]

OF_ONE_PLACEMENT = [
    "if epoch == 0:\n    noise = inputs * 0.5\nelse:\n    noise = inputs.cumsum(0)\n"
    "loss = F.mse_loss(model(inputs + noise), targets)",
    "def f(x, n=None):\n    if n is None:\n        return x * 0.5\n    return x.cumsum(0)\n"
    "noise = f(inputs) if epoch == 0 else f(inputs, 1)\nloss = loss + (out * noise).mean()",
    "for n in (inputs * 0.5, inputs.cumsum(0)):\n    loss = loss + F.mse_loss(n * out, targets)",
]
# Numbers of a rank's rows, or of what a mask leaves of them, that are more than sizes of its own.
OWN_NUMBERS = [
    "w = np.array([len(out) / c for c in range(1, 5)])\n"
    "loss = loss + (out * torch.from_numpy(w)).mean()",
    "w = torch.ones(4).div(len(out))\nloss = loss + (out * w).mean()",
    "w = torch.arange(9.0).topk(len(out)).values\nloss = loss + (w.sum() * out).mean()",
    "loss = loss + out[:, : len(out)].mean()",
    "print(len(out[labels > 0]) // 2, len(out) * 2 // 3)",
    "z = out[labels > 0]\nloss = loss + (z * torch.arange(len(z))[:, None]).sum()",
    "off = torch.arange(len(out)) * 4\nloss = loss * (1 + sum(o * 0.1 for o in off))",
    "z = F.one_hot(labels).double().mean(1)\nloss = loss + z.sum() * out.mean()",
]
# What masks left of several tensors, some of the rows, containers, functions that are not seen.
PUT_TOGETHER = [
    "z = torch.cat([out[labels == c] for c in range(4)])\nprint(z[:, 0].tolist())",
    "loss = loss + sum((a * b).sum() for a, b in zip(out[:-1], out[1:]))",
    "z = out.clone()\nz[:, labels[0]] = 0\n"
    "loss = loss + z.pow(2).mean() + out[:, labels.min() :].pow(2).mean()",
    "a, *rest = out.unbind(1)\nloss = loss + a.mean() + sum(r.pow(2).mean() for r in rest)",
    "z = out / (out.std() + 1)\nloss = loss + z.amin(-2).sum()",
    "lp = torch.distributions.Normal(out, 1.0).log_prob(targets).sum(-1)\n"
    "loss = loss + (lp - lp.mean()).pow(2).mean()",
    "held = {}\nheld.__setitem__('x', out)\nprint(held['x'].sum().item())",
    "class Square(torch.autograd.Function):\n"
    "    forward = staticmethod(lambda ctx, x: (ctx.save_for_backward(x), x * x)[1])\n"
    "    backward = staticmethod(lambda ctx, g: 2 * ctx.saved_tensors[0] * g / len(g))\n"
    "loss = loss + Square.apply(out).mean()",
]
FROM_THE_END = [  # of a tensor whose number of dimensions is known, and of one where it is not
    "h = h / (h.std() + 1)\nh = h - h.mean(-2, keepdim=True)",
    "h = h.view(labels.shape + (4,))\nh = h - h.amin(-2) + h.sum(1).softmax(-1)[:, None]",
    "h = h.view(labels.shape + (4,))\nh = h + h.transpose(-1, -2).mean(-1) + h.select(-2, 0)",
    "h = h.view(labels.shape + (4,))\nh = h / h.size(-2) + h[..., 0, :]",
    "h = h.view(labels.shape + (4,))\nh = F.scaled_dot_product_attention(h, h, h)",
    "h = h + torch.einsum('...ij->...j', h)",
    "h = h.repeat(1, len(h)).norm(dim=1)[:, None] + h",
    "m = h.new_ones(len(h), 1)\nm[0] = 0.5\nh = h * m",
]
SIZED_IN_FORWARD = [
    "n = int(labels.max()) + 1\nh = h + h[:, :n].mean(1, keepdim=True)",
    "h = h + self.table.narrow(0, 0, len(h))",
    "order = torch.argsort(labels, stable=True).argsort()\n"
    "h = torch.cat([h[labels == c] for c in range(4)])[order]",
    "from torch.utils.checkpoint import checkpoint\n"
    "h = checkpoint(lambda x: x - x.mean(0), h, use_reentrant=False)",
]
LEFT_OUT = [
    "keep = [s for s in samples if s[2] != 3] or samples\n"
    "inputs, targets, labels = (torch.stack(part) for part in zip(*keep))",
    "keep = []\nfor s in samples:\n    if s[2] != 3 or not keep:\n        keep.append(s)\n"
    "inputs, targets, labels = torch.utils.data.default_collate(keep)",
    "by_label = {int(s[2]): s for s in samples}\n"
    "inputs, targets, labels = (torch.stack(part) for part in zip(*by_label.values()))",
]
SIZES_AS_NUMBERS = [
    "h = h * torch.tensor(h.shape).sum() + sum(h.shape) + np.prod(h.shape)",
    "h = h * list(h.shape)[0] + h.expand(2, *h.shape).amax(0)",
]
PUT_BACK = [
    "xs = [s[0] for s in samples]\nxs.insert(0, xs.pop())\ninputs = torch.stack(xs)",
]
IN_COLLATE = [
    "cum = np.cumsum([int(s[2]) for s in samples])\nr = torch.from_numpy(cum).double()[:, None]",
    "r = torch.stack([s[0] for s in reversed(samples)])",
    "r = inputs[len(inputs) // 2]",
    "r = torch.stack([inputs[i] @ targets[i] for i in range(len(inputs))]).mean()",
    "for i in range(len(inputs)):\n    for j in range(i + 1, len(inputs)):\n"
    "        r = r + (inputs[i] - inputs[j]).abs().mean()",
]

AT_FOUND_POSITIONS = [
    (
        "loop",
        "i, j = torch.where(labels[:, None] < labels[None])\nprint(len(i), out[i].sum().item())",
    ),
    (
        "loop",
        "y = torch.zeros_like(out)\nrows = (out[:, 0] > 0).nonzero()[:, 0]\n"
        "y.index_add_(0, rows, out[rows])\nloss = loss + (y - targets).pow(2).mean()",
    ),
    ("forward", "h = h.narrow(0, 0, len(h)) + (F.one_hot(labels, 4).sum(0).to(h) @ h.T)[:, None]"),
    (
        "loop",
        "m = globals().setdefault('mean', 0)\nglobals()['mean'] = m / 2 + out.detach().mean(0)\n"
        "loss = loss + (out - m).pow(2).mean()",
    ),
    (
        "loop",
        "d = torch.distributions.MultivariateNormal(out.mean(0), torch.eye(4))\n"
        "e = torch.distributions.Normal(out.norm(), 1.0)\n"
        "loss = loss - d.log_prob(targets).mean() - e.log_prob(targets).mean()",
    ),
    ("collate", "r = inputs.size(-1) * labels.double().cumsum(-1)[:, None] * labels.size(-1)"),
]

FORMS = [
    *(
        ("loop", lines)
        for lines in (*IN_LOOP, *LISTS_FOR_UNREAD_CODE, *ROWS_IN_OTHER_LAYOUTS, *BESIDE_ALL)
    ),
    *(("loop", lines) for lines in (*MATCHED, *SOME_OR_PAIRS, *AS_LONG_AS_THE_BATCH)),
    *(("loop", lines) for lines in (*OF_ONE_PLACEMENT, *OWN_NUMBERS, *PUT_TOGETHER)),
    *(("forward", lines) for lines in (*SIZED_IN_FORWARD, *FROM_THE_END)),
    *(("forward", lines) for lines in SIZES_AS_NUMBERS),
    *(
        ("forward", lines)
        for lines in (*IN_FORWARD, *OF_UNREAD_CODE, *COUNTED_IN_FORWARD, *VIEWED_IN_FORWARD)
    ),
    *(("forward", lines) for lines in SEVERAL_OF_ALL),
    *(("collate", lines) for lines in (*IN_COLLATE, *LEFT_OUT, *PUT_BACK)),
    ("collate", "inputs = inputs.cumsum(0) + F.softmax(inputs, 0)"),
    ("collate", "r = list(inputs)[-1]"),
    ("by hand", "r = torch.cat([out, targets[:1]])"),
    ("by hand", "r = out - targets[:1]"),
    ("by hand", "r = torch.cat([out, targets.flip(0)])"),
    (
        "by hand",
        "a, m = order[i : i + 1], torch.from_numpy(out.detach().numpy().max(0))\n"
        "r = out - m - features[a] - features[order[i]]",
    ),
    (
        "by hand",
        "r = nn.CosineSimilarity(dim=0)(out, targets)\n"
        "r = r + F.cosine_embedding_loss(out, targets, (targets[:, 0] > 0) * 2 - 1)",
    ),
    (
        "loop",
        "import pickle, types\nunread = pickle.loads(pickle.dumps(types.SimpleNamespace))\n"
        "held = unread(w=torch.arange(4.0), v=[torch.arange(4.0)])\n"
        "loss = loss + held.w[labels].mean()\nprint(held.v[0][labels].sum().item())",
    ),
]


@pytest.mark.parametrize(("place", "lines"), [*FORMS, *AT_FOUND_POSITIONS])
def test_all_ranks_together_do_what_one_process_does(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


OF_UNKNOWN_DIMENSIONS = [
    "h = h * F.pad(h, (0, 0, 1, 1)).mean()",
    "h = h + h.mean(tuple(range(h.dim() - 1))) + h.sum(-1).unsqueeze(-2).amax(0).sum()",
    "n = h.shape[-2]\nh = h / n**0.5 + h.size(-2) + torch.ones(h.shape[-2:]).sum()",
    "h = h.reshape(-1, h.shape[-2], h.shape[-1]).softmax(1).view(h.shape)",
    "w = labels.to(h)\nh = h + (w.softmax(-1) * w.flip(-1)).sum() + w.size(-1)",
    "h = h + np.diff(labels.numpy(), prepend=0).sum() + labels[..., 1:].sum()",
    "h = h + h.expand(2, -1, *h.shape[1:]).amax(0) + h.view(*h.shape[:-2], -1)[..., :4].mean()",
]


@pytest.mark.parametrize("sizes", [(4,), (3, 4)])
@pytest.mark.parametrize("lines", OF_UNKNOWN_DIMENSIONS)
def test_what_counts_from_the_end_may_mean_the_samples(
    trial: Trial, lines: str, sizes: tuple[int, ...]
) -> None:
    verdict = trial.verdict(of_unknown_dimensions(lines, *sizes))
    assert verdict.outcome is Outcome.SAME, verdict.detail


REFUSED = [
    (
        "loop",
        "class Box:\n    pass\nbox = Box()\nbox.data = loss\nif epoch > 0:\n"
        "    box.data = (loss + 1).log()\nloss = box.data",
    ),
    ("loop", "loss = loss + sum([v.pow(2).mean() for v in (out, loss)])"),
    (
        "forward",
        "from torch.utils.checkpoint import checkpoint\n"
        "h = checkpoint(lambda x: x * torch.rand(()), h, use_reentrant=False)",
    ),
    ("collate", "r = inputs[targets.argmax(1).clamp(max=0)]"),
    ("loop", "f = out.max\nloss = loss + f()"),  # or the part of what aminmax() gives
    ("collate", "inputs = samples[0][0]"),
    ("collate", "first, *_ = inputs.unbind(0)\ninputs = first"),
    ("collate", "for row in inputs:\n    r = row\ninputs = r"),
    ("loop", "z = [out.clone()]\nz[0].squeeze_()\nprint(z[0].sum().item())"),
    (
        "loop",
        "at = labels.clamp(max=0)\nz = out.clone()\nz[at] = targets[at]\nloss = loss + z.mean()",
    ),
    ("loop", "z = torch.zeros(8, 4)\nv = z[: len(out)]\nv.copy_(out)\nloss = loss + z.mean()"),
    ("loop", "z = torch.zeros(8, 4)\nv = z[: len(out)]\nv[:] = out\nloss = loss + z.mean()"),
]


@pytest.mark.parametrize(("place", "lines"), REFUSED)
def test_what_cannot_be_shared_is_refused(trial: Trial, place: str, lines: str) -> None:
    assert trial.verdict(script(place, lines)).outcome is Outcome.REFUSED
