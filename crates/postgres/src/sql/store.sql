-- Conversations, the clues to them, and the responses that clients were shown.

CREATE OR REPLACE FUNCTION softland_keep() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT now() + interval '7 days' $$;

CREATE OR REPLACE FUNCTION softland_texts(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS
  $$ SELECT coalesce(array_agg(value ORDER BY place), '{}')
     FROM jsonb_array_elements_text(list) WITH ORDINALITY AS each (value, place) $$;

-- Whether a member is given: not absent, and not null.
CREATE OR REPLACE FUNCTION softland_given(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS
  $$ SELECT value IS NOT NULL AND jsonb_typeof(value) <> 'null' $$;

-- Finds the conversation of the first of these clues that is known, and marks it as continued.
CREATE OR REPLACE FUNCTION softland_find_clue(clues text[], here text, OUT hit jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  at bigint;
  twin softland_clues;
BEGIN
  SELECT min(array_position(clues, c.clue)) INTO at FROM softland_clues c WHERE c.clue = ANY (clues);
  IF at IS NULL THEN RETURN; END IF;
  PERFORM 1 FROM softland_clues c WHERE c.clue = clues[at] ORDER BY place FOR UPDATE;
  SELECT * INTO twin FROM softland_clues c WHERE c.clue = clues[at] AND child IS NULL ORDER BY place LIMIT 1;
  IF NOT FOUND THEN
    SELECT * INTO twin FROM softland_clues c WHERE c.clue = clues[at]
      ORDER BY (child = here) DESC, place DESC LIMIT 1;
  END IF;
  UPDATE softland_clues c SET child = coalesce(c.child, here), until = softland_keep()
    WHERE c.clue = twin.clue AND c.scope = twin.scope;
  hit := jsonb_build_object('index', at - 1, 'fork', coalesce(twin.child <> here, false),
    'scope', twin.scope, 'run', twin.run, 'id', twin.id, 'blob', twin.blob,
    'tokens', twin.tokens::text, 'cost', twin.cost::text);
END $$;

-- Finds the conversation of which most of these different clues are, if at least `fewest` are its. Of
-- several the last of those that have the last shared clue is taken.
CREATE OR REPLACE FUNCTION softland_find_quoted(clues text[], fewest bigint) RETURNS text
LANGUAGE sql STABLE AS
  $$ SELECT c.scope FROM softland_clues c WHERE c.clue = ANY (clues)
     GROUP BY c.scope HAVING count(*) >= fewest
     ORDER BY count(*) DESC, max(ARRAY[array_position(clues, c.clue)::bigint, c.place]) DESC LIMIT 1 $$;

CREATE OR REPLACE FUNCTION softland_note_clues(clues jsonb, of text, turn jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  one text;
BEGIN
  FOR one IN SELECT DISTINCT value FROM jsonb_array_elements_text(clues) ORDER BY 1 LOOP
    INSERT INTO softland_clues AS c (clue, scope, run, id, blob, tokens, cost, until)
      VALUES (one, of, turn->>'run', turn->>'id', turn->>'blob', (turn->>'tokens')::bigint,
        (turn->>'cost')::bigint, softland_keep())
      ON CONFLICT (clue, scope) DO UPDATE SET run = excluded.run, id = excluded.id,
        blob = excluded.blob, tokens = excluded.tokens, cost = excluded.cost, child = NULL,
        until = excluded.until;
    DELETE FROM softland_clues c WHERE c.clue = one AND c.place <=
      (SELECT d.place FROM softland_clues d WHERE d.clue = one ORDER BY d.place DESC OFFSET 64 LIMIT 1);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION softland_get(of text, which text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT value FROM softland_fields WHERE scope = of AND field = which $$;

CREATE OR REPLACE FUNCTION softland_set(of text, which text, what text) RETURNS void LANGUAGE sql AS
  $$ INSERT INTO softland_fields VALUES (of, which, what)
     ON CONFLICT (scope, field) DO UPDATE SET value = excluded.value $$;

CREATE OR REPLACE FUNCTION softland_add(of text, which text, amount bigint) RETURNS text LANGUAGE sql AS
  $$ INSERT INTO softland_fields AS f VALUES (of, which, amount::text)
     ON CONFLICT (scope, field) DO UPDATE SET value = (f.value::bigint + amount)::text
     RETURNING value $$;

-- The digests that a text holds, 32 characters each.
CREATE OR REPLACE FUNCTION softland_digests(value text) RETURNS text[] LANGUAGE sql IMMUTABLE AS
  $$ SELECT coalesce(array_agg(substr(value, at, 32) ORDER BY at), '{}')
     FROM generate_series(1, length(value), 32) AS at $$;

-- Adds messages that arrived at once, up to a bound.
CREATE OR REPLACE FUNCTION softland_add_immediate(of text, run text, places text[], behind text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  known text := softland_get(of, 'w' || run);
  merged text;
BEGIN
  IF cardinality(places) = 0 THEN RETURN; END IF;
  SELECT string_agg(place, '' ORDER BY place) INTO merged FROM (
    SELECT place FROM (SELECT unnest(softland_digests(coalesce(known, '')) || places) AS place) AS each
    GROUP BY place ORDER BY place DESC LIMIT 4096) AS newest;
  PERFORM softland_set(of, 'w' || run, merged);
  IF behind IS NOT NULL AND (known IS NULL OR softland_get(of, 'b' || run) IS NULL) THEN
    PERFORM softland_set(of, 'b' || run, behind);
  END IF;
END $$;

-- Keeps the record that has looked further; after a compaction all places are looked at again.
CREATE OR REPLACE FUNCTION softland_apply_pin(of text, pin jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  run text := pin->>'run';
  known text[] := string_to_array(softland_get(of, 'q' || run), ':');
  compactions bigint := (pin->>'compactions')::bigint;
  looked bigint := (pin->>'looked')::bigint;
  went text[] := softland_texts(pin->'went');
  behind text := pin->>'behind';
BEGIN
  IF known IS NOT NULL AND (known[1]::bigint, known[2]::bigint) > (compactions, looked) THEN
    PERFORM softland_add_immediate(of, run, went, behind);
    RETURN;
  END IF;
  IF known[1]::bigint IS DISTINCT FROM compactions THEN
    DELETE FROM softland_fields WHERE scope = of AND field IN ('w' || run, 'b' || run);
  ELSIF cardinality(went) > 0 AND behind IS NOT NULL THEN
    PERFORM softland_set(of, 'b' || run, behind);
  END IF;
  PERFORM softland_add_immediate(of, run, went, behind);
  PERFORM softland_set(of, 'p' || run, pin->>'blob');
  PERFORM softland_set(of, 'q' || run,
    compactions || ':' || looked || ':' || softland_add(of, 'g', 1));
END $$;

-- Holds the bounds of a conversation, each time it has grown by a part.
CREATE OR REPLACE FUNCTION softland_bound_scope(of text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  size bigint;
BEGIN
  SELECT count(*) INTO size FROM softland_fields WHERE scope = of;
  IF size < coalesce(softland_get(of, 'z')::bigint, 400) THEN RETURN; END IF;
  DELETE FROM softland_fields f WHERE f.scope = of AND f.field IN (
    SELECT field FROM (
      SELECT field, left(field, 1) AS kind, row_number() OVER (PARTITION BY left(field, 1)) AS nth
      FROM softland_fields WHERE scope = of AND left(field, 1) IN ('t', 'r')) AS each
    WHERE nth > CASE kind WHEN 't' THEN 256 ELSE 4096 END);
  DELETE FROM softland_fields f USING (
    SELECT substr(field, 2) AS run FROM softland_fields WHERE scope = of AND left(field, 1) = 'l'
    ORDER BY value::bigint DESC OFFSET 64) AS old
    WHERE f.scope = of AND substr(f.field, 2) = old.run AND left(f.field, 1) IN
      ('u', 'i', 'k', 'c', 'l', 'p', 'q', 'w', 'b');
  DELETE FROM softland_fields f USING (
    SELECT substr(field, 2) AS run FROM softland_fields WHERE scope = of AND left(field, 1) = 'q'
    ORDER BY split_part(value, ':', 3)::bigint DESC OFFSET 128) AS old
    WHERE f.scope = of AND substr(f.field, 2) = old.run AND left(f.field, 1) IN ('p', 'q', 'w', 'b');
  SELECT count(*) INTO size FROM softland_fields WHERE scope = of;
  PERFORM softland_set(of, 'z', (size + 100)::text);
END $$;

CREATE OR REPLACE FUNCTION softland_append_asked(of text, asked text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  known text[] := softland_digests(coalesce(softland_get(of, 'a'), ''));
  one text;
BEGIN
  IF cardinality(asked) = 0 THEN RETURN; END IF;
  FOREACH one IN ARRAY asked LOOP
    known := array_remove(known, one) || one;
  END LOOP;
  PERFORM softland_set(of, 'a',
    array_to_string(known[greatest(1, cardinality(known) - 127):], ''));
END $$;

-- Adds the face of a conversation to its names, as the newest of each.
CREATE OR REPLACE FUNCTION softland_name_scope(called text[], of text, seen jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  one text;
BEGIN
  FOR one IN SELECT DISTINCT unnest(called) ORDER BY 1 LOOP
    INSERT INTO softland_names AS n (name, scope, face, until) VALUES (one, of, seen, softland_keep())
      ON CONFLICT (name, scope) DO UPDATE SET face = excluded.face, until = excluded.until,
        place = nextval('softland_names_place_seq');
    DELETE FROM softland_names n WHERE n.name = one AND n.place <=
      (SELECT m.place FROM softland_names m WHERE m.name = one ORDER BY m.place DESC OFFSET 32 LIMIT 1);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION softland_apply(changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  of text := changes->>'scope';
  one jsonb;
  run jsonb;
BEGIN
  INSERT INTO softland_scopes VALUES (of, softland_keep())
    ON CONFLICT (scope) DO UPDATE SET until = excluded.until;
  FOR one IN SELECT * FROM jsonb_array_elements(changes->'pins') LOOP
    PERFORM softland_apply_pin(of, one);
  END LOOP;
  FOR one IN SELECT * FROM jsonb_array_elements(changes->'tails') LOOP
    PERFORM softland_set(of, 't' || (one->>0), one->>1);
  END LOOP;
  FOR one IN SELECT * FROM jsonb_array_elements(changes->'results') LOOP
    INSERT INTO softland_fields VALUES (of, 'r' || (one->>0), one->>1) ON CONFLICT DO NOTHING;
  END LOOP;
  PERFORM softland_append_asked(of, softland_texts(changes->'asked'));
  IF softland_given(changes->'cache') THEN PERFORM softland_set(of, 'h', changes->>'cache'); END IF;
  IF softland_given(changes->'child') AND softland_get(of, 'u' || (changes->'child'->>0)) IS NOT NULL THEN
    PERFORM softland_add(of, 'k' || (changes->'child'->>0), (changes->'child'->>1)::bigint);
  END IF;
  IF softland_given(changes->'past') THEN
    PERFORM softland_note_clues(changes->'past'->'clues', of, changes->'past');
  END IF;
  IF softland_given(changes->'run') THEN
    run := changes->'run';
    PERFORM softland_set(of, 'u' || (run->>'run'), run->>'blob');
    PERFORM softland_set(of, 'i' || (run->>'run'), run->>'id');
    PERFORM softland_set(of, 'l' || (run->>'run'), run->>'last');
    PERFORM softland_set(of, 'n', run->>'run');
    run := run || jsonb_build_object(
      'tokens', softland_add(of, 'k' || (run->>'run'), (run->>'tokens')::bigint),
      'cost', softland_add(of, 'c' || (run->>'run'), (run->>'cost')::bigint));
    PERFORM softland_note_clues(changes->'clues', of, run);
  END IF;
  IF softland_given(changes->'untaken') THEN
    INSERT INTO softland_untaken (question, scope, until)
      VALUES (changes->>'untaken', of, softland_keep());
    DELETE FROM softland_untaken u WHERE u.question = changes->>'untaken' AND u.place <= (
      SELECT v.place FROM softland_untaken v WHERE v.question = changes->>'untaken'
      ORDER BY v.place DESC OFFSET 64 LIMIT 1);
  END IF;
  -- After the clues: a fork locks them in this order, too.
  IF softland_given(changes->'named') THEN
    one := changes->'named';
    PERFORM softland_set(of, 'f', one->>'face');
    PERFORM softland_name_scope(softland_texts(one->'names'), of, (one->>'face')::jsonb);
  END IF;
  PERFORM softland_bound_scope(of);
END $$;

-- The fields of a conversation, names and values by turns.
CREATE OR REPLACE FUNCTION softland_load(of text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  fields jsonb;
BEGIN
  UPDATE softland_scopes s SET until = softland_keep()
    WHERE s.scope = of AND s.until < now() + interval '6 days';
  SELECT coalesce(jsonb_agg(each.value ORDER BY f.field, each.nth), '[]') INTO fields
    FROM softland_fields f, unnest(ARRAY[f.field, f.value]) WITH ORDINALITY AS each (value, nth)
    WHERE f.scope = of;
  RETURN fields;
END $$;

CREATE OR REPLACE FUNCTION softland_write_link(called text, link jsonb) RETURNS void LANGUAGE sql AS
  $$ INSERT INTO softland_links (id, before, items, upstream, added, until, scope)
       VALUES (called, link->>'before', link->>'items', link->>'upstream', link->>'add',
         softland_keep(), link->>'scope')
     ON CONFLICT (id) DO UPDATE SET before = excluded.before, items = excluded.items,
       upstream = excluded.upstream, added = excluded.added, until = excluded.until,
       scope = excluded.scope $$;

-- Stores a response under all its ids, as one of this conversation.
CREATE OR REPLACE FUNCTION softland_store_shown(shown jsonb, of_scope text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  link jsonb := shown->'link' || jsonb_build_object('scope', of_scope);
  ids text[] := softland_texts(shown->'ids');
  own text;
  one text;
BEGIN
  IF softland_given(shown->'conversation') THEN
    -- It follows the newest link of the present, whatever was the newest when its request came.
    SELECT l.before INTO own FROM softland_links l WHERE l.id = shown->>'conversation' FOR UPDATE;
    link := link || jsonb_build_object('before', own);
    own := (shown->>'conversation') || ':' || md5(coalesce(own, '') || E'\n' || (link->>'items'));
    PERFORM softland_write_link(shown->>'conversation',
      link || jsonb_build_object('before', own, 'items', ''));
    ids := ids || own;
  END IF;
  FOREACH one IN ARRAY ids LOOP
    PERFORM softland_write_link(one, link);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION softland_op_links(query jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  links jsonb := '[]';
  next text := query->>'id';
  bytes bigint := 0;
  link softland_links;
BEGIN
  WHILE next IS NOT NULL LOOP
    SELECT * INTO link FROM softland_links l WHERE l.id = next;
    IF NOT FOUND OR bytes > (query->>'most')::numeric THEN RETURN NULL; END IF;
    bytes := bytes + octet_length(link.items) + octet_length(next);
    links := links || jsonb_build_array(
      CASE WHEN link.before IS NULL THEN '[]'::jsonb ELSE jsonb_build_array('before', link.before) END
      || CASE WHEN link.upstream IS NULL THEN '[]'::jsonb ELSE jsonb_build_array('upstream', link.upstream) END
      || jsonb_build_array('items', link.items, 'add', link.added));
    next := link.before;
  END LOOP;
  RETURN links;
END $$;
