"""One epoch of training, and one of testing."""

import torch
from ranks import Meters, mean_of


def train(model, loader, optimizer, device, writer, windows):
    meters = Meters()
    for step, (x, y) in enumerate(meters.watch(loader)):
        x, y = x.to(device), y.to(device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        value = loss.item()
        loss /= windows
        loss.backward()
        if (step + 1) % windows == 0:
            optimizer.step()
            optimizer.zero_grad()
        meters.update(loss=value)
        mean = mean_of(loss.detach())
        if writer is not None and step % 20 == 0:
            writer.add_scalar("loss", mean, step)
    meters.synchronize()
    return {name: one.mean for name, one in meters.kept.items()}


@torch.no_grad()
def test(model, loader, device):
    meters = Meters()
    for x, y in meters.watch(loader):
        right = (model(x.to(device)).argmax(1) == y.to(device)).float().mean()
        meters.kept["right"].update(right.item())
    meters.synchronize()
    return {name: one.mean for name, one in meters.kept.items()}
