"""What is done with a request: governed, passed, refused. Nothing is sent here."""

from __future__ import annotations

import json
from typing import Any

from . import _native
from ._errors import make_error
from ._state import Policy, find_run, log, process

GOVERN, PASS, NAME = "govern", "pass", "name"
# Different warnings that are given at most.
_MOST_WARNINGS = 1000
# The ports of URLs that have none.
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Ends of paths that count tokens, which costs nothing.
_COUNTS = ("/count_tokens", "/input_tokens")


def choose_policy(own: Policy | None) -> Policy | None:
    """Returns the policy of a request: its run's, else its client's, else the installed one.

    What the first of them does not say, the next one says.
    """
    run = find_run()
    base = process.default if own is None else own.over(process.default)
    if run is None or run.policy is None:
        return base
    of_run: Policy = run.policy.over(base)
    return of_run


def policies_around(own: Policy | None) -> list[tuple[str, Policy | None]]:
    """Returns the names and the policies of the runs around the open one, the innermost first."""
    run = find_run()
    if run is None:
        return []
    base = process.default if own is None else own.over(process.default)
    return [(one.id, base if one.policy is None else one.policy.over(base)) for one in run.around]


def find_money_limit(policy: Policy, own: Policy | None) -> Policy:
    """Returns the policy whose limit of money holds for a request: its own, or that of a run around."""
    if not (policy.limits_money or policy.allow_unmetered):
        for _, around in policies_around(own):
            if around is not None and around.limits_money:
                return around
    return policy


def raises(policy: Policy, own: Policy | None) -> bool:
    """Returns true if a request is not sent when softland itself fails."""
    if policy.on_failure is not None or policy.limits:
        return policy.raises
    return any(around is not None and around.limits for _, around in policies_around(own))


def is_named(own: Policy | None, policy: Policy, host: str, port: int | None) -> bool:
    """Returns true if `hosts=` names a host: of the run, of the client, or of `install()`."""
    host = f"[{host}]" if ":" in host else host
    address = f"{host}:{port}"
    for named in (policy, own, process.default):
        if named is not None and (host in named.hosts or address in named.hosts):
            return True
    return False


def write_address(host: str, port: int | None) -> str:
    """Returns the address of a host, with its port if that is not one of HTTP's own."""
    host = f"[{host}]" if ":" in host else host
    return host if port in (None, *_DEFAULT_PORTS.values()) else f"{host}:{port}"


def find_port(scheme: str, port: int | None) -> int | None:
    """Returns the port of a URL, also where the URL does not say it."""
    return _DEFAULT_PORTS.get(scheme) if port is None else port


def choose_way(
    own: Policy | None, policy: Policy, method: str, host: str, port: int | None, path: str
) -> str | None:
    """Returns what to do with a request by its address; None if its body has to be seen for that."""
    if method != "POST":
        return PASS
    if write_address(host, port) in process.gateways:
        return NAME
    named = is_named(own, policy, host, port)
    if _native.find_endpoint(path) is None:
        # A refusal may be due: what the request costs is not counted.
        return GOVERN if (named or _native.is_provider_host(host)) else PASS
    if named or _native.is_provider_host(host):
        return GOVERN
    return None


def check_unknown(
    policy: Policy, own: Policy | None, host: str, port: int | None, path: str, body: bytes
) -> None:
    """Notes a request of a governed API to a host that nobody has named.

    Raises GovernorError if a limit of money holds.
    """
    if path.endswith(_COUNTS) or not _speaks_to_model(body):
        return
    address = write_address(host, port)
    what = f'POST {path} to {address}, which is no known provider: hosts=["{address}"] governs it'
    count_ungoverned(policy, what, own)


def count_ungoverned(policy: Policy, what: str, own: Policy | None = None) -> None:
    """Counts a request that is not governed, and warns of it once.

    Raises GovernorError if a limit of money holds.
    """
    limit = find_money_limit(policy, own)
    if limit.limits_money and not limit.allow_unmetered:
        raise make_error(
            f"a limit of money holds, and softland would not count {what}; "
            "allow_unmetered=True lets it pass"
        )
    run = find_run()
    if run is not None:
        run.count_ungoverned()
    if what not in process.warned and len(process.warned) < _MOST_WARNINGS:
        process.warned.add(what)
        log.warning("softland does not govern %s", what)


def _speaks_to_model(body: bytes) -> bool:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and "model" in value and ("messages" in value or "input" in value)


def note_gateway(host: str, port: int | None) -> None:
    """Notes that a host is a gateway of softland, which governs by itself."""
    process.gateways.add(write_address(host, port))
    run = find_run()
    if run is not None:
        run.note_gateway()
