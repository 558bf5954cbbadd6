"""Policies that are trained on minibatches of what an environment gave, as in PPO."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
np.random.seed(0)
torch.set_default_dtype(torch.float64)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 3), nn.Linear(4, 1)

    def evaluate(self, states, actions):
        chosen = torch.distributions.Categorical(logits=self.actor(states))
        return chosen.log_prob(actions), self.critic(states).squeeze(-1), chosen.entropy()


brain = Policy()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
states, actions = torch.randn(18, 4), torch.randint(0, 3, (18,))
gains, before = torch.randn(18), -torch.rand(18)
places = np.arange(18)
for epoch in range(2):
    np.random.shuffle(places)
    for start in range(0, 18, 8):
        taken = places[start : start + 8]
        likely, values, entropy = brain.evaluate(states[taken], actions[taken])
        ratio = (likely - before[taken]).exp()
        gain = gains[taken]
        first = torch.min(gain * ratio, gain * ratio.clamp(0.8, 1.2)).mean()
        second = ((values - gain) ** 2).mean()
        loss = second - first - 0.01 * entropy.mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
    print(f"{loss.item():.6f}")
"""

PLAYING = """\
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Player(nn.Module):
    def __init__(self):
        super().__init__()
        self.choice = nn.Linear(3, 2)
        self.worth = nn.Linear(3, 1)

    def play(self, seen, action=None):
        chances = Categorical(logits=self.choice(seen))
        if action is None:
            action = chances.sample()
        return action, chances.log_prob(action), chances.entropy(), self.worth(seen).flatten()


player = Player()
rule = torch.optim.Adam(player.parameters(), lr=0.01)
seen, taken, before, gained = (torch.zeros(21, *size) for size in ((3,), (), (), ()))
place = torch.randn(1, 3)
for game in range(2):
    for turn in range(21):
        with torch.no_grad():
            action, chance, _, _ = player.play(place)
        seen[turn], taken[turn], before[turn] = place[0], action[0], chance[0]
        place = 0.9 * place + 0.1 * (action - 0.5)
        gained[turn] = place.sum()
    order = torch.randperm(21)
    for start in range(0, 21, 6):
        part = order[start : start + 6]
        _, chance, surprise, worth = player.play(seen[part], taken.long()[part])
        ratio = (chance - before[part]).exp()
        better = gained[part] - gained[part].mean()
        loss = -(ratio * better).mean() - 0.01 * surprise.mean()
        loss = loss + (worth - gained[part]).pow(2).mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
    print(game, loss.item())
"""


def test_the_actions_of_a_minibatch_are_split_as_its_states_are(
    tmp_path: Path, trial: Trial
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


def test_a_method_that_gets_all_in_play_and_minibatches_in_training(trial: Trial) -> None:
    verdict = trial.verdict(PLAYING)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    converted = trial.converted(PLAYING)
    assert isinstance(converted, str)
    assert "player.play(place)" in converted
    assert (
        "player.play(dd.shard_batch(seen[part]), dd.shard_batch(taken.long()[part]))" in converted
    )
