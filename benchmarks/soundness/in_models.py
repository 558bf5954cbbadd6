"""The operator or idiom stands in a model, a hook or an autograd Function."""

from __future__ import annotations

import random

from benchmarks.soundness.drafting import Draft, any_sink, statement, with_sink, written
from benchmarks.soundness.forms import layers, rounds
from benchmarks.soundness.forms.operators import SAME_SHAPE
from benchmarks.soundness.parts import Parts

FORWARD_ENDS = (
    "return self.head(r)",
    "return self.head(h + r)",
    "return self.head(h * r)",
    "return self.head(h) * r.double().mean()",
    "return self.head(h) + 0.1 * r.double().sum()",
    "return self.head(h) + r.double().abs().max()",
    "return self.head(h / (1 + r.double().numel()))",
    "return self.head(h) if r.double().mean() > 0.01 else 2 * self.head(h)",
    "return self.head(torch.where(r.double().mean() > 0.01, h, 2 * h))",
)


def net(lines: list[str], arguments: str = "inputs") -> list[str]:
    """A model whose forward has these lines, with layers ``body`` and ``head``."""
    return [
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)",
        "        self.extra = 0.0",
        "",
        f"    def forward(self, {arguments}):",
        "        h = torch.tanh(self.body(inputs))",
        *(f"        {line}" for line in lines),
        "",
        "",
    ]


def by_rounds(chance: random.Random) -> Draft:
    """A loop of a round for each row, or what rows pick from a table, in a model's forward."""
    lines = chance.choice(rounds.ROUNDS)
    drawn = [written(line, "h", "inputs", "h.argmax(1)") for line in lines]
    parts = Parts(model=["model = Net()"])
    parts.definitions = net([*drawn, chance.choice(FORWARD_ENDS)])
    return Draft("; ".join(lines), parts)


def forward(chance: random.Random) -> Draft:
    """In the forward of a model."""
    form, lines = statement(chance, "h", "inputs", "inputs.argmax(1)")
    parts = Parts(model=["model = Net()"])
    choice = chance.randrange(6)
    if choice == 0:  # what it finds is returned
        parts.definitions = net([*lines, "return self.head(h), r"])
        parts.forward = ["out, r = model(inputs)"]
        return with_sink(form, parts, any_sink(chance))
    if choice == 1:  # it is kept in an attribute
        parts.definitions = net(
            [*lines, "self.extra = r.double().pow(2).mean()", "return self.head(h)"]
        )
        parts.loss.append("loss = loss + 0.1 * model.extra")
    elif choice == 2:  # it is a loss inside
        ends = ["return F.mse_loss(self.head(h), targets) + 0.1 * r.double().pow(2).mean()"]
        parts.definitions = net([*lines, *ends], "inputs, targets")
        parts.forward, parts.loss = ["loss = model(inputs, targets)"], []
    else:
        parts.definitions = net([*lines, chance.choice(FORWARD_ENDS)])
    if chance.random() < 0.3:
        parts.step = ['print(f"{loss.item():.6f}")']
    return Draft(form, parts)


def layer(chance: random.Random) -> Draft:
    """A layer in a model."""
    made, used = chance.choice(layers.LAYERS)
    expression = used.replace("{h}", "h").replace("{k}", "labels")
    end = chance.choice([f"return self.head({expression})", f"return {expression}"])
    definitions = net([end], "inputs, labels")
    definitions.insert(5, f"        {made}")
    parts = Parts(definitions, model=["model = Net()"])
    parts.forward = ["out = model(inputs, labels)"]
    parts.loss = ["loss = (out - targets.mean(1, keepdim=True)).pow(2).mean()"]
    parts.step = ['print(f"{loss.item():.6f}")']
    return Draft(f"{made}; {used}", parts)


def hook(chance: random.Random) -> Draft:
    """In hooks of layers and gradients."""
    form, lines = statement(chance, "z", "z.detach().tanh()", "z.argmax(1)")
    lines = [line.replace("z = z.clone()", "z = z * 1.0") for line in lines]
    ends = [
        "return z + 0.1 * r",
        "return z * r.double().mean()",
        "return r",
        "kept.append(r.detach())",
    ]
    end = chance.choice(ends)
    parts = Parts(before=["kept = []"])
    if chance.random() < 0.6:
        head, call = "def hook(layer, args, z):", "model[0].register_forward_hook(hook)"
        parts.before.append(call)
    else:
        head = "def hook(z):"
        parts.forward = ["out = model(inputs)", "out.register_hook(hook)"]
    parts.model = ["model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))"]
    parts.definitions = [head, *(f"    {line}" for line in (*lines, end)), "", ""]
    parts.end = ['print(len(kept), f"{sum(r.double().sum().item() for r in kept):.6f}")']
    return Draft(form, parts)


def function(chance: random.Random) -> Draft:
    """In the forward or the backward of an autograd Function."""
    form = chance.choice(SAME_SHAPE)
    r = f"{written(form, 'z', 'z.tanh()', 'z.argmax(1)')}"
    forward_line, backward_line = ("r = z * 2.0", f"r = {r}")
    if chance.random() < 0.5:
        forward_line, backward_line = f"r = {r}", "r = z * 0.5"
    definitions = [
        "class Own(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, z):",
        f"        {forward_line}",
        "        return r",
        "",
        "    @staticmethod",
        "    def backward(ctx, z):",
        f"        {backward_line}",
        "        return r",
        "",
        "",
    ]
    return Draft(form, Parts(definitions, forward=["out = Own.apply(model(inputs))"]))
