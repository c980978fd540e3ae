"""Errors of softland itself."""

import sys


class GovernorError(RuntimeError):
    """softland could not govern a request, and nothing was sent.

    Raised where a limit is set and cannot be held: because softland itself has failed, or because
    the request goes to a host that nobody has declared to be a provider. A limit that is *reached*
    is never an exception: then the model answers, or softland does.
    """


# The base errors of SDKs that pass their own errors on, and wrap all others as failures of the
# connection, which they would try again.
_BASES = (("anthropic", "AnthropicError"), ("openai", "OpenAIError"))
_made: dict[tuple[type, ...], type[GovernorError]] = {}


def make_error(message: str) -> GovernorError:
    """Returns a GovernorError that the SDKs of this process pass on as it is."""
    modules = ((sys.modules.get(module), name) for module, name in _BASES)
    found = (getattr(module, name, None) for module, name in modules)
    bases = tuple(base for base in found if isinstance(base, type))
    if not bases:
        return GovernorError(message)
    if bases not in _made:
        about = {
            "__module__": "softland",
            "__doc__": GovernorError.__doc__,
            # The class is made anew where it is unpickled, as in the parent of a pool's process.
            "__reduce__": lambda error: (make_error, error.args),
        }
        _made[bases] = type("GovernorError", (GovernorError, *bases), about)
    return _made[bases](message)
