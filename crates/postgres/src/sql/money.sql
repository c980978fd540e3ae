-- Accounts, the windows of budgets, and reservations with leases. Rows of accounts are locked in the
-- order of their names, all of a request in one statement.

-- Larger than every amount.
CREATE OR REPLACE FUNCTION softland_plenty() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 4000000000000000 $$;

CREATE OR REPLACE FUNCTION softland_at(asked jsonb) RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT coalesce((asked->>'at')::bigint, softland_now()) $$;

-- The time until which a row lives at least, moved on in steps: an index holds it.
CREATE OR REPLACE FUNCTION softland_later(until timestamptz, lives interval) RETURNS timestamptz
LANGUAGE sql STABLE AS
  $$ SELECT CASE WHEN until >= now() + lives THEN until ELSE now() + lives + interval '6 hours' END $$;

CREATE OR REPLACE FUNCTION softland_balances(names text[]) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_array(coalesce(a.spent, 0), coalesce(a.reserved, 0),
    coalesce(a.tokens_spent, 0), coalesce(a.tokens_reserved, 0)) ORDER BY n.nth), '[]')
  FROM unnest(names) WITH ORDINALITY AS n (name, nth) LEFT JOIN softland_accounts a USING (name) $$;

-- The account of a claim: of a budget, that of the window at this time.
CREATE OR REPLACE FUNCTION softland_claimed(claim jsonb, at bigint, OUT name text, OUT first bigint,
  OUT last bigint, OUT known boolean) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
  win jsonb := claim->'window';
BEGIN
  name := claim->>'account';
  known := true;
  IF NOT softland_given(win) THEN RETURN; END IF;
  IF win ? 'from_first' THEN
    SELECT b.first, b.last INTO first, last FROM softland_begun b
      WHERE b.account = claim->>'account' AND at < b.last;
    IF NOT FOUND THEN
      first := at;
      last := at + (win->>'from_first')::bigint;
    END IF;
  ELSE
    SELECT (span->>0)::bigint, (span->>1)::bigint INTO first, last
      FROM jsonb_array_elements(win->'calendar') AS span
      WHERE (span->>0)::bigint <= at AND at < (span->>1)::bigint;
    IF NOT FOUND THEN
      -- A request that has waited beyond the last window that it knows.
      known := false;
      first := (win->'calendar'->-1->>0)::bigint;
      last := (win->'calendar'->-1->>1)::bigint;
    END IF;
  END IF;
  IF first IS NOT NULL THEN name := name || '@' || first; END IF;
END $$;

-- What is kept back of a claim's limits, with what one more run holds back.
CREATE OR REPLACE FUNCTION softland_kept_of(of softland_accounts, claim jsonb, holds jsonb,
  OUT money bigint, OUT tokens bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
  own softland_kept;
BEGIN
  money := coalesce(of.kept, 0);
  tokens := coalesce(of.tokens_kept, 0);
  IF softland_given(holds) THEN
    SELECT * INTO own FROM softland_kept k WHERE k.name = of.name AND k.run = holds->>'run';
    money := greatest(money - coalesce(own.money, 0), 0) + (holds->>'money')::bigint;
    tokens := greatest(tokens - coalesce(own.tokens, 0), 0) + (holds->>'tokens')::bigint;
  END IF;
  money := least(money, coalesce((claim->>'limit')::bigint, 0) / 20);
  tokens := least(tokens, coalesce((claim->>'tokens_limit')::bigint, 0) / 20);
END $$;

CREATE OR REPLACE FUNCTION softland_forget_kept(names text[], of_run text) RETURNS void LANGUAGE sql AS $$
  WITH gone AS (DELETE FROM softland_kept k WHERE k.name = ANY (names) AND k.run = of_run RETURNING *)
  UPDATE softland_accounts a SET kept = a.kept - gone.money, tokens_kept = a.tokens_kept - gone.tokens
    FROM gone WHERE gone.name = a.name $$;

-- Keeps back what an open run holds back for its answer.
CREATE OR REPLACE FUNCTION softland_keep_for_run(of text, holds jsonb, at bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  PERFORM softland_forget_kept(ARRAY[of], holds->>'run');
  INSERT INTO softland_kept VALUES (of, holds->>'run', (holds->>'money')::bigint,
    (holds->>'tokens')::bigint, at);
  UPDATE softland_accounts a SET kept = a.kept + (holds->>'money')::bigint,
    tokens_kept = a.tokens_kept + (holds->>'tokens')::bigint WHERE a.name = of;
  UPDATE softland_accounts a SET pruned = at WHERE a.name = of AND at - a.pruned >= 60000;
  IF FOUND THEN
    DELETE FROM softland_kept k WHERE k.name = of AND at - k.used >= 600000;
    UPDATE softland_accounts a SET (kept, tokens_kept) = (SELECT coalesce(sum(k.money), 0),
      coalesce(sum(k.tokens), 0) FROM softland_kept k WHERE k.name = of) WHERE a.name = of;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION softland_tokens_at(scale jsonb, money bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT (scale->>'input')::bigint + CASE WHEN (scale->>'output_pico')::bigint = 0
    THEN (scale->>'output')::bigint
    ELSE least((scale->>'output')::bigint, div(greatest(money - (scale->>'input_cost')::bigint, 0)::numeric * 1000,
      (scale->>'output_pico')::numeric)::bigint) END $$;

CREATE OR REPLACE FUNCTION softland_money_at(scale jsonb, tokens bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN tokens < (scale->>'input')::bigint THEN 0
    WHEN tokens - (scale->>'input')::bigint >= (scale->>'output')::bigint THEN softland_plenty()
    WHEN (scale->>'output_pico')::bigint = 0 THEN 0
    ELSE (scale->>'input_cost')::bigint + div((tokens - (scale->>'input')::bigint)::numeric
      * (scale->>'output_pico')::numeric, 1000)::bigint END $$;

-- The room of a claim; nothing if it has no limit.
CREATE OR REPLACE FUNCTION softland_room(claim jsonb, scale jsonb, at bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
  c record;
  kept record;
  holds jsonb := claim->'window'->'holds';
  row softland_accounts;
  money_limit bigint := (claim->>'limit')::bigint;
  tokens_limit bigint := (claim->>'tokens_limit')::bigint;
  unspent bigint := softland_plenty();
  remaining bigint := softland_plenty();
  rest bigint;
  left_of_tokens bigint;
  of_tokens boolean := false;
BEGIN
  IF money_limit IS NULL AND tokens_limit IS NULL THEN RETURN NULL; END IF;
  SELECT * INTO c FROM softland_claimed(claim, at);
  SELECT * INTO row FROM softland_accounts a WHERE a.name = c.name;
  row.name := c.name;
  SELECT 0::bigint AS money, 0::bigint AS tokens INTO kept;
  IF softland_given(holds) THEN SELECT * INTO kept FROM softland_kept_of(row, claim, holds); END IF;
  IF money_limit IS NOT NULL THEN
    unspent := greatest(money_limit - kept.money - coalesce(row.spent, 0), 0);
    remaining := greatest(unspent - coalesce(row.reserved, 0), 0);
  END IF;
  IF tokens_limit IS NOT NULL THEN
    rest := greatest(tokens_limit - kept.tokens - coalesce(row.tokens_spent, 0), 0);
    left_of_tokens := softland_money_at(scale, greatest(rest - coalesce(row.tokens_reserved, 0), 0));
    unspent := least(unspent, softland_money_at(scale, rest));
    IF money_limit IS NULL OR left_of_tokens < remaining THEN
      remaining := left_of_tokens;
      of_tokens := true;
    END IF;
  END IF;
  RETURN jsonb_build_object('claim', claim, 'name', c.name, 'first', c.first, 'last', c.last,
    'left', remaining, 'unspent', unspent, 'leases', coalesce(row.leases, 0), 'of_tokens', of_tokens,
    'kept', kept.money, 'kept_tokens', kept.tokens);
END $$;

-- The room for a request's claims, what each of its limited accounts has left, and the number of others
-- that wait for one of them.
CREATE OR REPLACE FUNCTION softland_headroom(wanted jsonb, at bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
  tightest jsonb;
  room jsonb;
  claim jsonb;
  unspent bigint := softland_plenty();
  leases bigint := 0;
  lefts jsonb := '{}';
  waiting bigint := 0;
BEGIN
  FOR claim IN SELECT * FROM jsonb_array_elements(wanted->'claims') LOOP
    room := softland_room(claim, wanted->'ask'->'scale', at);
    CONTINUE WHEN room IS NULL;
    IF tightest IS NULL OR (room->>'left')::bigint < (tightest->>'left')::bigint THEN tightest := room; END IF;
    unspent := least(unspent, (room->>'unspent')::bigint);
    leases := greatest(leases, (room->>'leases')::bigint);
    lefts := lefts || jsonb_build_object(claim->>'account', room->'left');
    waiting := greatest(waiting, (SELECT count(*) - 1 FROM softland_waits w WHERE w.account = claim->>'account'));
  END LOOP;
  RETURN tightest || jsonb_build_object('unspent', unspent, 'leases', leases, 'waiting', waiting, 'lefts', lefts);
END $$;

-- Takes the line, unless another transaction has it or has looked at it just now: looks take a tenth of
-- the time at most, however many wait. Nobody waits for the line, since its holder waits for accounts.
CREATE OR REPLACE FUNCTION softland_take_line() RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT abs(softland_now() - l.at) >= least(greatest(10 * l.took, 15), 250)
    AND pg_try_advisory_xact_lock(4850179) FROM softland_looked l $$;

-- Locks the windows of these accounts that begin with their first request, so that one transaction at a
-- time begins one. What is read after this shows a window that another has begun meanwhile.
CREATE OR REPLACE FUNCTION softland_lock_windows(accounts text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  one text;
BEGIN
  FOR one IN SELECT DISTINCT unnest(accounts) ORDER BY 1 LOOP
    PERFORM 1 FROM softland_begun b WHERE b.account = one FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      -- A window that has ended before every other.
      INSERT INTO softland_begun VALUES (one, 0, 0, now() + interval '2 days') ON CONFLICT DO NOTHING;
      PERFORM 1 FROM softland_begun b WHERE b.account = one FOR NO KEY UPDATE;
    END IF;
  END LOOP;
END $$;

-- The accounts of claims whose windows begin with their first request.
CREATE OR REPLACE FUNCTION softland_begins_windows(claims jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(c->>'account') FROM jsonb_array_elements(claims) AS c WHERE c->'window' ? 'from_first' $$;

-- Locks the accounts that operations will change, in the order of their names, so that no two
-- transactions wait for each other. Rows that do not exist yet are locked as they are made. Returns the
-- time at which the line is to be looked at after the operations, if it is.
CREATE OR REPLACE FUNCTION softland_lock_for(operations jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  names text[];
  looks_at bigint;
BEGIN
  SELECT softland_at(one) INTO looks_at FROM jsonb_array_elements(operations) AS one
    WHERE one->>'op' IN ('reserve', 'poll') LIMIT 1;
  IF looks_at IS NOT NULL AND NOT softland_take_line() THEN looks_at := NULL; END IF;
  PERFORM softland_lock_windows(softland_begins_windows(jsonb_agg(each.claim))) FROM (
    SELECT c AS claim FROM jsonb_array_elements(operations) AS one, jsonb_array_elements(one->'wanted'->'claims') AS c
      WHERE one->>'op' = 'reserve'
    UNION ALL SELECT w.claim FROM (SELECT DISTINCT v.claim FROM softland_waits v WHERE looks_at IS NOT NULL) AS w) AS each;
  WITH op AS (SELECT one, one->>'op' AS kind FROM jsonb_array_elements(operations) AS one),
  claims AS (
    SELECT c AS claim, softland_at(op.one) AS at FROM op, jsonb_array_elements(op.one->'wanted'->'claims') AS c
      WHERE op.kind = 'reserve'
    UNION ALL SELECT w.claim, looks_at FROM (SELECT DISTINCT v.claim FROM softland_waits v
      WHERE looks_at IS NOT NULL) AS w),
  held AS (
    SELECT r.accounts FROM softland_reservations r
      WHERE r.id IN (SELECT op.one->>'id' FROM op WHERE op.kind IN ('settle', 'lower', 'leave'))
    UNION ALL SELECT r.accounts FROM (SELECT e.accounts FROM softland_reservations e,
      (SELECT softland_at(op.one) AS now FROM op WHERE op.kind IN ('reserve', 'renew') LIMIT 1) AS asks
      WHERE NOT e.booked AND e.ends <= asks.now ORDER BY e.ends LIMIT 100) AS r)
  SELECT array_agg(DISTINCT each.name) INTO names FROM (
    SELECT (softland_claimed(claims.claim, claims.at)).name FROM claims
    UNION ALL SELECT unnest(held.accounts) FROM held) AS each;
  PERFORM 1 FROM softland_accounts a WHERE a.name = ANY (names) ORDER BY a.name FOR NO KEY UPDATE;
  RETURN looks_at;
END $$;

-- Makes the rows of a request's accounts, and locks them in the order of their names.
CREATE OR REPLACE FUNCTION softland_lock_accounts(wanted jsonb, at bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  c record;
BEGIN
  PERFORM softland_lock_windows(softland_begins_windows(wanted->'claims'));
  FOR c IN SELECT DISTINCT each.name, each.last FROM jsonb_array_elements(wanted->'claims') AS claim,
    softland_claimed(claim, at) AS each ORDER BY 1 LOOP
    PERFORM 1 FROM softland_accounts a WHERE a.name = c.name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      INSERT INTO softland_accounts (name, until) VALUES (c.name, now() + interval '2 days')
        ON CONFLICT DO NOTHING;
      PERFORM 1 FROM softland_accounts a WHERE a.name = c.name FOR NO KEY UPDATE;
    END IF;
  END LOOP;
END $$;

-- Reserves money, and the tokens that go with it, on all accounts of a request, which are locked.
CREATE OR REPLACE FUNCTION softland_grant(wanted jsonb, money bigint, at bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  ask jsonb := wanted->'ask';
  amount_tokens bigint := CASE WHEN money = (ask->>'most')::bigint THEN (ask->>'most_tokens')::bigint
    ELSE softland_tokens_at(ask->'scale', money) END;
  names text[] := '{}';
  claim jsonb;
  c record;
  lives interval;
BEGIN
  FOR claim IN SELECT * FROM jsonb_array_elements(wanted->'claims') LOOP
    SELECT * INTO c FROM softland_claimed(claim, at);
    lives := interval '2 days';
    IF c.last IS NOT NULL THEN
      lives := greatest(lives, ((c.last - at) / 1000) * interval '1 second' + interval '1 day');
    END IF;
    IF claim->'window' ? 'from_first' THEN
      INSERT INTO softland_begun VALUES (claim->>'account', c.first, c.last, now() + lives)
        ON CONFLICT (account) DO UPDATE SET first = excluded.first, last = excluded.last, until = excluded.until;
    END IF;
    UPDATE softland_accounts a SET reserved = a.reserved + money,
      tokens_reserved = a.tokens_reserved + amount_tokens, leases = a.leases + 1,
      until = softland_later(a.until, lives) WHERE a.name = c.name;
    IF softland_given(claim->'window'->'holds') THEN
      PERFORM softland_keep_for_run(c.name, claim->'window'->'holds', at);
    END IF;
    names := names || c.name;
  END LOOP;
  INSERT INTO softland_reservations VALUES (wanted->>'id', names, money, amount_tokens,
      (wanted->>'lease')::bigint, at + (wanted->>'lease')::bigint, false, now() + interval '2 days')
    ON CONFLICT (id) DO UPDATE SET accounts = excluded.accounts, money = excluded.money,
      tokens = excluded.tokens, ends = excluded.ends, booked = false, until = excluded.until;
END $$;

-- Changes accounts in the order of their names, so that no two transactions wait for each other.
CREATE OR REPLACE FUNCTION softland_book(names text[], of_money bigint, of_tokens bigint, actual bigint,
  actual_tokens bigint, ends_lease boolean) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  one text;
BEGIN
  FOR one IN SELECT DISTINCT unnest(names) ORDER BY 1 LOOP
    UPDATE softland_accounts a SET reserved = a.reserved - of_money,
      tokens_reserved = a.tokens_reserved - of_tokens, spent = a.spent + actual,
      tokens_spent = a.tokens_spent + actual_tokens, leases = a.leases - ends_lease::int,
      until = softland_later(a.until, interval '2 days')
      WHERE a.name = one;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION softland_settle(of text, money bigint, tokens bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  held softland_reservations;
BEGIN
  DELETE FROM softland_reservations r WHERE r.id = of RETURNING r.* INTO held;
  IF NOT FOUND THEN RETURN; END IF;
  IF held.booked THEN
    -- The lease had expired: what was booked then is corrected.
    PERFORM softland_book(held.accounts, 0, 0, money - held.money, tokens - held.tokens, false);
  ELSE
    PERFORM softland_book(held.accounts, held.money, held.tokens, money, tokens, true);
  END IF;
END $$;

-- Ends the leases that have expired. Whether a request was sent is not known, so that each is booked
-- whole.
CREATE OR REPLACE FUNCTION softland_expire_leases(at bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  held softland_reservations;
BEGIN
  FOR held IN SELECT * FROM softland_reservations r WHERE NOT r.booked AND r.ends <= at
    ORDER BY r.ends LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
    UPDATE softland_reservations r SET booked = true WHERE r.id = held.id;
    PERFORM softland_book(held.accounts, held.money, held.tokens, held.money, held.tokens, true);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION softland_level(wanted jsonb, since bigint, room jsonb, at bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN at - since >= (wanted->>'in_all')::bigint
      OR coalesce((room->>'unspent')::bigint, softland_plenty()) < (wanted->'ask'->>'enough')::bigint THEN 'least'
    WHEN at - since >= (wanted->>'for_most')::bigint
      OR coalesce((room->>'unspent')::bigint, softland_plenty()) < (wanted->'ask'->>'most')::bigint THEN 'enough'
    ELSE 'most' END $$;

-- The amount that a waiting request takes of this room, if any.
CREATE OR REPLACE FUNCTION softland_taken(wanted jsonb, since bigint, room jsonb, at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
#variable_conflict use_variable
DECLARE
  most bigint := (wanted->'ask'->>'most')::bigint;
  enough bigint := (wanted->'ask'->>'enough')::bigint;
  remaining bigint := (room->>'left')::bigint;
  waiting bigint := (room->>'waiting')::bigint;
  level text := softland_level(wanted, since, room, at);
BEGIN
  IF room IS NULL THEN RETURN most; END IF;
  IF remaining >= most AND (level = 'most' OR waiting = 0) THEN RETURN most; END IF;
  IF level = 'most' THEN RETURN NULL; END IF;
  IF remaining >= enough THEN
    -- The others may come again: each takes a share, so that no request holds everything.
    RETURN greatest(enough, least(remaining / (waiting + (room->>'leases')::bigint + 1), most, remaining));
  END IF;
  IF level = 'least' AND remaining >= (wanted->'ask'->>'least')::bigint THEN RETURN remaining; END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION softland_granted(of text) RETURNS jsonb LANGUAGE sql STABLE AS
  $$ SELECT jsonb_build_array('granted', to_jsonb(r.accounts), r.money, r.tokens)
     FROM softland_reservations r WHERE r.id = of AND NOT r.booked $$;

-- Why a request gets nothing.
CREATE OR REPLACE FUNCTION softland_shortfall(wanted jsonb, room jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(room->>'name',
    greatest(coalesce((room->'claim'->>'limit')::bigint, 0) - (room->>'kept')::bigint, 0),
    b.balance->0, b.balance->1, wanted->'ask'->>'least',
    CASE WHEN (room->>'of_tokens')::boolean THEN jsonb_build_array(
      greatest((room->'claim'->>'tokens_limit')::bigint - (room->>'kept_tokens')::bigint, 0),
      b.balance->2, b.balance->3,
      softland_tokens_at(wanted->'ask'->'scale', (wanted->'ask'->>'least')::bigint))
      ELSE '[]'::jsonb END,
    CASE WHEN room->>'first' IS NULL THEN '[]'::jsonb
      ELSE jsonb_build_array(room->'first', room->'last') END)
  FROM (SELECT softland_balances(ARRAY[room->>'name'])->0 AS balance) AS b $$;

-- Adds a request to the end of the line. Its claims are there without what differs from run to run.
CREATE OR REPLACE FUNCTION softland_join_line(wanted jsonb, at bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  own bigint;
BEGIN
  INSERT INTO softland_line AS l (id, wanted, since, seen) VALUES (wanted->>'id', wanted, at, at)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen RETURNING l.place INTO own;
  INSERT INTO softland_waits SELECT c->>'account', own,
    jsonb_build_object('account', c->'account', 'window', c->'window') #- '{window,holds}'
    FROM jsonb_array_elements(wanted->'claims') AS c ON CONFLICT DO NOTHING;
END $$;

-- Takes a request out of the line: what it gets is reserved, or why it gets nothing is noted where it
-- asks.
CREATE OR REPLACE FUNCTION softland_decide(place softland_line, takes bigint, room jsonb, is_spent boolean,
  at bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  IF takes IS NOT NULL THEN
    DELETE FROM softland_line l WHERE l.place = place.place;
    PERFORM softland_grant(place.wanted, takes, at);
  ELSE
    DELETE FROM softland_waits w WHERE w.place = place.place;
    UPDATE softland_line l SET verdict = jsonb_build_array(CASE WHEN is_spent THEN 'spent' ELSE 'busy' END,
      softland_shortfall(place.wanted, room)) WHERE l.place = place.place;
  END IF;
END $$;

-- Serves all requests that wait, in order of arrival. One that has waited for long is not overtaken on
-- the accounts that it lacks. At the end of a request's patience the order no longer holds.
CREATE OR REPLACE FUNCTION softland_serve_line(at bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  began timestamptz := clock_timestamp();
  place softland_line;
  closed text[] := '{}';
  room jsonb;
  takes bigint;
  is_over boolean;
  is_spent boolean;
BEGIN
  DELETE FROM softland_line l WHERE at - l.seen > 5000;
  FOR place IN SELECT * FROM softland_line l WHERE l.verdict IS NULL ORDER BY l.place LOOP
    room := softland_headroom(place.wanted, at);
    is_spent := coalesce((room->>'unspent')::bigint < (place.wanted->'ask'->>'least')::bigint, false);
    is_over := is_spent OR at >= place.since + (place.wanted->>'in_all')::bigint;
    takes := NULL;
    IF is_over OR NOT coalesce(room->'lefts' ?| closed, false) THEN
      takes := softland_taken(place.wanted, place.since, room, at);
    END IF;
    IF takes IS NOT NULL THEN
      -- It may have come since the accounts of the line were locked.
      PERFORM softland_lock_accounts(place.wanted, at);
      room := softland_headroom(place.wanted, at);
      takes := softland_taken(place.wanted, place.since, room, at);
    END IF;
    IF takes IS NOT NULL OR is_over THEN
      PERFORM softland_decide(place, takes, room, is_spent, at);
    ELSIF at - place.since >= 2000 THEN
      closed := closed || (SELECT coalesce(array_agg(each.key), '{}') FROM jsonb_each_text(room->'lefts') AS each
        WHERE each.value::bigint < (place.wanted->'ask'->>softland_level(place.wanted, place.since, room, at))::bigint);
    END IF;
  END LOOP;
  UPDATE softland_looked l SET at = softland_now(),
    took = extract(epoch FROM clock_timestamp() - began) * 1000;
END $$;

-- What was decided on a request. What is told of it stands in the line no more.
CREATE OR REPLACE FUNCTION softland_decided(of text) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  answer jsonb := softland_granted(of);
BEGIN
  IF answer IS NOT NULL THEN RETURN answer; END IF;
  SELECT coalesce(l.verdict, '["wait"]') INTO answer FROM softland_line l WHERE l.id = of;
  IF answer->>0 <> 'wait' THEN DELETE FROM softland_line l WHERE l.id = of; END IF;
  -- Another transaction may have granted it between the two looks, and have taken it out of the line.
  RETURN coalesce(answer, softland_granted(of), '["away", "the place is gone"]');
END $$;

-- Whether nobody waits for one of the accounts, and each has room for the most.
CREATE OR REPLACE FUNCTION softland_is_free(wanted jsonb, at bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT 1 FROM softland_waits w WHERE w.account IN (SELECT mine->>'account'
      FROM jsonb_array_elements(softland_is_free.wanted->'claims') AS mine))
    AND coalesce((softland_headroom(wanted, at)->>'left')::bigint >= (wanted->'ask'->>'most')::bigint, true) $$;

CREATE OR REPLACE FUNCTION softland_try_reserve(wanted jsonb, at bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  IF EXISTS (SELECT 1 FROM jsonb_array_elements(wanted->'claims') AS c, softland_claimed(c, at) AS each
    WHERE NOT each.known) THEN
    RETURN '["away", "the bounds of a window are those of another time"]';
  END IF;
  PERFORM softland_lock_accounts(wanted, at);
  IF softland_is_free(wanted, at) THEN
    PERFORM softland_grant(wanted, (wanted->'ask'->>'most')::bigint, at);
    RETURN softland_granted(wanted->>'id');
  END IF;
  PERFORM softland_join_line(wanted, at);
  RETURN '["wait"]';
END $$;

CREATE OR REPLACE FUNCTION softland_open_after(answer jsonb, asked jsonb, by_host text) RETURNS jsonb
LANGUAGE sql AS $$
  SELECT CASE WHEN answer->>0 <> 'wait' AND softland_given(asked->'opens')
    THEN softland_open_run(asked->'opens', by_host) ELSE '[]'::jsonb END $$;

CREATE OR REPLACE FUNCTION softland_op_reserve(asked jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  at bigint := softland_at(asked);
  wanted jsonb := asked->'wanted';
  answer jsonb;
  names text[];
  one text;
BEGIN
  PERFORM softland_expire_leases(at);
  answer := softland_granted(wanted->>'id');
  IF answer IS NULL AND asked->>'spent_before' <> '0' THEN
    FOR one IN SELECT c->>'account' FROM jsonb_array_elements(wanted->'claims') AS c
      WHERE NOT softland_given(c->'window') ORDER BY 1 LOOP
      INSERT INTO softland_accounts AS a (name, spent, until)
        VALUES (one, (asked->>'spent_before')::bigint, now() + interval '2 days')
        ON CONFLICT (name) DO UPDATE SET spent = a.spent + excluded.spent;
    END LOOP;
  END IF;
  SELECT coalesce(array_agg(each.name ORDER BY c.nth), '{}') INTO names
    FROM jsonb_array_elements(asked->'balances') WITH ORDINALITY AS c (claim, nth),
      softland_claimed(c.claim, at) AS each;
  DECLARE
    balances jsonb := softland_balances(names);
  BEGIN
    IF answer IS NULL THEN answer := softland_try_reserve(wanted, at); END IF;
    RETURN jsonb_build_array(answer, balances, softland_open_after(answer, asked, by_host));
  END;
END $$;

-- Asks again for a request that waits.
CREATE OR REPLACE FUNCTION softland_op_poll(asked jsonb, by_host text) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  at bigint := softland_at(asked);
  answer jsonb := softland_decided(asked->>'id');
BEGIN
  IF answer->>0 = 'wait' THEN
    UPDATE softland_line l SET seen = at WHERE l.place IN (
      SELECT own.place FROM softland_line own WHERE own.id = asked->>'id' AND at - own.seen >= 1000
      FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN jsonb_build_array(answer, softland_open_after(answer, asked, by_host));
END $$;

-- Gives up a place, and what was granted to it.
CREATE OR REPLACE FUNCTION softland_op_leave(note jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM softland_line l WHERE l.id = note->>'id';
  PERFORM softland_settle(note->>'id', 0, 0);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION softland_op_settle(note jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  PERFORM softland_settle(note->>'id', (note->>'money')::bigint, (note->>'tokens')::bigint);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION softland_op_lower(note jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  held softland_reservations;
  by_money bigint;
  by_tokens bigint;
BEGIN
  SELECT * INTO held FROM softland_reservations r WHERE r.id = note->>'id' AND NOT r.booked FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  by_money := greatest(held.money - (note->>'money')::bigint, 0);
  by_tokens := greatest(held.tokens - (note->>'tokens')::bigint, 0);
  UPDATE softland_reservations r SET money = r.money - by_money, tokens = r.tokens - by_tokens
    WHERE r.id = held.id;
  PERFORM softland_book(held.accounts, by_money, by_tokens, 0, 0, false);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION softland_op_renew(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  UPDATE softland_reservations r SET ends = softland_at(asked) + r.lease, until = now() + interval '2 days'
    WHERE r.id = ANY (softland_texts(asked->'held')) AND NOT r.booked;
  PERFORM softland_expire_leases(softland_at(asked));
  RETURN NULL;
END $$;

-- The windows of claims: their spans, whether they are unused, balances and what is kept.
CREATE OR REPLACE FUNCTION softland_op_windows(asked jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  at bigint := softland_at(asked);
  windows jsonb := '[]';
  claim jsonb;
  c record;
  kept record;
  row softland_accounts;
BEGIN
  PERFORM softland_expire_leases(at);
  FOR claim IN SELECT * FROM jsonb_array_elements(asked->'claims') LOOP
    SELECT * INTO c FROM softland_claimed(claim, at);
    SELECT * INTO row FROM softland_accounts a WHERE a.name = c.name;
    SELECT * INTO kept FROM softland_kept_of(row, claim, NULL);
    windows := windows || jsonb_build_array(CASE WHEN c.first IS NULL THEN '[]'::jsonb
      ELSE jsonb_build_array(c.first, c.last, (row.name IS NULL)::int,
        softland_balances(ARRAY[c.name])->0, kept.money, kept.tokens) END);
  END LOOP;
  RETURN windows;
END $$;
