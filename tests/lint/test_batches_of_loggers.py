"""Batches that come through a logger, which is reduced later, are a rank's own."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import METER, SETUPS

LOGGER = (
    "\n"
    + METER
    + """\


class Logger:
    def __init__(self):
        self.meters = {{"loss": Meter()}}

    def update(self, **told):
        for name, value in told.items():
            self.meters[name].update(value)

    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()

    def log_every(self, batches, often):
        took, begun = Meter(), time.time()
        for number, batch in enumerate(batches):
            yield batch
            took.update(time.time() - begun)
            if number % often == 0:
                print(number)


def reduced(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / world_size


class Boxes:
    def synchronize(self):
        return gathered([1])


def gathered(boxes):
    every = [None for _ in range(world_size)]
    dist.all_gather_object(every, boxes)
    return every


def train(batches, epoch):
    {}
    for x, y in logger.log_every(batches, 10):
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        {}
        loss.backward()
        optimizer.step()
        logger.update(loss=loss.item())
    logger.synchronize()
    return {{name: meter.total / meter.count for name, meter in logger.meters.items()}}


MADE
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    stats = train(loader, epoch)
    Boxes().synchronize()
    {}
"""
)
EPOCHS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in logger.log_every(loader, 10):
        loss = criterion(model(x.to(device)), y.to(device))
        if loss.item() > 10:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.update(loss=loss.item())
    logger.synchronize()
"""
MADE = {
    "in each epoch": ("", "logger = Logger()"),
    "once": ("kept = Logger()", "logger = kept"),
    "by who trains": ("kept = {}\nkept['logger'] = Logger()", "logger = kept['logger']"),
}
RATE = 'for group in optimizer.param_groups: group["lr"] = 0.1 * min(1.0, {})'
IN_STEP = {
    "a step that is left out": ("DDP402", "if {} > 10: continue"),
    "an end": ("DDP402", "if {} > 10: break"),
    "a collective": ("DDP401 DDP402", "if {} > 10: dist.barrier()"),
    "a learning rate": ("DDP406", RATE),
}


def _codes(lint_text: Lint, made: str, in_step: str, after: str) -> set[str]:
    before, inside = MADE[made]
    text = SETUPS["distributed"] + LOGGER.format(inside, in_step, after).replace("MADE", before)
    return {one.code for one in lint_text(text)}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("name", IN_STEP)
def test_the_loss_of_a_step_is_a_ranks_own(name: str, made: str, lint_text: Lint) -> None:
    codes, act = IN_STEP[name]
    assert _codes(lint_text, made, act.format("loss.item()"), "pass") & set(codes.split())
    right = _codes(lint_text, made, act.format("reduced(loss).item()"), "pass")
    assert not right & set(codes.split())


@pytest.mark.parametrize("made", MADE)
def test_what_the_logger_has_reduced_is_that_of_all_ranks(made: str, lint_text: Lint) -> None:
    stop = 'if stats["loss"] < 0.1: break'
    assert "DDP402" not in _codes(lint_text, made, "pass", stop)


def test_a_logger_that_is_reduced_in_each_epoch(lint_text: Lint) -> None:
    classes = LOGGER[: LOGGER.index("class Boxes")].replace("{{", "{").replace("}}", "}")
    text = SETUPS["distributed"] + classes + "logger = Logger()\n" + EPOCHS
    assert "DDP402" in {one.code for one in lint_text(text)}
