-- Finds the conversation of a request by the rules of `docs/governing.md` §7, in their order, as
-- `recall_from` of softland-govern does.

-- Stores a fork of a conversation under a name of its own.
CREATE OR REPLACE FUNCTION softland_store_fork(fork text, of text, called text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  seen jsonb;
BEGIN
  INSERT INTO softland_scopes VALUES (fork, softland_keep())
    ON CONFLICT (scope) DO UPDATE SET until = excluded.until;
  INSERT INTO softland_fields SELECT fork, field, value FROM softland_fields
    WHERE scope = of AND left(field, 1) IN ('p', 'q', 'w', 'b', 't', 'r', 'a', 'g', 'h')
    ON CONFLICT DO NOTHING;
  seen := softland_get(of, 'f')::jsonb || jsonb_build_object('scope', fork);
  IF seen IS NOT NULL THEN
    PERFORM softland_set(fork, 'f', seen::text);
    IF called IS NOT NULL THEN PERFORM softland_name_scope(ARRAY[called], fork, seen); END IF;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION softland_faces(called text) RETURNS jsonb[] LANGUAGE sql STABLE AS
  $$ SELECT coalesce(array_agg(face ORDER BY place), '{}') FROM softland_names WHERE name = called $$;

-- Returns true if a conversation with a shared name may have become this history.
CREATE OR REPLACE FUNCTION softland_may_have_become(query jsonb, seen jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  first bigint;
BEGIN
  IF (query->>'now')::numeric - (seen->>'last')::numeric > 30 * 60 * 1000 THEN RETURN false; END IF;
  IF (query->>'opens_in_summary')::boolean THEN RETURN true; END IF;
  SELECT min(nth) INTO first FROM jsonb_array_elements(query->'asked') WITH ORDINALITY AS a (one, nth)
    WHERE one->>1 = seen->>'asked';
  IF first IS NULL THEN RETURN false; END IF;
  RETURN jsonb_array_length(query->'asked') > first
    OR jsonb_array_length(query->'turns') > (query->'asked'->(first - 1)::int->>0)::bigint;
END $$;

-- Returns the newest of these, if they are one conversation and its forks, of the same program.
CREATE OR REPLACE FUNCTION softland_single_match(query jsonb, faces jsonb[], any_of boolean)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  newest jsonb;
  seen jsonb;
BEGIN
  FOREACH seen IN ARRAY faces LOOP
    CONTINUE WHEN NOT (seen->>'answered')::boolean OR seen->>'tools' <> query->>'tools'
      OR seen->>'system' <> query->>'system';
    CONTINUE WHEN NOT any_of AND NOT softland_may_have_become(query, seen);
    IF newest IS NOT NULL AND newest->>'root' <> seen->>'root' THEN RETURN NULL; END IF;
    newest := seen;
  END LOOP;
  RETURN newest;
END $$;

CREATE OR REPLACE FUNCTION softland_found(of text, rule text, more jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql IMMUTABLE AS
  $$ SELECT jsonb_build_object('scope', of, 'by', rule) || more $$;

-- Continues the conversation that was found, or begins a fork of it.
CREATE OR REPLACE FUNCTION softland_continue(query jsonb, hit jsonb, rule text, more jsonb DEFAULT '{}')
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  of text := hit->>'scope';
BEGIN
  IF (hit->>'fork')::boolean THEN
    PERFORM softland_store_fork(query->>'fork', of,
      CASE WHEN (query->>'is_named')::boolean THEN query->>'name' END);
    of := query->>'fork';
  END IF;
  RETURN softland_found(of, rule, more || jsonb_build_object('turn', hit));
END $$;

CREATE OR REPLACE FUNCTION softland_by_name(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  faces jsonb[] := '{}';
  seen jsonb;
  one text;
BEGIN
  IF (query->>'is_named')::boolean THEN faces := softland_faces(query->>'name'); END IF;
  FOR n IN REVERSE cardinality(faces)..1 LOOP
    seen := faces[n];
    IF seen->>'opening' = query->>'here'
      AND ((query->>'is_run')::boolean OR NOT (seen->>'answered')::boolean) THEN
      RETURN softland_found(seen->>'scope', 'again');
    END IF;
  END LOOP;
  seen := softland_single_match(query, faces, (query->>'is_client')::boolean);
  FOREACH one IN ARRAY softland_texts(query->'shared') LOOP
    IF seen IS NULL THEN seen := softland_single_match(query, softland_faces(one), false); END IF;
  END LOOP;
  IF seen IS NULL THEN RETURN NULL; END IF;
  IF query->>'here' = seen->>'opening' THEN RETURN softland_found(seen->>'scope', 'again'); END IF;
  RETURN softland_found(seen->>'scope', 'name',
    jsonb_build_object('flag', query->'openings' ? (seen->>'opening')));
END $$;

CREATE OR REPLACE FUNCTION softland_find_conversation(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  turns text[] := softland_texts(query->'turns');
  here text := query->>'here';
  faces jsonb[];
  hit jsonb;
  known bigint;
  before bigint;
  group_name text;
  of text;
BEGIN
  IF cardinality(turns) > 0 THEN
    hit := softland_find_clue(turns[cardinality(turns):], here);
    IF hit IS NOT NULL AND (query->>'ends_in_summary')::boolean THEN
      RETURN softland_found(hit->>'scope', 'compacted');
    END IF;
    IF hit IS NOT NULL THEN RETURN softland_continue(query, hit, 'content'); END IF;
  END IF;
  IF (query->>'metered')::boolean THEN
    hit := softland_find_clue(softland_texts(query->'calls'), here);
    IF hit IS NULL THEN hit := softland_find_clue(softland_texts(query->'passages'), here); END IF;
    of := coalesce(hit->>'scope', softland_find_quoted(softland_texts(query->'heads'), 4));
    IF of IS NOT NULL THEN RETURN softland_found(of, 'beside', '{"flag": true}'); END IF;
    IF NOT (query->>'is_named')::boolean THEN RETURN NULL; END IF;
    faces := softland_faces(query->>'name');
    IF cardinality(faces) = 0 THEN RETURN NULL; END IF;
    RETURN softland_found(faces[cardinality(faces)]->>'scope', 'beside', '{"flag": false}');
  END IF;
  hit := softland_find_clue(softland_texts(query->'calls'), here);
  IF hit IS NOT NULL THEN
    before := least(coalesce((query->'call_turns'->>(hit->>'index')::int)::bigint, 0), cardinality(turns));
    SELECT coalesce(min(nth) - 1, before) INTO known FROM unnest(turns[:before]) WITH ORDINALITY AS t (one, nth)
      WHERE NOT EXISTS (SELECT 1 FROM softland_clues c WHERE c.clue = one);
    RETURN softland_continue(query, hit, 'calls', jsonb_build_object('index', hit->'index', 'known', known));
  END IF;
  FOREACH group_name IN ARRAY ARRAY['unshown', 'sealed', 'summaries', 'told'] LOOP
    hit := softland_find_clue(softland_texts(query->group_name), here);
    IF hit IS NOT NULL AND group_name = 'summaries' THEN
      RETURN softland_found(hit->>'scope', 'summary', jsonb_build_object('index', hit->'index'));
    END IF;
    IF hit IS NOT NULL THEN RETURN softland_found(hit->>'scope', 'compacted'); END IF;
  END LOOP;
  hit := softland_by_name(query);
  IF hit IS NOT NULL THEN RETURN hit; END IF;
  hit := softland_find_clue((SELECT coalesce(array_agg(one ORDER BY nth DESC), '{}')
    FROM unnest(turns[:cardinality(turns) - 1]) WITH ORDINALITY AS t (one, nth)), here);
  IF hit IS NOT NULL THEN
    RETURN softland_continue(query, hit, 'prefix', jsonb_build_object('index', hit->'index'));
  END IF;
  IF (query->>'is_named')::boolean OR cardinality(turns) > 0 THEN RETURN NULL; END IF;
  DELETE FROM softland_untaken u WHERE u.place = (
    SELECT v.place FROM softland_untaken v WHERE v.question = query->>'question'
    ORDER BY v.place DESC LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING u.scope INTO of;
  IF of IS NULL THEN RETURN NULL; END IF;
  RETURN softland_found(of, 'again');
END $$;

-- The names of the runs among a conversation's fields.
CREATE OR REPLACE FUNCTION softland_run_names(of text) RETURNS text[] LANGUAGE sql STABLE AS
  $$ SELECT coalesce(array_agg(value ORDER BY field), '{}') FROM softland_fields
     WHERE scope = of AND left(field, 1) = 'i' $$;

CREATE OR REPLACE FUNCTION softland_op_recall(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  parent jsonb := '[]';
  found jsonb := '[]';
  lessons jsonb;
  cancelled jsonb;
  runs text[] := '{}';
  faces jsonb[];
  hit jsonb;
  turn jsonb;
  of text;
  one text;
BEGIN
  FOREACH one IN ARRAY softland_texts(query->'parents') LOOP
    faces := softland_faces(one);
    IF cardinality(faces) > 0 THEN
      of := faces[cardinality(faces)]->>'scope';
      parent := jsonb_build_array(of, softland_load(of));
      runs := runs || softland_run_names(of);
      EXIT;
    END IF;
  END LOOP;
  hit := softland_find_conversation(query);
  IF hit IS NOT NULL THEN
    turn := hit->'turn';
    of := hit->>'scope';
    runs := runs || softland_run_names(of);
    IF turn IS NOT NULL THEN runs := runs || (turn->>'id'); END IF;
    found := jsonb_build_array(of, softland_load(of), hit->'by', coalesce(hit->'index', '0'),
      coalesce(hit->'known', '0'), coalesce((hit->>'flag')::boolean, false)::int,
      CASE WHEN turn IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(turn->'run', turn->'blob',
        turn->'tokens', turn->'cost', (turn->>'fork')::boolean::int::text) END);
  END IF;
  SELECT coalesce(jsonb_agg(jsonb_build_array(c.run, c.here)), '[]') INTO cancelled
    FROM softland_cancelled c WHERE c.run = ANY (runs);
  SELECT CASE WHEN l.most IS NULL THEN '[]'::jsonb ELSE jsonb_build_array('most', l.most::text) END
      || jsonb_build_array('forcing', l.forcing::int::text, 'none', l.none::int::text,
        'completion', l.completion::int::text) INTO lessons
    FROM softland_lessons l WHERE l.model = query->>'model';
  RETURN jsonb_build_array(parent, found, coalesce(lessons, '[]'), cancelled);
END $$;

-- Adds lessons about a model to those that are known.
CREATE OR REPLACE FUNCTION softland_op_learn(lesson jsonb) RETURNS jsonb LANGUAGE sql AS $$
  INSERT INTO softland_lessons AS l VALUES (lesson->>'model', (lesson->>'forcing')::boolean,
    (lesson->>'none')::boolean, (lesson->>'completion')::boolean, (lesson->>'most')::numeric,
    softland_keep())
  ON CONFLICT (model) DO UPDATE SET forcing = l.forcing OR excluded.forcing,
    none = l.none OR excluded.none, completion = l.completion OR excluded.completion,
    most = least(l.most, excluded.most), until = excluded.until;
  SELECT NULL::jsonb $$;
