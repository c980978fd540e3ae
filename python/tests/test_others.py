"""Libraries that are watched and not governed."""

import asyncio
import sys
import types

import pytest

import softland
from softland import _others

CHAT = "https://api.openai.com/v1/chat/completions"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/model/x/converse"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("url", [CHAT, BEDROCK, GEMINI])
def test_a_request_to_a_model_is_counted_or_refused(url, caplog):
    _others.check("aiohttp", "POST", url)  # nothing is installed
    softland.install(tool_calls_limit=3)
    with softland.run() as run:
        _others.check("aiohttp", "POST", url)
        _others.check("aiohttp", "POST", url)
        _others.check("aiohttp", "GET", url)
        _others.check("aiohttp", "POST", "https://api.openai.com/v1/files")
        _others.check("aiohttp", "POST", "https://example.org/v1/chat/completions")
    assert run.ungoverned == 2
    assert len([record for record in caplog.records if record.name == "softland"]) <= 1
    softland.install(cost_limit_usd=1)
    with pytest.raises(softland.GovernorError, match="a limit of money holds"):
        _others.check("aiohttp", "POST", url)
    softland.install(cost_limit_usd=1, allow_unmetered=True)
    _others.check("aiohttp", "POST", url)


def test_the_libraries_are_hooked_where_they_send(monkeypatch):
    sent = []

    class ClientSession:
        async def _request(self, method, str_or_url, **more):
            sent.append(("aiohttp", method, str_or_url))

    class URLLib3Session:
        def send(self, request):
            sent.append(("botocore", request.method, request.url))

    for name, kind in (("aiohttp.client", ClientSession), ("botocore.httpsession", URLLib3Session)):
        module = types.ModuleType(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)
    softland.install(tool_calls_limit=3)
    request = types.SimpleNamespace(method="POST", url=BEDROCK)
    with softland.run() as run:
        asyncio.run(ClientSession()._request("post", CHAT, json={}))
        URLLib3Session().send(request)
    assert run.ungoverned == 2 and [library for library, *_ in sent] == ["aiohttp", "botocore"]
    softland.install(cost_limit_usd=1)
    with pytest.raises(softland.GovernorError):
        URLLib3Session().send(request)
    softland.uninstall()
    URLLib3Session().send(request)
    assert len(sent) == 3
