"""The same for torchrun: a sampler slices the batches, and sums are reduced with gradients."""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CLASSES, EPOCHS, BATCH = 3, 3, 8


class Part(BatchSampler):
    """This rank's samples of each batch."""

    def __iter__(self):
        for batch in super().__iter__():
            yield batch[dist.get_rank() :: dist.get_world_size()]


def pictures(seed, count):
    """Random pictures; a pixel's class follows from its colours."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, 6, 6, generator=draw)
    return TensorDataset(x, (x[:, 0] > 0.3).long() + (x[:, 1] > 0.8).long())


def overlap(scores, y):
    """One minus the mean over the classes of the overlap, over all pixels of the global batch."""
    p = scores.softmax(1)
    wanted = nn.functional.one_hot(y, CLASSES).permute(0, 3, 1, 2)
    both, each = (p * wanted).sum((0, 2, 3)), (p + wanted).sum((0, 2, 3))
    return 1 - (2 * all_reduce(both) / all_reduce(each)).mean()


def summed(value):
    """The sum over the ranks."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value


def evaluate(net, loader):
    """The mean over the classes of intersection over union."""
    net.eval()
    table = torch.zeros(CLASSES, CLASSES)
    with torch.no_grad():
        for x, y in loader:
            at = y.flatten() * CLASSES + net(x).argmax(1).flatten()
            table += torch.bincount(at, minlength=CLASSES**2).view(CLASSES, CLASSES)
    net.train()
    table = summed(table)
    union = table.sum(0) + table.sum(1) - table.diag()
    return (table.diag() / union.clamp(min=1)).mean().item()


def main():
    """Train for three epochs."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    pairs, others = pictures(1, 48), pictures(2, 12)
    train = DataLoader(pairs, batch_sampler=Part(RandomSampler(pairs), BATCH, False))
    valid = DataLoader(others, batch_sampler=Part(range(12), 4, False))
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.Conv2d(6, CLASSES, 1)
    )
    model = DistributedDataParallel(net)
    head = [*net[3].parameters()]
    body = [p for layer in net[:3] for p in layer.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": 0.01}, {"params": head, "lr": 0.05, "weight_decay": 0.0}]
    )
    steps = EPOCHS * len(train)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: (1 - at / steps) ** 0.9)
    average = AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    frequency = torch.zeros(CLASSES)
    best, log = -1.0, []
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y in train:
            if torch.rand(()) < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            frequency += summed(torch.bincount(y.flatten(), minlength=CLASSES))
            weight = frequency.sum() / (frequency + 1)
            scores = model(x)
            loss = nn.functional.cross_entropy(scores, y, weight, reduction="sum")
            loss = loss * world / summed(weight[y].sum()) + overlap(scores, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(net)
            total += summed(loss).item() / world
        score, averaged = evaluate(net, valid), evaluate(average, valid)
        log.append({"epoch": epoch, "loss": total / len(train), "score": score})
        if rank == 0:
            print(f"epoch {epoch}: loss {total / len(train):.6f} score {score:.6f} {averaged:.6f}")
        if averaged > best:
            best = averaged
            if rank == 0:
                torch.save(average.module.state_dict(), "best.pt")
    if rank == 0:
        with open("log.json", "w") as file:
            json.dump(log, file)
    dist.destroy_process_group()


main()
