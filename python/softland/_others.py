"""Requests that softland sees and does not change: those of botocore, and some of aiohttp.

A request to a model is counted as not governed. Under a limit of money it is refused, since nobody
would count what it costs.
"""

from __future__ import annotations

import re
from typing import Any, Callable
from urllib.parse import urlsplit

from . import _native, _route
from ._state import inside, process

# Paths of Bedrock's runtime that ask a model (docs.aws.amazon.com/bedrock/latest/APIReference).
_BEDROCK = ("/invoke", "/invoke-with-response-stream", "/converse", "/converse-stream")
# The same within a request that is known to be one of AWS. Its host may be an endpoint of a network's own.
_OF_AWS = re.compile(r"/model/[^/]+(?:" + "|".join(_BEDROCK) + r")\Z")
# Ends of paths of the Gemini API that ask a model (ai.google.dev/api/generate-content).
_GEMINI = (":generateContent", ":streamGenerateContent")


def check(why: str, method: str, url: str, is_of_aws: bool = False) -> None:
    """Counts a request to a model, or refuses it: then GovernorError is raised.

    `why` is the reason for which it is not governed. `is_of_aws` says that its library asks services
    of AWS alone, at whatever host.
    """
    policy = None if inside.get() else _route.choose_policy(None)
    if policy is None or method != "POST":
        return
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), parts.path
    port = _route.find_port(parts.scheme, parts.port)
    if _route.write_address(host, port) in process.gateways:
        return
    named = _route.is_named(None, policy, host, port)
    if _asks_model(host, path, named) or is_of_aws and _OF_AWS.search(path):
        _route.count_ungoverned(policy, f"POST {path} to {host}: {why}")


def _asks_model(host: str, path: str, named: bool) -> bool:
    if named:
        return _native.find_endpoint(path) is not None or path.endswith((*_BEDROCK, *_GEMINI))
    if _native.is_provider_host(host):
        return _native.find_endpoint(path) is not None
    if host.startswith("bedrock-runtime") and host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return path.endswith(_BEDROCK)
    return host == "generativelanguage.googleapis.com" and path.endswith(_GEMINI)


def hook_botocore(lib: Any) -> Callable[[], None]:
    """Hooks what sends the requests of botocore, which are signed by then."""
    session = lib.URLLib3Session
    plain = session.send

    def send(self: Any, request: Any) -> Any:
        check("requests of botocore are signed by then", request.method.upper(), request.url, is_of_aws=True)
        return plain(self, request)

    session.send = send

    def undo() -> None:
        if session.send is send:
            session.send = plain

    return undo
