"""The same for torchrun without DistributedDataParallel: gradients are averaged by hand."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def network(inputs, outputs):
    """Two layers."""
    return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, outputs))


def average_gradients(model):
    """Average the gradients over the ranks, all in one tensor."""
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))


def main():
    """Train for twelve rounds."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    real = torch.randn(96, 4, generator=draw) + 1
    generator, critic = network(3, 4), network(4, 1)
    for model in (generator, critic):
        for p in model.parameters():
            dist.broadcast(p.data, 0)
    average = copy.deepcopy(generator)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    optimizer_c = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(12):
        x = real[torch.randperm(96, generator=draw)[:16]]
        z = torch.randn(16, 3, generator=draw)
        x, z = x[rank::world], z[rank::world]
        n = len(x)
        optimizer_c.zero_grad()
        fake = generator(z)
        loss_c = bce(critic(x), torch.ones(n, 1)) + bce(critic(fake.detach()), torch.zeros(n, 1))
        loss_c.backward()
        average_gradients(critic)
        optimizer_c.step()
        if step % 2:
            optimizer_g.zero_grad()
            loss_g = bce(critic(generator(z)), torch.ones(n, 1))
            loss_g.backward()
            average_gradients(generator)
            optimizer_g.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), generator.parameters(), strict=True):
                    a.mul_(0.9).add_(p, alpha=0.1)
        shown = loss_c.detach().clone()
        dist.all_reduce(shown)
        if rank == 0:
            print(f"step {step} critic {shown.item() / world:.6f}")
    if rank == 0:
        torch.save({"average": average.state_dict(), "critic": critic.state_dict()}, "gan.pt")
    dist.destroy_process_group()


main()
