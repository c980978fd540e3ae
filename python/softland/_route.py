"""What is done with a request: governed, passed, refused. Nothing is sent here."""

from __future__ import annotations

import json
from typing import Any

from . import _native
from ._errors import GovernorError
from ._state import Policy, find_run, log, process

GOVERN, PASS, NAME = "govern", "pass", "name"


def choose_policy(own: Policy | None) -> Policy | None:
    """Returns the policy of a request: its run's, else its client's, else the installed one."""
    run = find_run()
    if run is not None and run.policy is not None:
        return run.policy
    return own if own is not None else process.default


def choose_way(policy: Policy, method: str, host: str, port: int | None, path: str) -> str | None:
    """Returns what to do with a request by its address; None if its body has to be seen for that."""
    if method != "POST":
        return PASS
    address = f"{host}:{port}" if port is not None else host
    if address in process.gateways:
        return NAME
    named = host in policy.hosts or address in policy.hosts
    if _native.find_endpoint(path) is None:
        # A refusal may be due: what the request costs is not counted.
        return GOVERN if (named or _native.is_provider_host(host)) else PASS
    if named or _native.is_provider_host(host):
        return GOVERN
    return None


def check_unknown(policy: Policy, host: str, port: int | None, path: str, body: bytes) -> None:
    """Notes a request of a governed API to a host that nobody has named.

    Raises GovernorError if a limit of money holds.
    """
    if not _speaks_to_model(body):
        return
    address = f"{host}:{port}" if port is not None else host
    what = f'POST {path} to {address}, which is no known provider: hosts=["{address}"] governs it'
    if policy.limits_money and not policy.allow_unmetered:
        raise GovernorError(
            f"a limit of money holds, and softland would not count {what}; "
            "allow_unmetered=True lets it pass"
        )
    run = find_run()
    if run is not None:
        run.count_ungoverned()
    if address not in process.warned:
        process.warned.add(address)
        log.warning("softland does not govern %s", what)


def _speaks_to_model(body: bytes) -> bool:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and "model" in value and ("messages" in value or "input" in value)


def note_gateway(host: str, port: int | None) -> None:
    """Notes that a host is a gateway of softland, which governs by itself."""
    process.gateways.add(f"{host}:{port}" if port is not None else host)
