"""Right code, in forms that were once reported: models and their wrappers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.precision.snippets import STEP, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a model cast in the branch that does not wrap it": """
options = argparse.ArgumentParser().parse_args()
net = Net()
if options.distributed:
    net = DDP(net.cuda(), device_ids=[local_rank])
else:
    net.half()
    net.to(device)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(net(x), y).backward()
""",
    "a model that is moved, then wrapped, each in a method": """
class Runner:
    def __init__(self, net):
        self.net = net

    def wrap(self):
        self.net = DDP(self.net, device_ids=[local_rank])

    def move(self, device):
        self.net = self.net.to(device)
""",
    "a frozen teacher": """
teacher = DDP(Net().to(device), device_ids=[local_rank])
for p in teacher.parameters():
    p.requires_grad = False
"""
    + STEP,
    "parameters switched by an argument": """
def switch(network, flag):
    for p in network.parameters():
        p.requires_grad = flag

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        switch(model, False)
        switch(model, True)
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a model that a helper wraps again, after its layers are changed": """
from transformers import ViTForImageClassification

def wrap(m):
    return DDP(m, device_ids=[local_rank])

def unwrap(m):
    if isinstance(m, DDP):
        return m.module
    return m

def prune(m):
    for layer in m.vit.encoder.layer:
        layer.dense = nn.Linear(3, 4)
    return m

current = wrap(ViTForImageClassification.from_pretrained("x").to(device))
for i in range(5):
    current = wrap(prune(unwrap(current)).to(device))
    optimizer = torch.optim.SGD(current.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            criterion(current(x), y).backward()
            optimizer.step()
""",
    "a cast above the wrap": """
class Trainer:
    def __init__(self):
        self.network = Net().to(device)

    def prepare(self):
        self.network.half()
        self.network = DDP(self.network, device_ids=[local_rank])

    def fit(self):
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                criterion(self.network(x), y).backward()
                optimizer.step()

trainer = Trainer()
trainer.prepare()
optimizer = torch.optim.SGD(trainer.network.parameters(), lr=0.1)
trainer.fit()
""",
    "a method of what the model holds": """
if rank == 0:
    kept = model.module if hasattr(model, "module") else model
    kept.config.to_json_file("config.json")
""",
    "gradients that are averaged as one tensor, or in a hook": """
def average(network):
    gradients = [p.grad for p in network.parameters()]
    flat = torch.cat([one.reshape(-1) for one in gradients])
    dist.all_reduce(flat)

head = nn.Linear(2, 2).to(device)
stepper = torch.optim.SGD(head.parameters(), lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    average(head)
    stepper.step()
""",
    "parameters that rank 0 has alone": """
head = nn.Linear(2, 2).to(device)
groups = [{"params": list(model.parameters())}]
if rank == 0:
    groups.append({"params": list(head.parameters())})
stepper = torch.optim.SGD(groups, lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    stepper.step()
""",
    "a probe on what the model gives without a gradient": """
probe = DDP(nn.Linear(2, 2).to(device), device_ids=[local_rank])
for x, y in loader:
    criterion(probe(model.module(x).detach()), y).backward()
    optimizer.step()
""",
    "a wrapped model without buffers on one rank": """
if rank == 0:
    with torch.no_grad():
        print(model(torch.zeros(1, 10, device=device)))
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


TWO_WAYS = """
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

def worker(number, count):
    dist.init_process_group("nccl", rank=number, world_size=count)
    train(DDP(make().to(number), device_ids=[number]))

def make():
    return Net()

options = argparse.ArgumentParser().parse_args()
if {test}:
    train(make())
else:
    mp.spawn(worker, nprocs=4, args=(4,))
"""


def test_a_model_that_another_path_wraps(lint_text: Lint) -> None:
    text = SETUPS["distributed"].split("local_rank =")[0] + "loader = DataLoader(dataset, 32)\n"
    alone = text + TWO_WAYS.replace("{test}", "not options.distributed")
    assert lint_text(alone, select=("DDP305",)) == []


def test_the_model_inside_is_trained_where_an_option_wraps_it(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
options = argparse.ArgumentParser().parse_args()
raw = Net().to(device)
if options.together:
    whole = DDP(raw, device_ids=[local_rank])
for x, y in loader:
    criterion(raw(x), y).backward()
"""
    )
    (one,) = lint_text(text, select=("DDP304",))
    assert one.confidence is Confidence.LIKELY
    assert lint_text(text.replace("options.together", "epochs > 5"), select=("DDP304",)) != []


@pytest.mark.parametrize(("value", "found"), [("False", False), ("True", True)])
def test_frozen_where_ddp_looks_for_unused_parameters(
    value: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"].replace("device_ids=[local_rank]", "find_unused_parameters=True")
    text += f"""
for p in Net().parameters():
    p.requires_grad = False
for p in net.parameters():
    p.requires_grad = {value}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
    assert [one.code for one in lint_text(text, select=("DDP306",))] == ["DDP306"] * found


@pytest.mark.parametrize(("inside", "found"), [(False, True), (True, False)])
def test_some_layers_frozen_after_the_wrap(inside: bool, found: bool, lint_text: Lint) -> None:
    change = """for name, p in model.named_parameters():
    if "l1" in name:
        p.requires_grad = True
    else:
        p.requires_grad = False
"""
    step = "        " + change.replace("\n", "\n        ").rstrip() + "\n"
    text = SETUPS["distributed"] + ("" if inside else change) + STEP + (step if inside else "")
    assert [one.code for one in lint_text(text, select=("DDP306",))] == ["DDP306"] * found


def test_a_model_that_another_file_trains_past_its_wrapper(tmp_path: Path, lint_text: Lint) -> None:
    (tmp_path / "work.py").write_text(
        "class Work:\n"
        "    def __init__(self, model):\n        self.model = model\n"
        "    def run(self, loader, criterion, optimizer):\n"
        "        for x, y in loader:\n"
        "            criterion(self.model(x), y).backward()\n"
        "            optimizer.step()\n"
    )
    text = "from work import Work\n" + SETUPS["distributed"]
    for trained, found in (("model.module", ["DDP304"]), ("model", [])):
        given = text + f"Work({trained}).run(loader, criterion, optimizer)\n"
        assert [one.code for one in lint_text(given, select=("DDP304",))] == found


def test_a_model_that_is_not_seen_is_trained_past_its_wrapper(lint_text: Lint) -> None:
    """Its name tells, where the wrapper has another one and is not called."""
    text = (
        SETUPS["distributed"]
        + """

def train(rank, raw):
    wrapped = DDP(raw, device_ids=[local_rank])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for x, y in loader:
        criterion({called}(x), y).backward()
        optimizer.step()

def launch(raw):
    mp.spawn(train, args=(raw,), nprocs=2)
"""
    )
    assert lint_text(text.replace("{called}", "raw"), select=("DDP304",))
    assert not lint_text(text.replace("{called}", "wrapped"), select=("DDP304",))
    same = text.replace("wrapped", "raw").replace("{called}", "raw")
    assert not lint_text(same, select=("DDP304",))


def test_weights_that_are_drawn_through_the_wrapper_itself(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def fresh(layer):
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight)

{of}.apply(fresh)
"""
        + STEP
    )
    for of in ("model", "model.module"):
        assert lint_text(text.replace("{of}", of), select=("DDP308",))
    assert not lint_text(text.replace("{of}", "Net()"), select=("DDP308",))


def test_a_loss_past_the_wrapper_is_said_once_for_a_function(lint_text: Lint) -> None:
    """What is called before the last may prepare targets."""
    text = (
        SETUPS["distributed"].replace("model = DDP(net, device_ids=[local_rank])", "")
        + """
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.head = Net(), Net()

model = DDP(Parts().to(device), device_ids=[local_rank])

def loss_of(x):
    wanted = model.module.codes(x).argmax(1)
    return criterion(model.module.head(x), wanted)

for x, y in loader:
    loss_of(x).backward()
    optimizer.step()
"""
    ).replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    found = lint_text(text, select=("DDP303",))
    assert [text.splitlines()[one.span.line - 1] for one in found] == [
        "    return criterion(model.module.head(x), wanted)"
    ]


CHOSEN = """
class Dropping(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 2), nn.Dropout(share))

    def forward(self, x):
        return self.layers(x)

torch.manual_seed(0)
chosen = Dropping(0.1) if path.startswith("a") else {other}
model = DDP(chosen.to(device), device_ids=[local_rank])
"""


@pytest.mark.parametrize(("other", "shown"), [("Net()", False), ("Dropping(0.2)", True)])
def test_one_of_several_models_may_have_no_dropout(
    other: str, shown: bool, lint_text: Lint
) -> None:
    found = findings(lint_text, CHOSEN.format(other=other) + STEP)
    assert ("DDP601" in {one.code for one in found}) is shown


SCALED = """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = {made}

    def forward(self, x):
        return x * self.scale

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x, y):
        return F.cross_entropy(self.inner(x), y)

loss = {given}
steps = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
for x, y in loader:
    steps.zero_grad()
    loss(model(x), y).backward()
    steps.step()
"""


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        ("nn.Parameter(torch.ones(1))", "Loss()", True),
        ("nn.Parameter(torch.ones(1))", "DDP(Loss())", False),
        ("nn.Parameter(torch.ones(1), requires_grad=False)", "Loss()", False),
        ("torch.ones(1)", "Loss()", False),
    ],
)
def test_a_parameter_of_a_loss(made: str, given: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + SCALED.replace("{made}", made).replace("{given}", given)
    assert bool(lint_text(text, select=("DDP305",))) is found
