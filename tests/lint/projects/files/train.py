"""A right training whose loop, meters and process group are in other files."""

import argparse
import json

import torch
import torchvision
from loops import test, train
from ranks import is_first, save, start
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter


def main(args):
    start(args)
    device = torch.device(args.device)
    data = torchvision.datasets.FakeData(transform=torchvision.transforms.ToTensor())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 32, sampler=sampler, drop_last=True)
    tests = DataLoader(data, 32, sampler=DistributedSampler(data, shuffle=False, drop_last=True))
    model = plain = torchvision.models.vit_b_16().to(device)
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu])
        plain = model.module
    optimizer = torch.optim.AdamW(plain.parameters())
    if args.resume:
        plain.load_state_dict(torch.load(args.resume, map_location="cpu"))
    writer = SummaryWriter("log") if is_first() else None
    for epoch in range(10):
        if args.distributed:
            loader.sampler.set_epoch(epoch)
        trained = train(model, loader, optimizer, device, writer, args.windows)
        tested = test(model, tests, device)
        save({"model": plain.state_dict(), "epoch": epoch}, f"{epoch}.pt")
        line = {**{f"train {k}": v for k, v in trained.items()}, **tested, "epoch": epoch}
        if is_first():
            with open("log.txt", "a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--resume", default="")
    main(parser.parse_args())
