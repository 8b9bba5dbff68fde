"""Children that die, hang or eat memory cost their own call only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from portal.children import ChildFailure, ChildLimits, ChildPool


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    children = ChildPool(2, ChildLimits(memory_bytes=2**30, cpu_seconds=2, calls=50))
    yield children
    children.close()


def _pid() -> int:
    return os.getpid()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _spin() -> None:
    while True:
        pass


def _eat() -> int:
    return len(bytearray(2**31))


def _refuse() -> None:
    raise ValueError("no")


def test_call_fails_alone_when_its_child_dies(pool: ChildPool) -> None:
    with pytest.raises(ChildFailure) as failure:
        pool.run(_die, wall_seconds=10)
    assert failure.value.reason == "died"
    assert pool.run(_pid, wall_seconds=10) != os.getpid()


def test_call_times_out_when_it_sleeps(pool: ChildPool) -> None:
    with pytest.raises(ChildFailure) as failure:
        pool.run(time.sleep, 60, wall_seconds=0.5)
    assert failure.value.reason == "timeout"
    assert pool.run(_pid, wall_seconds=10)


def test_call_times_out_when_it_burns_processor_time(pool: ChildPool) -> None:
    with pytest.raises(ChildFailure) as failure:
        pool.run(_spin, wall_seconds=60)
    assert failure.value.reason == "timeout"


def test_call_fails_alone_when_it_eats_memory(pool: ChildPool) -> None:
    with pytest.raises(ChildFailure) as failure:
        pool.run(_eat, wall_seconds=10)
    assert failure.value.reason == "memory"
    assert pool.run(_pid, wall_seconds=10)


def test_own_exception_comes_back_when_the_function_raises(pool: ChildPool) -> None:
    with pytest.raises(ValueError, match="no"):
        pool.run(_refuse, wall_seconds=10)


def test_next_calls_succeed_when_idle_children_are_killed(pool: ChildPool) -> None:
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: pool.run(time.sleep, 0.2, wall_seconds=10), range(2)))
        for child in psutil.Process().children():
            if "spawn_main" in " ".join(child.cmdline()):
                child.kill()
        pids = set(threads.map(lambda _: pool.run(_pid, wall_seconds=10), range(8)))
    assert os.getpid() not in pids


def test_children_die_when_the_parent_is_killed() -> None:
    program = textwrap.dedent(
        """
        import sys, time
        from portal.children import ChildLimits, ChildPool
        from tests.test_children import _pid
        if __name__ == "__main__":
            pool = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60))
            print(pool.run(_pid, wall_seconds=20), flush=True)
            pool.run(time.sleep, 60, wall_seconds=60)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    psutil.wait_procs([child], timeout=5)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_calls_under_way_end_when_the_pool_closes() -> None:
    children = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60))
    children.run(_pid, wall_seconds=10)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(children.run, time.sleep, 60, wall_seconds=60)
        time.sleep(0.3)
        children.close()
        with pytest.raises(ChildFailure):
            call.result(timeout=20)
