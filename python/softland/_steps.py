"""The kinds of a step of a request, as `softland._native` gives them."""

SEND = 0  # (SEND, body, path, seconds left or None)
HEAD = 1  # (HEAD, status, headers)
ANSWER = 2  # (ANSWER, status, headers, body, failed)
READ = 3  # (READ, bytes for the client)
GIVE = 4  # (GIVE, bytes for the client)
END = 5  # (END, bytes for the client, broken)
WAIT = 6  # (WAIT,)
