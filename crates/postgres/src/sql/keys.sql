-- The gateway's own keys. They are an operator's, and do not expire.

-- Returns the keys, unless they still have the version that the gateway knows.
CREATE OR REPLACE FUNCTION softland_op_keys(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  stored bigint;
  rows jsonb;
BEGIN
  -- One statement, so that the version is that of the rows.
  SELECT v.version, (SELECT coalesce(jsonb_agg(each.value ORDER BY k.name, each.nth), '[]')
    FROM softland_keys k, unnest(ARRAY[k.name, k.row]) WITH ORDINALITY AS each (value, nth))
    INTO stored, rows FROM softland_keys_version v;
  IF asked->>'known' = stored::text THEN RETURN NULL; END IF;
  RETURN jsonb_build_array(stored::text, rows);
END $$;

-- Stores a key, if the keys still have the version that the writer knows. Versions follow the time, so
-- that none comes again after a database has lost its newest changes.
CREATE OR REPLACE FUNCTION softland_op_write_key(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE softland_keys_version v
    SET version = greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, v.version + 1)
    WHERE v.version::text = asked->>'known';
  IF NOT FOUND THEN RETURN '0'; END IF;
  INSERT INTO softland_keys VALUES (asked->>'name', asked->>'row')
    ON CONFLICT (name) DO UPDATE SET row = excluded.row;
  RETURN '1';
END $$;
