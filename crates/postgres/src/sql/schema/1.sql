-- The tables of the shared state, version 1. Each row lives until `until`.

CREATE TABLE softland_hosts (host text PRIMARY KEY, seen bigint NOT NULL);
CREATE TABLE softland_noted (host text, number bigint, PRIMARY KEY (host, number));

-- A conversation, and its fields: a letter for the kind, and the run or place that it belongs to.
CREATE TABLE softland_scopes (scope text PRIMARY KEY, until timestamptz NOT NULL);
CREATE TABLE softland_fields (
  scope text REFERENCES softland_scopes ON DELETE CASCADE,
  field text, value text NOT NULL, PRIMARY KEY (scope, field));

-- The turns for each clue, the newest last; `child` is the first history that continued from one.
CREATE TABLE softland_clues (
  clue text, scope text, place bigserial, run text NOT NULL, id text NOT NULL, blob text NOT NULL,
  tokens bigint NOT NULL, cost bigint NOT NULL, child text, until timestamptz NOT NULL,
  PRIMARY KEY (clue, scope));
CREATE TABLE softland_names (
  name text, scope text, place bigserial, face jsonb NOT NULL, until timestamptz NOT NULL,
  PRIMARY KEY (name, scope));
CREATE TABLE softland_untaken (
  question text, place bigserial PRIMARY KEY, scope text NOT NULL, until timestamptz NOT NULL);
CREATE INDEX ON softland_untaken (question, place);
CREATE TABLE softland_links (
  id text PRIMARY KEY, before text, items text NOT NULL, upstream text, added text NOT NULL,
  until timestamptz NOT NULL);
CREATE TABLE softland_lessons (
  model text PRIMARY KEY, forcing boolean NOT NULL, none boolean NOT NULL,
  completion boolean NOT NULL, most numeric, until timestamptz NOT NULL);

-- Half of each page stays free, so that a row that changes often stays on its page.
CREATE TABLE softland_accounts (
  name text PRIMARY KEY, spent bigint NOT NULL DEFAULT 0, reserved bigint NOT NULL DEFAULT 0,
  tokens_spent bigint NOT NULL DEFAULT 0, tokens_reserved bigint NOT NULL DEFAULT 0,
  leases bigint NOT NULL DEFAULT 0, kept bigint NOT NULL DEFAULT 0,
  tokens_kept bigint NOT NULL DEFAULT 0, pruned bigint NOT NULL DEFAULT 0,
  until timestamptz NOT NULL) WITH (fillfactor = 50);
CREATE TABLE softland_kept (
  name text REFERENCES softland_accounts ON DELETE CASCADE, run text,
  money bigint NOT NULL, tokens bigint NOT NULL, used bigint NOT NULL, PRIMARY KEY (name, run));
CREATE TABLE softland_begun (
  account text PRIMARY KEY, first bigint NOT NULL, last bigint NOT NULL, until timestamptz NOT NULL);
CREATE TABLE softland_reservations (
  id text PRIMARY KEY, accounts text[] NOT NULL, money bigint NOT NULL, tokens bigint NOT NULL,
  lease bigint NOT NULL, ends bigint NOT NULL, booked boolean NOT NULL DEFAULT false,
  until timestamptz NOT NULL);
CREATE INDEX ON softland_reservations (ends) WHERE NOT booked;
CREATE TABLE softland_line (
  place bigserial PRIMARY KEY, id text UNIQUE NOT NULL, wanted jsonb NOT NULL, since bigint NOT NULL,
  seen bigint NOT NULL);

CREATE TABLE softland_runs (
  run text PRIMARY KEY, version bigint NOT NULL, info text NOT NULL, last bigint NOT NULL,
  begun bigint NOT NULL DEFAULT 0, turns bigint NOT NULL DEFAULT 0, calls bigint NOT NULL DEFAULT 0,
  turns_before bigint NOT NULL DEFAULT 0, calls_before bigint NOT NULL DEFAULT 0,
  cost bigint, phase text NOT NULL, here text NOT NULL, parent text,
  failed text NOT NULL DEFAULT '0', remaining text, counts jsonb NOT NULL DEFAULT '{}', served text,
  in_one_country text, observed text, ended bigint, ending text, until timestamptz NOT NULL);
CREATE INDEX ON softland_runs (version);
CREATE INDEX ON softland_runs (version) WHERE ended IS NOT NULL;
CREATE INDEX ON softland_runs (last) WHERE ended IS NULL;
CREATE INDEX ON softland_runs (parent) WHERE ended IS NULL;
CREATE TABLE softland_running (
  run text REFERENCES softland_runs ON DELETE CASCADE, host text, count bigint NOT NULL,
  PRIMARY KEY (run, host));
CREATE TABLE softland_cancelled (run text PRIMARY KEY, here text NOT NULL, until timestamptz NOT NULL);

-- For the sweep.
CREATE INDEX ON softland_scopes (until);
CREATE INDEX ON softland_clues (until);
CREATE INDEX ON softland_names (until);
CREATE INDEX ON softland_untaken (until);
CREATE INDEX ON softland_links (until);
CREATE INDEX ON softland_accounts (until);
CREATE INDEX ON softland_cancelled (until);

-- When the line was looked at last.
CREATE TABLE softland_looked (single boolean PRIMARY KEY DEFAULT true CHECK (single), at bigint NOT NULL);
INSERT INTO softland_looked (at) VALUES (0);

CREATE TABLE softland_keys (name text PRIMARY KEY, row text NOT NULL);
-- Raised by each change of the keys.
CREATE TABLE softland_keys_version (single boolean PRIMARY KEY DEFAULT true CHECK (single), version bigint NOT NULL);
INSERT INTO softland_keys_version (version) VALUES (0);
