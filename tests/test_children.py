"""Children that die, hang or eat memory cost their own call only."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


class _HangsInChild:
    """What a child does with it is what a hung import would do: it never comes to the call."""

    def __reduce__(self) -> tuple[Any, ...]:
        return time.sleep, (3600,)


def test_child_is_replaced_when_it_never_comes_to_the_call() -> None:
    children = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60, start_seconds=0.5))
    with pytest.raises(ChildFailure) as failure:
        children.run(repr, _HangsInChild(), wall_seconds=2)
    assert failure.value.reason == "died"
    assert children.run(_pid, wall_seconds=10) != os.getpid()
    children.close()


def test_call_fails_in_time_when_spawning_hangs() -> None:
    children = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60, start_seconds=0.1))
    hanging = children._spawner.submit(time.sleep, 2)
    with pytest.raises(ChildFailure) as failure:
        children.run(_pid, wall_seconds=10)
    assert not hanging.done()
    assert failure.value.reason == "died"
    children.close()


def test_lower_limits_stay_when_the_portal_runs_under_them() -> None:
    program = textwrap.dedent(
        """
        import resource
        from portal.children import ChildLimits, ChildPool
        from tests.test_children import _limits
        if __name__ == "__main__":
            resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
            resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
            pool = ChildPool(1, ChildLimits(memory_bytes=2**32, cpu_seconds=60))
            print(pool.run(_limits, wall_seconds=20))
            pool.close()
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(((2**31, 2**31), (50, 50)))


def _limits() -> tuple[tuple[int, int], tuple[int, int]]:
    return resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)


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


def test_call_is_told_closed_when_the_pool_closed_before() -> None:
    children = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60))
    children.close()
    with pytest.raises(ChildFailure) as failure:
        children.run(_pid, wall_seconds=10)
    assert failure.value.reason == "closed"


@pytest.mark.parametrize("stage", ["_spawned", "_schedule"])
def test_call_is_told_closed_when_the_pool_closes_while_it_starts(stage: str) -> None:
    class Interrupted(ChildPool):
        """Closed at the worst moment: just before or after the child is there."""

    def closing(self: ChildPool, *args: Any) -> Any:
        if stage == "_spawned":
            self.close()
            return getattr(ChildPool, stage)(self, *args)
        done = getattr(ChildPool, stage)(self, *args)
        self.close()
        return done

    setattr(Interrupted, stage, closing)
    children = Interrupted(1, ChildLimits(memory_bytes=2**30, cpu_seconds=60))
    with pytest.raises(ChildFailure) as failure:
        children.run(_pid, wall_seconds=10)
    assert failure.value.reason == "closed"
