-- Open runs, and the ended ones that are remembered. The running requests of a gateway that is dead
-- are forgotten.

CREATE OR REPLACE FUNCTION softland_now() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- The version of a changed run: the number of the transaction that has changed it.
CREATE OR REPLACE FUNCTION softland_version() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT pg_current_xact_id()::text::bigint $$;

-- The version of the oldest ended run that is remembered.
CREATE OR REPLACE FUNCTION softland_oldest_ended() RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT r.version FROM softland_runs r WHERE r.ended IS NOT NULL
    ORDER BY r.version DESC OFFSET 500 LIMIT 1), 0) $$;

CREATE OR REPLACE FUNCTION softland_count_running(of text) RETURNS bigint LANGUAGE sql STABLE AS
  $$ SELECT coalesce(sum(r.count), 0)::bigint FROM softland_running r JOIN softland_hosts h USING (host)
     WHERE r.run = of AND h.seen > softland_now() - 20000 $$;

CREATE OR REPLACE FUNCTION softland_add_running(of text, by_host text, amount bigint) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO softland_running AS r VALUES (of, by_host, greatest(amount, 0))
    ON CONFLICT (run, host) DO UPDATE SET count = greatest(r.count + amount, 0) $$;

-- The fields of a run, names and values by turns.
CREATE OR REPLACE FUNCTION softland_run_fields(of softland_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(each.value ORDER BY f.key, each.nth), '[]')
  FROM jsonb_each_text(to_jsonb(of) - ARRAY['run', 'version', 'until', 'counts'] || of.counts) AS f,
    unnest(ARRAY[f.key, f.value]) WITH ORDINALITY AS each (value, nth)
  WHERE f.value IS NOT NULL $$;

CREATE OR REPLACE FUNCTION softland_describe_run(of softland_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(of.run, softland_run_fields(of),
    CASE WHEN of.ended IS NULL AND softland_count_running(of.run) > 0 THEN 1 ELSE 0 END) $$;

-- Ends an open run, and remembers it. Without an end, nobody continues it.
CREATE OR REPLACE FUNCTION softland_end_run(of text, at bigint, what text DEFAULT '') RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  row softland_runs;
BEGIN
  UPDATE softland_runs r SET ended = at, ending = what, version = softland_version(),
    until = now() + interval '1 day' WHERE r.run = of AND r.ended IS NULL RETURNING r.* INTO row;
  IF NOT FOUND THEN RETURN '[]'; END IF;
  RETURN jsonb_build_array(row.run, softland_run_fields(row));
END $$;

CREATE OR REPLACE FUNCTION softland_open_run(opening jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  row softland_runs;
  superseded jsonb := '[]';
  at bigint := (opening->>'at')::bigint;
BEGIN
  UPDATE softland_runs r SET last = greatest(r.last, at), here = opening->>'here',
    version = softland_version(), until = softland_keep()
    WHERE r.run = opening->>'run' AND r.ended IS NULL RETURNING r.* INTO row;
  IF FOUND THEN
    PERFORM softland_add_running(row.run, by_host, 1);
    RETURN jsonb_build_array(0, row.begun, '[]'::jsonb);
  END IF;
  IF softland_given(opening->'continues') THEN
    superseded := softland_end_run(opening->>'continues', at);
  END IF;
  DELETE FROM softland_runs r WHERE r.run = opening->>'run' AND r.ended IS NOT NULL;
  INSERT INTO softland_runs (run, version, info, last, cost, phase, here, parent, until)
    VALUES (opening->>'run', softland_version(), opening->>'info', at, 0,
      opening->>'phase', opening->>'here', opening->>'parent', softland_keep());
  PERFORM softland_add_running(opening->>'run', by_host, 1);
  RETURN jsonb_build_array(1, 0, superseded);
END $$;

CREATE OR REPLACE FUNCTION softland_op_progress(note jsonb) RETURNS jsonb LANGUAGE sql AS $$
  UPDATE softland_runs r SET
    turns_before = CASE WHEN r.begun = 0 THEN (note->'before'->>0)::bigint ELSE r.turns_before END,
    calls_before = CASE WHEN r.begun = 0 THEN (note->'before'->>1)::bigint ELSE r.calls_before END,
    begun = greatest(r.begun, (note->>'turn')::bigint), calls = greatest(r.calls, (note->>'calls')::bigint),
    phase = note->>'phase', version = softland_version()
    WHERE r.run = note->>'run' AND r.ended IS NULL;
  SELECT NULL::jsonb $$;

CREATE OR REPLACE FUNCTION softland_op_withdraw(note jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  row softland_runs;
BEGIN
  UPDATE softland_runs r SET version = softland_version()
    WHERE r.run = note->>'run' AND r.ended IS NULL RETURNING r.* INTO row;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM softland_add_running(row.run, by_host, -1);
  IF row.begun = 0 AND softland_count_running(row.run) = 0 THEN
    DELETE FROM softland_runs r WHERE r.run = row.run;
  END IF;
  RETURN NULL;
END $$;

-- Counts a request that has ended. Returns the run's fields if it has ended with it, and whether this
-- was the first end that it would have had.
CREATE OR REPLACE FUNCTION softland_end_request(request jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  row softland_runs;
  sums jsonb;
  first int := 0;
  ended jsonb := '[]';
BEGIN
  SELECT * INTO row FROM softland_runs r WHERE r.run = request->>'run' AND r.ended IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN '[[], 0]'; END IF;
  PERFORM softland_add_running(row.run, by_host, -1);
  SELECT coalesce(jsonb_object_agg(key, (coalesce((row.counts->>key)::bigint, 0) + value::bigint)::text), '{}')
    INTO sums FROM jsonb_each_text(request->'tokens');
  IF row.observed IS NULL AND softland_given(request->'observed') THEN first := 1; END IF;
  UPDATE softland_runs r SET last = greatest(r.last, (request->>'last')::bigint),
    turns = greatest(r.turns, (request->>'turns')::bigint),
    calls = greatest(r.calls, (request->>'calls')::bigint), cost = r.cost + (request->>'cost')::bigint,
    failed = request->>'failed', remaining = request->>'remaining', counts = r.counts || sums,
    served = CASE WHEN substring(request->>'served' FROM '^\d+')::int
      > coalesce(substring(r.served FROM '^\d+')::int, 0) THEN request->>'served' ELSE r.served END,
    in_one_country = CASE WHEN (request->>'in_one_country')::boolean THEN '1' ELSE r.in_one_country END,
    observed = coalesce(r.observed, request->>'observed'), version = softland_version()
    WHERE r.run = row.run;
  IF softland_given(request->'ended') THEN
    ended := softland_end_run(row.run, (request->>'ended')::bigint, request->>'ending');
  END IF;
  RETURN jsonb_build_array(ended, first);
END $$;

CREATE OR REPLACE FUNCTION softland_op_replace_end(note jsonb) RETURNS jsonb LANGUAGE sql AS $$
  UPDATE softland_runs r SET ended = (note->>'ended')::bigint, ending = note->>'ending',
    version = softland_version() WHERE r.run = note->>'run' AND r.ended IS NOT NULL;
  SELECT NULL::jsonb $$;

CREATE OR REPLACE FUNCTION softland_op_list(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  -- All transactions up to this one have ended, so that no version below it can still come.
  newest bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1;
  rows jsonb;
BEGIN
  SELECT coalesce(jsonb_agg(softland_describe_run(r) ORDER BY r.version), '[]') INTO rows
    FROM softland_runs r WHERE r.version >
      CASE WHEN (query->>'after')::numeric <= newest THEN (query->>'after')::bigint ELSE 0 END
      AND (r.ended IS NULL OR r.version >= softland_oldest_ended());
  RETURN jsonb_build_array(newest, rows);
END $$;

CREATE OR REPLACE FUNCTION softland_op_find(query jsonb) RETURNS jsonb LANGUAGE sql AS
  $$ SELECT softland_describe_run(r) FROM softland_runs r WHERE r.run = query->>'run' $$;

CREATE OR REPLACE FUNCTION softland_op_cancel(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  family text[];
  ended jsonb := '[]';
  one text;
BEGIN
  WITH RECURSIVE tree (run, depth) AS (
    SELECT r.run, 0 FROM softland_runs r WHERE r.run = query->>'run' AND r.ended IS NULL
    UNION SELECT r.run, t.depth + 1 FROM softland_runs r JOIN tree t ON r.parent = t.run
      WHERE r.ended IS NULL AND t.depth < 1000)
  SELECT array_agg(run ORDER BY depth, run) INTO family FROM (
    SELECT run, min(depth) AS depth FROM tree GROUP BY run) AS each;
  IF family IS NULL THEN RETURN '[]'; END IF;
  FOREACH one IN ARRAY family LOOP
    INSERT INTO softland_cancelled SELECT r.run, r.here, softland_keep() FROM softland_runs r WHERE r.run = one
      ON CONFLICT (run) DO UPDATE SET here = excluded.here, until = excluded.until;
    IF softland_count_running(one) = 0 THEN
      ended := ended || jsonb_build_array(softland_end_run(one, (query->>'now')::bigint));
    END IF;
  END LOOP;
  RETURN jsonb_build_array(to_jsonb(family), ended);
END $$;

CREATE OR REPLACE FUNCTION softland_op_cancelled(query jsonb) RETURNS jsonb LANGUAGE sql AS
  $$ SELECT coalesce(jsonb_agg(c.run), '[]') FROM softland_cancelled c
     WHERE c.run = ANY (softland_texts(query->'runs')) $$;

CREATE OR REPLACE FUNCTION softland_op_end_idle(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  ended jsonb := '[]';
  one text;
  over bigint;
BEGIN
  SELECT count(*) INTO over FROM softland_runs r WHERE r.ended IS NULL;
  over := (query->>'now')::bigint - (query->>'idle')::bigint / CASE WHEN over > 50000 THEN 10 ELSE 1 END;
  FOR one IN SELECT r.run FROM softland_runs r WHERE r.ended IS NULL AND r.last < over
    AND softland_count_running(r.run) = 0 ORDER BY r.last LIMIT 5000 FOR UPDATE SKIP LOCKED LOOP
    ended := ended || jsonb_build_array(softland_end_run(one, (query->>'now')::bigint));
  END LOOP;
  RETURN ended;
END $$;
