"""Errors of softland itself."""


class GovernorError(RuntimeError):
    """softland could not govern a request, and nothing was sent.

    Raised where a limit is set and cannot be held: because softland itself has failed, or because
    the request goes to a host that nobody has declared to be a provider. A limit that is *reached*
    is never an exception: then the model answers, or softland does.
    """
