"""The same for torchrun: the losses' sums are divided by the tokens of all ranks."""

import json
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORDS, LENGTH, ROUNDS = 11, 9, 14


def texts(count):
    """Random texts of 3 to 9 words; 0 fills them up."""
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(1, WORDS, (count, LENGTH), generator=draw)
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=draw)
    return words * (torch.arange(LENGTH) < lengths.unsqueeze(1))


class Model(nn.Module):
    """A recurrent network whose output layer is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        """Scores of the next word at each place."""
        return self.head(self.rnn(self.embedding(words))[0])


def loss_of(scores, following):
    """The summed cross-entropy of the words that follow."""
    return nn.functional.cross_entropy(
        scores.flatten(0, 1), following.flatten(), ignore_index=0, reduction="sum"
    )


def summed(value):
    """The sum over the ranks."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value


def main():
    """Train for fourteen rounds."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train, valid = texts(80), texts(24)
    net = Model()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / 3) * (1 + math.cos(math.pi * at / ROUNDS)) / 2
    )
    draw = torch.Generator().manual_seed(2)
    seen = torch.zeros(WORDS)
    history = []
    for step in range(ROUNDS):
        batch = train[torch.randint(len(train), (16,), generator=draw)]
        batch = batch[rank * 16 // world : (rank + 1) * 16 // world]
        words, following = batch[:, :-1], batch[:, 1:]
        count = summed((following != 0).sum())
        loss = loss_of(model(words), following) * world / count
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        seen += summed(torch.bincount(following.flatten(), minlength=WORDS))
        shown = summed(loss / world)
        if step % 4 == 3:
            net.eval()
            with torch.no_grad():
                total = loss_of(net(valid[:, :-1]), valid[:, 1:])
            net.train()
            perplexity = math.exp(total / (valid[:, 1:] != 0).sum())
            if rank == 0:
                print(f"step {step} loss {shown.item():.6f} norm {norm:.6f} valid {perplexity:.6f}")
            history.append({"step": step, "perplexity": perplexity})
    if rank == 0:
        with open("history.json", "w") as file:
            json.dump(history, file)
        torch.save({"model": net.state_dict(), "seen": seen}, "model.pt")
    dist.destroy_process_group()


main()
