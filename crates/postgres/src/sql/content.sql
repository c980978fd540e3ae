-- What is stored of runs, for its deletion: the caller goes through all of it and names what goes.

-- Returns some entries of a kind with their owners, and where to go on; nowhere at the end.
CREATE OR REPLACE FUNCTION softland_op_scan_stored(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  names text[];
  rows jsonb;
BEGIN
  IF asked->>'kind' = 'scopes' THEN
    SELECT array_agg(s.scope) INTO names FROM (SELECT scope FROM softland_scopes
      WHERE scope > asked->>'cursor' ORDER BY scope LIMIT 1000) AS s;
    SELECT jsonb_agg(jsonb_build_array(s.scope, (SELECT coalesce(jsonb_agg(f.value), '[]')
        FROM softland_fields f WHERE f.scope = s.scope AND f.field LIKE 'i%'))) INTO rows
      FROM unnest(names) AS s (scope);
  ELSE
    SELECT array_agg(l.id), jsonb_agg(jsonb_build_array(l.id, l.scope)) INTO names, rows
      FROM (SELECT id, scope FROM softland_links WHERE id > asked->>'cursor' ORDER BY id LIMIT 1000) AS l;
  END IF;
  RETURN jsonb_build_array(coalesce(names[cardinality(names)], ''), coalesce(rows, '[]'));
END $$;

-- Deletes entries by their names. A run that is open stays.
CREATE OR REPLACE FUNCTION softland_op_drop_stored(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  names text[] := softland_texts(asked->'names');
BEGIN
  CASE asked->>'kind'
    WHEN 'scopes' THEN DELETE FROM softland_scopes s WHERE s.scope = ANY (names);
    WHEN 'links' THEN DELETE FROM softland_links l WHERE l.id = ANY (names);
    ELSE DELETE FROM softland_runs r WHERE r.run = ANY (names) AND r.ended IS NOT NULL;
  END CASE;
  RETURN '0';
END $$;
