"""What was recorded of the three protocols, one module each: the results of a request, what its
conversation says, and whether a response is an empty turn."""

from . import anthropic, chat, responses

BY_PATH = {one.PATH: one for one in (anthropic, chat, responses)}


def of(exchange):
    """The protocol of a request that asks a model for a turn; `None`: it asks for none."""
    path = exchange.path.split("?")[0]
    return BY_PATH.get(path) if exchange.method == "POST" else None
