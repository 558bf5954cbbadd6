"""What the snippets of right code share."""

from __future__ import annotations

from ddpify.lint.diagnostics import Diagnostic
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""

SHORTENED = "DDP208"  # the snippets leave out that batches are moved

RENDEZVOUS = """
def worker(number, count):
    dist.init_process_group(
        "nccl", init_method="tcp://127.0.0.1:29500", rank=number, world_size=count
    )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler)
    model = DDP(Net().to(device), device_ids=[number])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        {guard}
            torch.save(model.module.state_dict(), path)
    dist.destroy_process_group()


def main():
    for number in range(4):
        {start}


if __name__ == "__main__":
    main()
"""

STARTS = {
    "processes": "mp.Process(target=worker, args=(number, 4)).start()",
    "something unseen": "pool.submit(worker, number, 4)",
}


def findings(lint_text: Lint, text: str) -> list[Diagnostic]:
    """What is found in a snippet of a distributed script."""
    found = lint_text(SETUPS["distributed"] + text)
    return [one for one in found if one.code != SHORTENED]
