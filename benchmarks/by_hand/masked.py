"""A language model of padded texts, whose loss is a mean over the tokens that are there."""

import json
import math

import torch
from torch import nn

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


def main():
    """Train for fourteen rounds."""
    torch.manual_seed(0)
    train, valid = texts(80), texts(24)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / 3) * (1 + math.cos(math.pi * at / ROUNDS)) / 2
    )
    draw = torch.Generator().manual_seed(2)
    seen = torch.zeros(WORDS)
    history = []
    for step in range(ROUNDS):
        batch = train[torch.randint(len(train), (16,), generator=draw)]
        words, following = batch[:, :-1], batch[:, 1:]
        count = (following != 0).sum()
        loss = loss_of(model(words), following) / count
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        seen += torch.bincount(following.flatten(), minlength=WORDS)
        if step % 4 == 3:
            model.eval()
            with torch.no_grad():
                total = loss_of(model(valid[:, :-1]), valid[:, 1:])
            model.train()
            perplexity = math.exp(total / (valid[:, 1:] != 0).sum())
            print(f"step {step} loss {loss.item():.6f} norm {norm:.6f} valid {perplexity:.6f}")
            history.append({"step": step, "perplexity": perplexity})
    with open("history.json", "w") as file:
        json.dump(history, file)
    torch.save({"model": model.state_dict(), "seen": seen}, "model.pt")


main()
