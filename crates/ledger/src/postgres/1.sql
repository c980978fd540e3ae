-- The ledger, version 1. Times are milliseconds since 1970, money is whole nano-dollars (NULL: not
-- known). Texts are compared byte by byte, as in a SQLite file.

CREATE SEQUENCE softland_ledger_run_ids;
CREATE SEQUENCE softland_ledger_loose_seqs MINVALUE 0;

CREATE TABLE softland_ledger_runs (
  id bigint PRIMARY KEY, run text COLLATE "C" NOT NULL UNIQUE, session text COLLATE "C",
  agent text COLLATE "C", continues text COLLATE "C", model text COLLATE "C", policy text COLLATE "C",
  client text COLLATE "C", started bigint NOT NULL, last bigint NOT NULL,
  met bigint NOT NULL,            -- its beginning was recorded
  next_seq bigint NOT NULL, turns bigint NOT NULL,
  tool_calls bigint,              -- known once it has ended
  requests bigint NOT NULL,
  input bigint NOT NULL,          -- until it has ended, sums of its requests
  output bigint NOT NULL, cache_read bigint NOT NULL, cache_write bigint NOT NULL, cost bigint,
  unpriced bigint NOT NULL,       -- requests without a known price
  ended bigint,
  end_seq bigint,                 -- what has a larger number came after the end
  outcome text COLLATE "C", reason text COLLATE "C", local bigint,
  ending text COLLATE "C",        -- outcome, reason, rung, limit, value, remaining: JSON
  name text COLLATE "C",          -- what the client calls it: several may have one
  observed bigint NOT NULL,       -- its policy only observes
  key text COLLATE "C", account text COLLATE "C");
CREATE INDEX ON softland_ledger_runs (started);
CREATE INDEX ON softland_ledger_runs (last);
CREATE INDEX ON softland_ledger_runs (session);
CREATE INDEX ON softland_ledger_runs (name) WHERE name IS NOT NULL;
CREATE INDEX ON softland_ledger_runs (last) WHERE ended IS NULL;

-- With the requests, the lines of the event log: each number of a run is in one of the two.
CREATE TABLE softland_ledger_lines (
  run_id bigint NOT NULL, seq bigint NOT NULL, at bigint NOT NULL, turn bigint NOT NULL,
  event text COLLATE "C" NOT NULL, fields text COLLATE "C" NOT NULL, PRIMARY KEY (run_id, seq));

CREATE TABLE softland_ledger_requests (
  run_id bigint NOT NULL,         -- 0: of no run
  seq bigint NOT NULL, at bigint NOT NULL, request text COLLATE "C" NOT NULL,
  session text COLLATE "C", turn bigint NOT NULL, upstream text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL, model text COLLATE "C", rung text COLLATE "C", status bigint,
  input bigint NOT NULL, output bigint NOT NULL, cache_read bigint NOT NULL,
  cache_write bigint NOT NULL, cost bigint, ms bigint NOT NULL, remark text COLLATE "C",
  content_digest text COLLATE "C", content_bytes bigint, key text COLLATE "C",
  account text COLLATE "C", PRIMARY KEY (run_id, seq));
CREATE INDEX ON softland_ledger_requests (at);
CREATE INDEX ON softland_ledger_requests (account, at) WHERE account IS NOT NULL;
CREATE INDEX ON softland_ledger_requests (at) WHERE run_id = 0;

-- What was sent, where whole contents are kept.
CREATE TABLE softland_ledger_contents (
  run_id bigint NOT NULL, seq bigint NOT NULL, content bytea NOT NULL, PRIMARY KEY (run_id, seq));

-- Requests that were sent and have not ended, each with the most that it can cost.
CREATE TABLE softland_ledger_open_requests (
  request text COLLATE "C" PRIMARY KEY, run text COLLATE "C", at bigint NOT NULL,
  session text COLLATE "C", turn bigint NOT NULL, upstream text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL, model text COLLATE "C", rung text COLLATE "C",
  input bigint NOT NULL, output bigint NOT NULL, cost bigint, remark text COLLATE "C",
  key text COLLATE "C", account text COLLATE "C");
CREATE INDEX ON softland_ledger_open_requests (at);
CREATE INDEX ON softland_ledger_open_requests (run);

-- The processes that write, each with the number of its last batch: a batch whose confirmation was
-- lost is not written twice.
CREATE TABLE softland_ledger_writers (
  writer text COLLATE "C" PRIMARY KEY, batch bigint NOT NULL, seen timestamptz NOT NULL);
