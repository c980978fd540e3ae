"""Puts softland into the HTTP libraries of the process, and takes it out again."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Sequence

from . import _http, _others

_lock = threading.RLock()


def _renew_lock() -> None:
    """Begins anew in a forked child: a thread that it lacks may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

# How to take out what was put in, by module.
_undo: dict[str, Callable[[], None]] = {}


def _find_own(client: Any, request: Any) -> Any:
    """Returns the policy of the transport that a client sends a request by, if it is softland's."""
    return getattr(client._transport_for_url(request.url), "_softland", None)


def _hook_httpx(lib: Any) -> Callable[[], None]:
    """Hooks the method of the clients behind which every transport lies."""
    sync, unsync = lib.Client._send_single_request, lib.AsyncClient._send_single_request

    def send_sync(self: Any, request: Any) -> Any:
        own = _find_own(self, request)
        return _http.govern_sync(lib, own, request, lambda sent: sync(self, sent))

    async def send_async(self: Any, request: Any) -> Any:
        own = _find_own(self, request)
        return await _http.govern_async(lib, own, request, lambda sent: unsync(self, sent))

    lib.Client._send_single_request = send_sync
    lib.AsyncClient._send_single_request = send_async

    def undo() -> None:
        # Who has hooked in after us stays.
        if lib.Client._send_single_request is send_sync:
            lib.Client._send_single_request = sync
        if lib.AsyncClient._send_single_request is send_async:
            lib.AsyncClient._send_single_request = unsync

    return undo


def _hook_aiohttp(lib: Any) -> Callable[[], None]:
    # It needs asyncio, which is not to be imported where nobody else does.
    return importlib.import_module("softland._aiohttp").hook_aiohttp(lib)  # type: ignore[no-any-return]


_HOOKS: dict[str, Callable[[Any], Callable[[], None]]] = {
    "httpx": _hook_httpx,
    "httpx2": _hook_httpx,
    "aiohttp.client": _hook_aiohttp,
    "botocore.httpsession": _others.hook_botocore,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Hooks libraries that are imported later."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _HOOKS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Loads a library, then hooks it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _hook(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_finder = _Finder()


def _hook(name: str) -> None:
    with _lock:
        if _finder in sys.meta_path and name not in _undo:
            _undo[name] = _HOOKS[name](sys.modules[name])


def install() -> None:
    """Hooks the libraries that are imported, now or later. Doing it twice changes nothing."""
    with _lock:
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        for name in _HOOKS:
            if sys.modules.get(name) is not None:
                _hook(name)


def uninstall() -> None:
    """Takes out what was put in."""
    with _lock:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        while _undo:
            _undo.popitem()[1]()
