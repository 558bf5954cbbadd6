"""What excuses or makes a finding is on the way of its value, not anywhere in the file."""

from __future__ import annotations

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

LOOP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion({model}(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
STEP = LOOP.format(model="model")
WHOLE = """
class Samples(Dataset):
    def __init__(self, files):
        if {asks}:
            {inside}
        self.files = files

    def __getitem__(self, index):
        return self.files[index], 0

    def __len__(self):
        return len(self.files)

everything = DataLoader(Samples(list(range(100))), 8, shuffle=True)
for x, y in everything:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ENTRIES = """
def mean_over_ranks(value):
    dist.all_reduce(value)
    return value / world_size

kept = {"loss": [], "penalty": []}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept["loss"].append(mean_over_ranks(loss.detach()).item())
        kept["penalty"].append({penalty})
    for k in kept.keys():
        kept[k] = sum(kept[k]) / len(kept[k])
    if rank == 0:
        print("penalty " + str(kept["penalty"]))
"""
HELPER = """
def show(text):
    print(text)

total = torch.zeros(1, device=device)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    {reduce}
    if rank == 0:
        show(f"loss {{total.item() / len(loader) / world_size}}")
"""
SEEDED = """
class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(10, 2, dropout={share})

    def forward(self, x):
        return self.attention(x, x, x)[0]

attending = DDP(Attending().to(device), device_ids=[local_rank])
with open(f"settings-{{time.time()}}.json", "w") as f:
    json.dump({{}}, f)
with open("settings.json") as f:
    settings = json.load(f)
torch.manual_seed({seed})
for x, y in loader:
    criterion(attending(x.to(device)), y.to(device)).backward()
"""
COLLATED = """
def put_together(samples):
    return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])

batches = DataLoader(dataset, 8, sampler=sampler, collate_fn=put_together)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in batches:
        loss = criterion(net(x{moved}), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def entries(penalty: str) -> str:
    return ENTRIES.replace("{penalty}", penalty)


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        pytest.param(
            "DDP101",
            WHOLE.format(asks="rank == 0", inside="print(len(files))"),
            WHOLE.format(asks="world_size > 1", inside="files = files[rank::world_size]"),
            id="a rank that only decides who prints",
        ),
        pytest.param(
            "DDP405",
            entries("net.penalty().item() + loss.item()"),
            entries("mean_over_ranks(loss.detach()).item()"),
            id="one reduced entry of a dictionary",
        ),
        pytest.param(
            "DDP405",
            HELPER.format(reduce="pass"),
            HELPER.format(reduce="dist.all_reduce(total)"),
            id="a report by a function of the project",
        ),
        pytest.param(
            "DDP601",
            SEEDED.format(share=0.1, seed='settings.get("seed", 0)'),
            SEEDED.format(share=0.1, seed='settings.get("seed", 0) + rank'),
            id="a file that is written beside the settings",
        ),
        pytest.param(
            "DDP601",
            SEEDED.format(share=0.1, seed=0),
            SEEDED.format(share=0.0, seed=0),
            id="dropout in attention",
        ),
        pytest.param(
            "DDP208",
            COLLATED.format(moved=""),
            COLLATED.format(moved=".to(device)"),
            id="batches of a collate function that knows no device",
        ),
        pytest.param(
            "DDP501",
            "steps = epochs * len(loader)\n"
            + STEP
            + 'torch.save(net.state_dict(), f"{steps}.pt")\n',
            "steps = epochs * len(loader)\n"
            + STEP
            + 'torch.save(net.state_dict(), f"{steps}-{rank}.pt")\n',
            id="a path with the length of a loader that is made for a rank",
        ),
    ],
)
def test_found_where_it_is_wrong(lint_text: Lint, code: str, wrong: str, right: str) -> None:
    head = SETUPS["distributed"]
    found = [code in {one.code for one in lint_text(head + text)} for text in (wrong, right)]
    assert found == [True, False]


def test_all_of_the_data_past_the_wrapper(lint_text: Lint) -> None:
    whole = SETUPS["distributed"].replace("32, sampler=sampler", "32, shuffle=True")
    text = whole + LOOP.format(model="model.module").replace("    sampler.set_epoch(epoch)\n", "")
    assert {"DDP101", "DDP303"} <= {one.code for one in lint_text(text)}


def test_a_rate_beside_a_step_is_likely_whatever_leads_to_both(lint_text: Lint) -> None:
    rate = '        optimizer.param_groups[0]["lr"] = 0.1 * loss.item()\n'
    loop = (STEP + rate).replace("\n", "\n    ")
    options = "args = argparse.ArgumentParser().parse_args()\nif args.train:\n"
    found = lint_text(SETUPS["distributed"] + options + loop)
    confidences = [one.confidence for one in found if one.code == "DDP406"]
    assert confidences == [Confidence.LIKELY]
