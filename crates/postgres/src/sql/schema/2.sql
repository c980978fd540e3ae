-- Version 2: the line by account, and what was decided on a request that waits.

ALTER TABLE softland_line ADD verdict jsonb;
CREATE TABLE softland_waits (
  account text, place bigint REFERENCES softland_line ON DELETE CASCADE,
  claim jsonb NOT NULL, PRIMARY KEY (account, place));
CREATE INDEX ON softland_waits (place);
INSERT INTO softland_waits
  SELECT c->>'account', l.place, c FROM softland_line l, jsonb_array_elements(l.wanted->'claims') AS c;

-- The time that the last look at the line took, in milliseconds.
ALTER TABLE softland_looked ADD took bigint NOT NULL DEFAULT 0;

DROP FUNCTION IF EXISTS softland_check_waiter(text, bigint);
DROP FUNCTION IF EXISTS softland_lock_ahead(jsonb);
DROP FUNCTION IF EXISTS softland_each(text, jsonb);
