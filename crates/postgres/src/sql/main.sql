-- Runs the operations in order, in one transaction.

CREATE OR REPLACE FUNCTION softland_op_close(closing jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  run jsonb := '[[], 0]';
  balances jsonb;
  accounts text[] := softland_texts(closing->'accounts');
BEGIN
  IF softland_given(closing->'shown') THEN
    PERFORM softland_store_shown(closing->'shown', closing->'changes'->>'scope');
  END IF;
  PERFORM softland_apply(closing->'changes');
  IF softland_given(closing->'parent') THEN PERFORM softland_apply(closing->'parent'); END IF;
  balances := softland_balances(accounts);
  IF softland_given(closing->'request') THEN
    -- Accounts are locked before runs, as a reservation does.
    IF softland_given(closing->'request'->'ended') THEN
      PERFORM softland_forget_kept(accounts, closing->'request'->>'run');
    END IF;
    run := softland_end_request(closing->'request', by_host);
  END IF;
  RETURN jsonb_build_array(balances, run);
END $$;

CREATE OR REPLACE FUNCTION softland_op(asked jsonb, by_host text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  IF softland_given(asked->'note') THEN
    -- A note whose answer was lost is sent again, and counts once.
    INSERT INTO softland_noted VALUES (by_host, (asked->>'note')::bigint) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN NULL; END IF;
  END IF;
  RETURN CASE asked->>'op'
    WHEN 'recall' THEN softland_op_recall(asked)
    WHEN 'links' THEN softland_op_links(asked)
    WHEN 'learn' THEN softland_op_learn(asked)
    WHEN 'reserve' THEN softland_op_reserve(asked, by_host)
    WHEN 'poll' THEN softland_op_poll(asked, by_host)
    WHEN 'leave' THEN softland_op_leave(asked)
    WHEN 'settle' THEN softland_op_settle(asked)
    WHEN 'lower' THEN softland_op_lower(asked)
    WHEN 'renew' THEN softland_op_renew(asked)
    WHEN 'windows' THEN softland_op_windows(asked)
    WHEN 'close' THEN softland_op_close(asked, by_host)
    WHEN 'progress' THEN softland_op_progress(asked)
    WHEN 'withdraw' THEN softland_op_withdraw(asked, by_host)
    WHEN 'ended' THEN softland_end_request(asked->'request', by_host)
    WHEN 'replace_end' THEN softland_op_replace_end(asked)
    WHEN 'list' THEN softland_op_list(asked)
    WHEN 'find' THEN softland_op_find(asked)
    WHEN 'cancel' THEN softland_op_cancel(asked)
    WHEN 'cancelled' THEN softland_op_cancelled(asked)
    WHEN 'end_idle' THEN softland_op_end_idle(asked)
    WHEN 'keys' THEN softland_op_keys(asked)
    WHEN 'write_key' THEN softland_op_write_key(asked)
    WHEN 'scan_stored' THEN softland_op_scan_stored(asked)
    WHEN 'drop_stored' THEN softland_op_drop_stored(asked)
  END;
END $$;

-- Deletes rows that nobody has used for long, a part at a time, unless another gateway does. Returns
-- their number.
CREATE OR REPLACE FUNCTION softland_sweep() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  one text;
  gone bigint;
  total bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(4850181) THEN RETURN 0; END IF;
  FOREACH one IN ARRAY ARRAY['softland_scopes', 'softland_clues', 'softland_names', 'softland_untaken',
    'softland_links', 'softland_lessons', 'softland_accounts', 'softland_begun', 'softland_reservations',
    'softland_runs', 'softland_cancelled'] LOOP
    EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM %1$I WHERE until < now() LIMIT 1000 FOR UPDATE SKIP LOCKED))', one);
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
  END LOOP;
  DELETE FROM softland_noted n USING (SELECT host, max(number) AS newest FROM softland_noted GROUP BY host) AS m
    WHERE n.host = m.host AND n.number < m.newest - 200000;
  DELETE FROM softland_hosts h WHERE h.seen < softland_now() - 86400000;
  DELETE FROM softland_noted n WHERE NOT EXISTS (SELECT 1 FROM softland_hosts h WHERE h.host = n.host);
  DELETE FROM softland_running r WHERE NOT EXISTS (SELECT 1 FROM softland_hosts h WHERE h.host = r.host);
  DELETE FROM softland_runs r WHERE r.ended IS NOT NULL AND r.version < softland_oldest_ended();
  RETURN total;
END $$;

-- Runs operations, and then, at this time, serves the line: once for all that ask.
CREATE OR REPLACE FUNCTION softland_batch(by_host text, operations jsonb, looks_at bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb := '[]';
  answer jsonb;
  one jsonb;
  nth integer;
BEGIN
  FOR one IN SELECT * FROM jsonb_array_elements(operations) LOOP
    answers := answers || jsonb_build_array(jsonb_build_array(1, softland_op(one, by_host)));
  END LOOP;
  IF looks_at IS NULL OR NOT EXISTS (SELECT 1 FROM softland_line WHERE verdict IS NULL) THEN RETURN answers; END IF;
  PERFORM softland_serve_line(looks_at);
  FOR one, nth IN SELECT op, place - 1 FROM jsonb_array_elements(operations) WITH ORDINALITY AS each (op, place)
    WHERE op->>'op' IN ('reserve', 'poll') AND answers->(place - 1)::integer->1->0 = '["wait"]' LOOP
    answer := softland_decided(coalesce(one->'wanted'->>'id', one->>'id'));
    answers := jsonb_set(answers, ARRAY[nth::text, '1', '0'], answer);
    answers := jsonb_set(answers, ARRAY[nth::text, '1', '-1'], softland_open_after(answer, one, by_host));
  END LOOP;
  RETURN answers;
END $$;

CREATE OR REPLACE FUNCTION softland_run(by_host text, operations jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb := '[]';
  one jsonb;
  told bigint;
  looks_at bigint;
  why text;
BEGIN
  SELECT seen INTO told FROM softland_hosts WHERE host = by_host;
  IF told IS NULL OR told < softland_now() - 4000 THEN
    INSERT INTO softland_hosts VALUES (by_host, softland_now())
      ON CONFLICT (host) DO UPDATE SET seen = excluded.seen;
  END IF;
  looks_at := softland_lock_for(operations);
  BEGIN
    RETURN softland_batch(by_host, operations, looks_at);
  EXCEPTION
    WHEN deadlock_detected OR serialization_failure OR lock_not_available OR query_canceled
      OR unique_violation OR foreign_key_violation THEN RAISE;
    WHEN OTHERS THEN NULL;
  END;
  -- One of them has failed, and the others count.
  FOR one IN SELECT * FROM jsonb_array_elements(operations) LOOP
    BEGIN
      answers := answers || softland_batch(by_host, jsonb_build_array(one), NULL);
    EXCEPTION
      WHEN deadlock_detected OR serialization_failure OR lock_not_available OR query_canceled
        OR unique_violation OR foreign_key_violation THEN RAISE;
      WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS why = PG_EXCEPTION_CONTEXT;
        answers := answers || jsonb_build_array(jsonb_build_array(0, SQLERRM || ' (' || why || ')'));
    END;
  END LOOP;
  RETURN answers;
END $$;
