"""How a command that starts other processes ends by a signal."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ddpify.cli.signals import exit_on_signals


def wait_for_signal(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_as_an_exception(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, exit_on_signals():
        wait_for_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_after_the_command_signals_do_what_they_did() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with exit_on_signals():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
