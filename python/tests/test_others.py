"""Requests that are watched and not governed."""

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

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


@pytest.mark.parametrize(
    "host",
    ["http://127.0.0.1:5399", "https://bedrock-runtime.us-east-1.api.aws"]
    + ["https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com"],
)
def test_a_model_of_bedrock_is_known_at_any_host_of_botocore(host):
    softland.install(cost_limit_usd=1)
    for end in ["converse", "converse-stream", "invoke", "invoke-with-response-stream"]:
        with pytest.raises(softland.GovernorError, match="a limit of money holds"):
            _others.check("botocore", "POST", f"{host}/model/a.b%3A0/{end}", is_of_aws=True)
    for path in ["/2015-03-31/functions/x/invoke", "/model/x/async-invoke", "/model/x/y/invoke"]:
        _others.check("botocore", "POST", host + path, is_of_aws=True)


@pytest.mark.parametrize("stops", [False, True])
def test_botocore_is_counted_or_stopped_where_it_sends(sim, stops):
    session = botocore.session.Session()
    server = sim("reader")
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
    retries = Config(retries={"max_attempts": 0})
    client = session.create_client("bedrock-runtime", endpoint_url=server.url, config=retries, **keys)
    softland.install(hosts=[server.host], **({"cost_limit_usd": 1} if stops else {"tool_calls_limit": 3}))
    messages = [{"role": "user", "content": [{"text": "Hello"}]}]
    with softland.run() as run:
        with pytest.raises(softland.GovernorError if stops else ClientError):
            client.converse(modelId="x", messages=messages)
    assert run.ungoverned == (0 if stops else 1)
    softland.uninstall()
    with pytest.raises(ClientError):
        client.converse(modelId="x", messages=messages)
