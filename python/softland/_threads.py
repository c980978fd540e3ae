"""Carries the open run into threads, which begin with no context of their own."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from typing import Any

from ._state import current_run, find_run

_lock = threading.Lock()
_done = False


def carry_runs() -> None:
    """From now on, threads and work for pools belong to the run in which they were begun."""
    global _done
    with _lock:
        if _done:
            return
        _done = True
    start, submit = threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_carrying(self: Any) -> None:
        here, own = find_run(), self.__dict__.get("run")
        # A thread that was started already is refused by `start()`.
        if here is None or self.ident is not None:
            return start(self)
        run = self.run

        def run_carrying() -> None:
            _restore(self, own)
            current_run.set(here)
            run()

        # On the thread itself: its class may have a `run()` of its own.
        self.run = run_carrying
        try:
            start(self)
        except BaseException:
            _restore(self, own)
            raise

    @functools.wraps(submit)  # type: ignore[arg-type]
    def submit_carrying(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, _carry(find_run(), fn), *args, **kwargs)

    threading.Thread.start = start_carrying  # type: ignore[method-assign]
    concurrent.futures.ThreadPoolExecutor.submit = submit_carrying  # type: ignore[method-assign]


def _restore(thread: Any, own: Any) -> None:
    """Gives a thread back the `run()` that was set on it, or the one of its class."""
    if own is None:
        thread.__dict__.pop("run", None)
    else:
        thread.run = own


def _carry(run: Any, fn: Any) -> Any:
    """Returns a function that does its work in the run in which it was submitted, or in none."""

    @functools.wraps(fn, updated=())
    def carried(*args: Any, **kwargs: Any) -> Any:
        # A pool's thread may have begun in another run, so none is set as well.
        token = current_run.set(run)
        try:
            return fn(*args, **kwargs)
        finally:
            current_run.reset(token)

    return carried
