"""A generator against a critic: two models and optimizers, and an average of the generator."""

import copy

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def network(inputs, outputs):
    """Two layers."""
    return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, outputs))


def main():
    """Train for twelve rounds."""
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    real = torch.randn(96, 4, generator=draw) + 1
    generator, critic = network(3, 4), network(4, 1)
    average = copy.deepcopy(generator)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    optimizer_c = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(12):
        x = real[torch.randperm(96, generator=draw)[:16]]
        z = torch.randn(16, 3, generator=draw)
        optimizer_c.zero_grad()
        fake = generator(z)
        loss_c = bce(critic(x), torch.ones(16, 1)) + bce(critic(fake.detach()), torch.zeros(16, 1))
        loss_c.backward()
        optimizer_c.step()
        if step % 2:
            optimizer_g.zero_grad()
            loss_g = bce(critic(generator(z)), torch.ones(16, 1))
            loss_g.backward()
            optimizer_g.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), generator.parameters(), strict=True):
                    a.mul_(0.9).add_(p, alpha=0.1)
        print(f"step {step} critic {loss_c.item():.6f}")
    torch.save({"average": average.state_dict(), "critic": critic.state_dict()}, "gan.pt")


main()
