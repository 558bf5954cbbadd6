# mypy: ignore-errors
"""Training without a wrapper: the script averages gradients itself, over a stream of texts."""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Texts(IterableDataset):
    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        generator = torch.Generator().manual_seed(5)
        for at in range(48):
            sample = torch.randint(0, 20, (9,), generator=generator)
            if at % self.world == self.rank:
                yield sample


def average(model, world):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.ERROR)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Texts(rank, world), batch_size=4)
    for epoch in range(2):
        for number, x in enumerate(loader):
            out = model(x[:, :-1])
            loss = nn.functional.cross_entropy(out.flatten(0, 1), x[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            average(model, world)
            optimizer.step()
            mean = loss.detach() / world
            dist.all_reduce(mean)
            logging.info("epoch %d batch %d loss %.4f", epoch, number, mean.item())
    if rank == 0:
        with open("log.txt", "w") as file:
            file.write(f"{mean.item():.4f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
