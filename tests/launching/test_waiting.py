"""Commands for several hosts, with a shell in place of ssh: who fails, and who goes on."""

from __future__ import annotations

import time

import pytest

from ddpify.launching.waiting import over_all


def waited(*scripts: str, least: int) -> int:
    hosts = [f"n{number}" for number in range(len(scripts))]
    return over_all([["/bin/sh", "-c", script] for script in scripts], hosts, least)


def test_all_end_well() -> None:
    assert waited("true", "sleep 0.2", least=2) == 0


def test_the_others_are_ended(capfd: pytest.CaptureFixture[str]) -> None:
    begin = time.monotonic()
    assert waited("exec sleep 60", "exit 3", least=2) == 3
    assert time.monotonic() - begin < 20
    expected = "ddpify: n1 ended with exit code 3; the others are ended\n"
    assert capfd.readouterr().err == expected


def test_enough_hosts_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    assert waited("sleep 0.5", "exit 255", least=1) == 0
    expected = "n1 ended with exit code 255 (ssh itself fails with 255); 1 host(s) go on"
    assert expected in capfd.readouterr().err


def test_too_few_are_left() -> None:
    assert waited("sleep 0.5; exit 4", "kill -9 $$", "sleep 0.2; exit 5", least=1) == 137
