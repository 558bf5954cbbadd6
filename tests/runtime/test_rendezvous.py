"""Ranks that start again meet each other, not what former ranks have left in torchrun's store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import TCPStore

from ddpify import runtime as dd
from ddpify.ports import free_port
from ddpify.runtime.rendezvous import meet, shared_store
from tests.runtime.ranks import launch


@pytest.fixture
def server() -> Any:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def client(server: Any) -> Any:
    return TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)


def start(server: Any, ranks: list[int], size: int, seconds: float) -> list[Any]:
    """What each rank gets: its store, or its error."""

    def one(rank: int) -> Any:
        try:
            return meet(client(server), rank, size, timedelta(seconds=seconds))
        except RuntimeError as error:
            return str(error)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, ranks))


def test_each_start_has_keys_of_its_own(server: Any) -> None:
    for attempt in range(3):
        stores = start(server, [0, 1, 2], 3, 60)
        assert not any(store.check(["address"]) for store in stores)
        stores[attempt].set("address", str(attempt))
        assert [store.get("address") for store in stores] == [str(attempt).encode()] * 3


def test_ranks_that_came_before_they_died_are_not_taken_for_new_ones(server: Any) -> None:
    start(server, [1, 2], 3, 0.1)
    for error in start(server, [0, 1], 3, 0.5):
        expected = "the ranks did not meet: rank 2 did not come to init() within 0.5 seconds"
        assert error.startswith(f"{expected}, ranks 0, 1 did; start the same script on every node")
    stores = start(server, [0, 1, 2], 3, 60)
    stores[1].set("address", "new")
    assert stores[0].get("address") == stores[2].get("address") == b"new"


def test_without_rank_0_the_others_say_so(server: Any) -> None:
    (error,) = start(server, [1], 2, 0.1)
    assert "rank 0 did not come to init() within 0.1 seconds" in error


def test_a_node_that_never_comes_is_named_by_its_ranks(server: Any) -> None:
    error, *_ = start(server, [0, 1, 2, 3, 9], 12, 0.5)
    assert "ranks 4 to 8, 10, 11 did not come" in error
    assert "ranks 0 to 3, 9 did" in error


def test_a_store_that_nobody_keeps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    with pytest.raises(RuntimeError, match=r"rank 0 cannot be reached at 127.0.0.1:\d+, as MASTER"):
        shared_store(1, timedelta(seconds=0.5))


@pytest.mark.parametrize(("absent", "seconds"), [(0, "1"), (2, "6")])
def test_without_torchrun_the_ranks_that_came_name_the_one_that_did_not(
    absent: int, seconds: str
) -> None:
    outcomes = launch(dd.rank, 3, env={"DDPIFY_TIMEOUT": seconds}, absent=absent)
    for place, outcome in enumerate(outcomes):
        if place == absent:
            continue
        assert outcome.code == 1
        last = outcome.stderr.splitlines()[-1]
        assert last.startswith(f"[rank {place}] RuntimeError: the ranks did not meet: ")
        named = "rank 0 cannot be reached" if absent == 0 else "rank 2 did not come to init()"
        assert named in last
        assert "start the same script on every node" in last
