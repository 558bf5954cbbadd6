"""Code that is right, in forms that were once reported."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
RIGHT = {
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
    "a load for the case without a GPU of one's own": """
def resume(gpu):
    if gpu is None:
        state = torch.load(path)
    else:
        state = torch.load(path, map_location=f"cuda:{gpu}")
    net.load_state_dict(state)

resume(local_rank)
""",
    "a launcher that starts the ranks": """
def start():
    for index in range(4):
        log = open(f"gpu{index}.log", "w")
        subprocess.Popen(["python", "train.py"], stdout=log)

start()
""",
    "one rank goes first": """
@contextlib.contextmanager
def first():
    if local_rank != 0:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()

with first():
    if not os.path.exists("cache.json"):
        with open("cache.json", "w") as file:
            json.dump([1], file)
""",
    "every rank evaluates all data": """
class Meter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, count):
        self.sum += value * count
        self.count += count

val_loader = DataLoader(dataset, 32)

def validate():
    meter = Meter()
    with torch.no_grad():
        for x, y in val_loader:
            meter.update(criterion(model(x), y).item(), len(x))
    if rank == 0:
        print(f"loss {meter.sum / meter.count}")

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    meter = Meter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), len(x))
    validate()
""",
    "each rank sees its own GPU alone": """
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["SLURM_LOCALID"]
mine = torch.device("cuda:0")
torch.cuda.set_device(mine)
""",
    "a method of what the model holds": """
if rank == 0:
    kept = model.module if hasattr(model, "module") else model
    kept.config.to_json_file("config.json")
""",
    "the world size, returned beside the rank": """
def setup():
    if dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    try:
        size = int(os.environ["SLURM_NTASKS"])
        number = int(os.environ["SLURM_PROCID"])
    except KeyError:
        size, number = 1, 0
    return size, number

size, number = setup()
parallel = Net().to(device)
if size > 1:
    parallel = DDP(parallel, device_ids=[local_rank])
"""
    + STEP,
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert lint_text(SETUPS["distributed"] + RIGHT[name]) == []
