"""Warm child processes with memory, CPU and wall limits: the one mechanism behind the sandbox and the embedded engine.

Children are spawned, never forked, die with the portal and run niced. Each is a Pebble pool of one worker: in a
pool of several, a child killed while idle dies holding their common queue lock and the others hang for good.
A child that fails is thrown away with its pool, so a half-sent answer cannot reach a later call.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from pebble import ProcessExpired, ProcessFuture, ProcessPool

Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1


class ChildFailure(Exception):
    """The child did not answer: it died, was too slow, ran out of memory, or the pool was closed."""

    def __init__(self, reason: Literal["died", "timeout", "memory", "closed"]) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class ChildLimits:
    """What one child may use.

    `memory_bytes` bounds its address space, `cpu_seconds` each call's processor time, `calls` how many calls it
    serves before a fresh one takes its place. `environ` is set before the child imports anything heavy.
    `start_seconds` is what a child may take beyond a call's own time to be spawned, import and take the call.
    Limits that the portal itself runs under (`ulimit`) are kept where they are lower.
    """

    memory_bytes: int
    cpu_seconds: int
    calls: int = 200
    niceness: int = 5
    start_seconds: float = 60
    environ: Mapping[str, str] = field(default_factory=dict)


class ChildPool:
    """`workers` warm children. Safe to share between threads; `run` blocks its thread, not the event loop."""

    def __init__(self, workers: int, limits: ChildLimits) -> None:
        self.workers = workers
        self._limits = limits
        self._closed = False
        # PR_SET_PDEATHSIG fires when the *thread* that spawned the child ends, so one lasting thread spawns.
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="child-spawner")
        self._free: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._children = [_Child() for _ in range(workers)]
        for child in self._children:
            self._free.put(child)

    def run(self, function: Callable[..., Result], *args: Any, wall_seconds: float) -> Result:
        """Calls a module-level function in a free child and returns what it returns.

        Waits for a free child first; `wall_seconds` counts from the call's start. Raises ChildFailure, or
        whatever the function raised (which must pickle, like its arguments and its result).
        """
        child = self._free.get()
        try:
            return self._call(child, function, args, wall_seconds)
        finally:
            self._free.put(child)

    def close(self) -> None:
        """Kills all children; calls under way raise ChildFailure('closed')."""
        self._closed = True
        for child in self._children:
            if child.call is not None:
                child.call.cancel()  # type: ignore[no-untyped-call]  # Pebble kills the child of a cancelled call
            self._discard(child)
        self._spawner.shutdown(wait=True)

    def _call(
        self, child: _Child, function: Callable[..., Result], args: tuple[Any, ...], wall_seconds: float
    ) -> Result:
        for is_last in (False, True):
            try:
                return self._answer(child, function, args, wall_seconds)
            except CancelledError as error:
                raise ChildFailure("closed") from error
            except FutureTimeout as error:
                self._discard(child)
                raise ChildFailure("timeout") from error
            except ProcessExpired as error:
                self._discard(child)
                raise ChildFailure(self._reason(error.exitcode)) from error
            except MemoryError as error:
                self._discard(child)
                raise ChildFailure("memory") from error
            except BrokenProcessPool as error:  # died while idle, between two calls, or never took the call
                self._discard(child)
                if is_last or self._closed:
                    raise ChildFailure("closed" if self._closed else "died") from error
        raise AssertionError("the second attempt returns or raises")

    def _answer(
        self, child: _Child, function: Callable[..., Result], args: tuple[Any, ...], wall_seconds: float
    ) -> Result:
        call = child.call = self._schedule(child, function, args, wall_seconds)
        if self._closed:  # since `_started` looked: `close` did not see this call
            call.cancel()  # type: ignore[no-untyped-call]
        try:
            return cast(Result, call.result(timeout=self._limits.start_seconds + wall_seconds))
        except FutureTimeout as error:
            if call.running() or call.done():
                raise
            raise BrokenProcessPool from error  # Pebble counts a call's time only from when the child has taken it

    def _schedule(
        self, child: _Child, function: Callable[..., Result], args: tuple[Any, ...], wall_seconds: float
    ) -> ProcessFuture[Result]:
        pool = self._started(child)
        try:
            return pool.schedule(_limited, args=(self._limits.cpu_seconds, function, args), timeout=wall_seconds)
        except RuntimeError as error:  # Pebble's word for a pool whose child died since `_started` looked
            raise BrokenProcessPool from error

    def _reason(self, exitcode: int | None) -> Literal["died", "timeout", "closed"]:
        if self._closed:
            return "closed"
        return "timeout" if exitcode == -signal.SIGXCPU else "died"

    def _started(self, child: _Child) -> ProcessPool:
        if self._closed:
            raise ChildFailure("closed")
        if child.pool is None or not child.pool.active:
            self._discard(child)
            child.pool = self._spawned()
            if self._closed:  # meanwhile: `close` did not see this pool
                self._discard(child)
                raise ChildFailure("closed")
        return child.pool

    def _spawned(self) -> ProcessPool:
        try:
            spawning = self._spawner.submit(_new_pool, self._limits)
        except RuntimeError as error:  # the executor was shut down
            raise ChildFailure("closed") from error
        try:
            return spawning.result(timeout=self._limits.start_seconds)
        except FutureTimeout as error:
            spawning.add_done_callback(_stop_late)
            raise BrokenProcessPool from error

    def _discard(self, child: _Child) -> None:
        pool, child.pool = child.pool, None
        if pool is not None:
            _stop(pool)


@dataclass
class _Child:
    pool: ProcessPool | None = None
    call: ProcessFuture[Any] | None = None


def _stop(pool: ProcessPool) -> None:
    pool.stop()  # type: ignore[no-untyped-call]
    threading.Thread(target=pool.join, daemon=True).start()


def _stop_late(spawning: Future[ProcessPool]) -> None:
    if spawning.exception() is None:
        _stop(spawning.result())


def _new_pool(limits: ChildLimits) -> ProcessPool:
    pool = ProcessPool(
        max_workers=1,
        max_tasks=limits.calls,
        initializer=_prepare,
        initargs=(os.getpid(), limits),
        context=multiprocessing.get_context("spawn"),
    )
    if not pool.active:  # the question starts it
        raise ChildFailure("died")
    return pool


def _prepare(parent_pid: int, limits: ChildLimits) -> None:
    os.environ.update(limits.environ)
    _die_with(parent_pid)
    os.nice(limits.niceness)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS refuses or ignores it
        memory_bytes = _within_hard_limit(resource.RLIMIT_AS, limits.memory_bytes)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _die_with(parent_pid: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:
            os._exit(1)
    else:
        threading.Thread(target=_watch_parent, args=(parent_pid,), daemon=True).start()


def _watch_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1)
    os._exit(1)


def _limited(cpu_seconds: int, function: Callable[..., Result], args: tuple[Any, ...]) -> Result:
    used = resource.getrusage(resource.RUSAGE_SELF)
    wanted = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (_within_hard_limit(resource.RLIMIT_CPU, wanted), hard))
    return function(*args)


def _within_hard_limit(kind: int, wanted: int) -> int:
    _, hard = resource.getrlimit(kind)  # to ask for more is refused
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
