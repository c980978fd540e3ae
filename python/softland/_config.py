"""Policies of a config file, `FILE.toml#NAME`. What a key or a price means is decided elsewhere."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Any

from . import _native


@dataclass
class Source:
    """A policy as it is named: a built-in one's name, or a config's keys and prices."""

    name: str | None = None
    is_configured: bool = False
    keys: dict[str, Any] = field(default_factory=dict)
    prices: list[tuple[str, dict[str, float]]] = field(default_factory=list)


def read_policy(policy: str | None) -> Source:
    """Reads a policy's name. `FILE.toml#NAME` reads the file."""
    if policy is not None and not isinstance(policy, str):
        raise TypeError(f'policy must be a name or "FILE.toml#NAME"; found {policy!r}')
    if policy is None or "#" not in policy:
        return Source(policy)
    path, _, name = policy.rpartition("#")
    config = _load(path)
    tables = config.get("policy", {})
    prices = _read_prices(path, config.get("price", []))
    _check(f"{path}: ", Source("default", False, {}, prices))
    if isinstance(tables, dict) and name in tables:
        keys = tables[name]
        if not isinstance(keys, dict):
            raise ValueError(f"{path}: [policy.{name}] must be a table with policy keys")
        source = Source(name, True, keys, prices)
        _check(f"{path}: [policy.{name}]: ", source)
        return source
    source = Source(name, False, {}, prices)
    known = ", ".join(sorted(tables)) if isinstance(tables, dict) and tables else "none"
    # A built-in policy, with the prices of the config.
    _check(f"{path} has no [policy.{name}]; it has {known}: ", source)
    return source


def _check(where: str, source: Source) -> None:
    """Raises ValueError, with the place in front, if the native part refuses what a config says."""
    try:
        _native.Settings(source.name, source.is_configured, source.keys, source.prices, [], False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}{error}") from error


def _load(path: str) -> dict[str, Any]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        toml: Any = importlib.import_module(name)
    except ImportError:
        raise ImportError(f"to read a config, this Python needs the package {name}") from None
    with open(path, "rb") as file:
        try:
            config: dict[str, Any] = toml.load(file)
        except toml.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from error
    return config


def _read_prices(path: str, rows: Any) -> list[tuple[str, dict[str, float]]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: price must be tables: [[price]]")
    prices = []
    for row in rows:
        model = row.get("model")
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"{path}: price.model is required: the model's name")
        rates = {key: value for key, value in row.items() if key != "model"}
        for key, value in rates.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{path}: price.{key} must be a number; found {value!r}")
        prices.append((model.strip(), {key: float(value) for key, value in rates.items()}))
    return prices
