-- Requests that were sent and have not ended, each with the most that it can cost. The row goes when
-- the request's own is written. What a process that died leaves here is booked at the next start.
CREATE TABLE open_requests (
    request TEXT PRIMARY KEY,
    run TEXT,
    at INTEGER NOT NULL,
    session TEXT,
    turn INTEGER NOT NULL,
    upstream TEXT NOT NULL,
    path TEXT NOT NULL,
    model TEXT,
    rung TEXT,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER,
    remark TEXT
) STRICT, WITHOUT ROWID;
