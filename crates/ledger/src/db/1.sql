-- Times are milliseconds since 1970, money is whole nano-dollars (NULL: not known).

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    session TEXT,
    agent TEXT,
    continues TEXT,
    model TEXT,
    policy TEXT,
    client TEXT,
    started INTEGER NOT NULL,
    last INTEGER NOT NULL,
    met INTEGER NOT NULL,           -- its beginning was recorded
    next_seq INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    tool_calls INTEGER,             -- known once it has ended
    requests INTEGER NOT NULL,
    input INTEGER NOT NULL,         -- until it has ended, sums of its requests
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost INTEGER,
    unpriced INTEGER NOT NULL,      -- requests without a known price
    ended INTEGER,
    end_seq INTEGER,                -- what has a larger number came after the end
    outcome TEXT,
    reason TEXT,
    local INTEGER,
    ending TEXT                     -- outcome, reason, rung, limit, value, remaining: JSON
) STRICT;

CREATE INDEX runs_by_start ON runs (started);

-- With `requests`, the lines of the event log: each number of a run is in one of the two.
CREATE TABLE events (
    run_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    event TEXT NOT NULL,
    fields TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    run_id INTEGER NOT NULL,        -- 0: of no run
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    request TEXT NOT NULL,
    session TEXT,
    turn INTEGER NOT NULL,
    upstream TEXT NOT NULL,
    path TEXT NOT NULL,
    model TEXT,
    rung TEXT,
    status INTEGER,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost INTEGER,
    ms INTEGER NOT NULL,
    remark TEXT,
    content_digest TEXT,
    content_bytes INTEGER,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- What was sent, where whole contents are kept.
CREATE TABLE contents (
    run_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT;

-- Of the last batch, the runs with their first number: its lines may have missed the event log.
CREATE TABLE unlogged (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    runs TEXT NOT NULL
) STRICT;
INSERT INTO unlogged VALUES (1, '{}');
