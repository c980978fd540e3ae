-- Accounts, the windows of budgets, and reservations with leases.
--
-- An account is the hash `a`: s and ts what is spent in money and tokens, r and tr what is reserved, n
-- the number of open leases, ks and kt what open runs hold back for their answers, of which `h` has
-- each. A reservation is the hash `R`; `leases` has the end of each lease. `line` has the requests
-- that wait, in their order, and `W` what each wants.

local LEASES, LINE, SEEN, FREED = TAG .. ':leases', TAG .. ':line', TAG .. ':seen', TAG .. ':freed'
local KEPT_SHARE = 20
local OVERTAKEN_MS, IDLE_RUN_MS = 2000, 600000
-- Milliseconds after which a waiting request that does not ask is gone.
local SILENT_MS = 5000
local KEEP_RUN_ACCOUNT = 2 * DAY
-- Larger than every amount; below 2^53, so that sums with it stay exact.
local PLENTY = 4e15

-- The time in milliseconds: the store's, or in tests that of the calls.
local function now_ms(given)
  if is_given(given) then return tonumber(given) end
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function whole(number) return string.format('%.0f', number) end

local function numeric(text) return is_given(text) and tonumber(text) or nil end

-- Lets an account live for at least so many seconds.
local function keep_account(name, seconds)
  local key = name_key('a', name)
  if call('TTL', key) < seconds then call('EXPIRE', key, seconds) end
end

local function read_account(name)
  local fields = call('HMGET', name_key('a', name), 's', 'r', 'ts', 'tr', 'n', 'ks', 'kt')
  local account = {}
  for n, field in ipairs({ 's', 'r', 'ts', 'tr', 'n', 'ks', 'kt' }) do
    account[field] = tonumber(fields[n] or 0)
  end
  return account
end

local function read_balance(name)
  local fields = call('HMGET', name_key('a', name), 's', 'r', 'ts', 'tr')
  for n = 1, 4 do fields[n] = fields[n] or '0' end
  return fields
end

local function read_balances(names)
  local balances = {}
  for n, name in ipairs(names) do balances[n] = read_balance(name) end
  return balances
end

local function add(name, field, amount)
  if amount ~= '0' then call('HINCRBY', name_key('a', name), field, amount) end
end

local function negated(amount)
  if amount == '0' then return '0' end
  return string.sub(amount, 1, 1) == '-' and string.sub(amount, 2) or '-' .. amount
end

local function note_freed()
  call('INCR', FREED)
  keep(FREED)
end

-- Returns the account of a claim and its window: of a budget, that of the window.
local function find_claimed(claim, at)
  local window = claim.window
  if not is_given(window) then return claim.account end
  if window.from_first then
    local open = call('HMGET', name_key('b', claim.account), 'start', 'end')
    local first, last = at, at + window.from_first
    if open[1] and at < tonumber(open[2]) then first, last = tonumber(open[1]), tonumber(open[2]) end
    return claim.account .. '@' .. whole(first), { first, last }
  end
  local spans = window.calendar
  for _, span in ipairs(spans) do
    if span[1] <= at and at < span[2] then
      return claim.account .. '@' .. whole(span[1]), span, true
    end
  end
  -- A request that has waited beyond the last window that it knows.
  local last = spans[#spans]
  if not last then return claim.account end
  return claim.account .. '@' .. whole(last[1]), last
end

local function knows_windows(claims, at)
  for _, claim in ipairs(claims) do
    if is_given(claim.window) and claim.window.calendar then
      local _, _, is_known = find_claimed(claim, at)
      if not is_known then return false end
    end
  end
  return true
end

local function parse_kept(text)
  local money, tokens, at = string.match(text or '', '^(%d+):(%d+):(%d+)$')
  return money or '0', tokens or '0', tonumber(at) or 0
end

-- Returns what is kept back of a claim's limits, with what one more run holds back.
local function kept_of(name, account, claim, run)
  local money, tokens = account.ks, account.kt
  if is_given(run) then
    local own_money, own_tokens = parse_kept(call('HGET', name_key('h', name), run.run))
    money = math.max(0, money - tonumber(own_money)) + tonumber(run.money)
    tokens = math.max(0, tokens - tonumber(own_tokens)) + tonumber(run.tokens)
  end
  local limit, tokens_limit = numeric(claim.limit) or 0, numeric(claim.tokens_limit) or 0
  return math.min(money, math.floor(limit / KEPT_SHARE)),
    math.min(tokens, math.floor(tokens_limit / KEPT_SHARE))
end

local function forget_kept(name, run)
  local key = name_key('h', name)
  local kept = call('HGET', key, run)
  if not kept then return end
  local money, tokens = parse_kept(kept)
  add(name, 'ks', negated(money))
  add(name, 'kt', negated(tokens))
  call('HDEL', key, run)
end

-- Keeps back what an open run holds back for its answer.
local function keep_for_run(name, holds, at, seconds)
  forget_kept(name, holds.run)
  local key = name_key('h', name)
  add(name, 'ks', holds.money)
  add(name, 'kt', holds.tokens)
  call('HSET', key, holds.run, holds.money .. ':' .. holds.tokens .. ':' .. whole(at))
  call('EXPIRE', key, seconds)
  local pruned = tonumber(call('HGET', name_key('a', name), 'kp') or 0)
  if at - pruned < 60000 then return end
  call('HSET', name_key('a', name), 'kp', whole(at))
  local runs = call('HGETALL', key)
  for n = 1, #runs, 2 do
    local _, _, used = parse_kept(runs[n + 1])
    if at - used >= IDLE_RUN_MS then forget_kept(name, runs[n]) end
  end
end

local function tokens_at(scale, money)
  local pico, output = tonumber(scale.output_pico), tonumber(scale.output)
  if pico > 0 then
    local rest = math.max(0, money - tonumber(scale.input_cost))
    output = math.min(output, math.floor(rest * 1000 / pico))
  end
  return tonumber(scale.input) + output
end

local function money_at(scale, tokens)
  local output, pico = tokens - tonumber(scale.input), tonumber(scale.output_pico)
  if output < 0 then return 0 end
  if output >= tonumber(scale.output) then return PLENTY end
  if pico == 0 then return 0 end
  return tonumber(scale.input_cost) + math.floor(output * pico / 1000)
end

-- Returns the room of a claim, or nothing if it has no limit.
local function claim_room(claim, scale, at)
  local limit, tokens_limit = numeric(claim.limit), numeric(claim.tokens_limit)
  if not limit and not tokens_limit then return nil end
  local name, span = find_claimed(claim, at)
  local account = read_account(name)
  local kept, kept_tokens = 0, 0
  local holds = is_given(claim.window) and claim.window.holds
  if is_given(holds) then kept, kept_tokens = kept_of(name, account, claim, holds) end
  local room = { claim = claim, name = name, span = span, account = account, leases = account.n,
    left = PLENTY, unspent = PLENTY, kept = kept, kept_tokens = kept_tokens }
  if limit then
    room.unspent = math.max(0, limit - kept - account.s)
    room.left = math.max(0, room.unspent - account.r)
  end
  if tokens_limit then
    local unspent = math.max(0, tokens_limit - kept_tokens - account.ts)
    local left = money_at(scale, math.max(0, unspent - account.tr))
    room.unspent = math.min(room.unspent, money_at(scale, unspent))
    if not limit or left < room.left then room.left, room.of_tokens = left, true end
  end
  return room
end

-- Returns the room that is available for a request's claims, and the number of other requests that
-- wait for one of its accounts.
local function find_headroom(wanted, at)
  local tightest, unspent, leases, waiting = nil, PLENTY, 0, 0
  for _, claim in ipairs(wanted.claims) do
    local room = claim_room(claim, wanted.ask.scale, at)
    if room then
      if not tightest or room.left < tightest.left then tightest = room end
      unspent, leases = math.min(unspent, room.unspent), math.max(leases, room.leases)
      waiting = math.max(waiting, call('ZCARD', name_key('w', claim.account)) - 1)
    end
  end
  if tightest then
    tightest.unspent, tightest.leases, tightest.waiting = unspent, leases, math.max(0, waiting)
  end
  return tightest
end

-- Reserves money, and the tokens that go with it, on all accounts of a request.
local function grant_claims(wanted, money, at)
  local ask = wanted.ask
  local tokens = money == ask.most and ask.most_tokens or whole(tokens_at(ask.scale, tonumber(money)))
  local names = {}
  for n, claim in ipairs(wanted.claims) do
    local name, span = find_claimed(claim, at)
    local seconds = KEEP_RUN_ACCOUNT
    if span then seconds = math.max(seconds, math.ceil((span[2] - at) / 1000) + DAY) end
    if span and claim.window.from_first then
      local begun = name_key('b', claim.account)
      call('HSET', begun, 'start', whole(span[1]), 'end', whole(span[2]))
      call('EXPIRE', begun, seconds)
    end
    add(name, 'r', money)
    add(name, 'tr', tokens)
    add(name, 'n', 1)
    keep_account(name, seconds)
    if span and is_given(claim.window.holds) then
      keep_for_run(name, claim.window.holds, at, seconds)
    end
    names[n] = name
  end
  local key = name_key('R', wanted.id)
  call('HSET', key, 'accounts', cjson.encode(names), 'money', money, 'tokens', tokens,
    'lease', wanted.lease)
  call('EXPIRE', key, KEEP_RUN_ACCOUNT)
  call('ZADD', LEASES, whole(at + tonumber(wanted.lease)), wanted.id)
  keep(LEASES)
end

local function read_grant(id)
  local grant = read_hash(name_key('R', id))
  if not grant.accounts then return nil end
  grant.id, grant.accounts = id, cjson.decode(grant.accounts)
  return grant
end

-- Releases a reservation and books an amount.
local function book(grant, money, tokens)
  for _, name in ipairs(grant.accounts) do
    add(name, 'r', negated(grant.money))
    add(name, 'tr', negated(grant.tokens))
    add(name, 'n', -1)
    add(name, 's', money)
    add(name, 'ts', tokens)
    keep_account(name, KEEP_RUN_ACCOUNT)
  end
  note_freed()
end

local function settle(id, money, tokens)
  local grant = read_grant(id)
  if not grant then return end
  call('DEL', name_key('R', id))
  call('ZREM', LEASES, id)
  if not grant.booked then return book(grant, money, tokens) end
  -- The lease had expired: what was booked then is corrected.
  for _, name in ipairs(grant.accounts) do
    add(name, 's', negated(grant.money))
    add(name, 'ts', negated(grant.tokens))
    add(name, 's', money)
    add(name, 'ts', tokens)
  end
  note_freed()
end

-- Ends the leases that have expired. Whether a request was sent is not known, so that each is booked
-- whole.
local function expire_leases(given)
  local now = now_ms(given)
  for _, id in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', whole(now), 'LIMIT', 0, 100)) do
    call('ZREM', LEASES, id)
    local grant = read_grant(id)
    if grant then
      book(grant, grant.money, grant.tokens)
      call('HSET', name_key('R', id), 'booked', '1')
    end
  end
end

local function leave_line(id)
  local text = call('GET', name_key('W', id))
  call('ZREM', LINE, id)
  call('ZREM', SEEN, id)
  if not text then return end
  call('DEL', name_key('W', id))
  for _, claim in ipairs(cjson.decode(text).claims) do
    call('ZREM', name_key('w', claim.account), id)
  end
  note_freed()
end

local function accepted_level(wanted, room, at)
  local waited, unspent = at - wanted.since, room and room.unspent or wanted.most
  if waited >= wanted.in_all or unspent < wanted.enough then return 'least' end
  if waited >= wanted.for_most or unspent < wanted.most then return 'enough' end
  return 'most'
end

-- Returns the amount that a waiting request takes of this room, if any.
local function amount_taken(wanted, room, at)
  if not room then return wanted.ask.most end
  local level = accepted_level(wanted, room, at)
  if room.left >= wanted.most and (level == 'most' or room.waiting == 0) then
    return wanted.ask.most
  end
  if level == 'most' then return nil end
  if room.left >= wanted.enough then
    -- The others may come again: each takes a share, so that no request holds everything.
    local share = math.floor(room.left / (room.waiting + room.leases + 1))
    share = math.max(wanted.enough, math.min(share, wanted.most, room.left))
    return whole(share)
  end
  if level == 'least' and room.left >= wanted.least then return whole(room.left) end
  return nil
end

local function prepare(wanted)
  wanted.most, wanted.enough = tonumber(wanted.ask.most), tonumber(wanted.ask.enough)
  wanted.least = tonumber(wanted.ask.least)
  return wanted
end

local function read_waiter(id)
  local text = call('GET', name_key('W', id))
  return text and prepare(cjson.decode(text))
end

-- Serves all requests that wait, in order of arrival. One that has waited for long is not overtaken
-- on the accounts that it lacks.
local function serve_line(at)
  local closed = {}
  for _, id in ipairs(call('ZRANGE', LINE, 0, -1)) do
    local wanted = read_waiter(id)
    local seen = tonumber(call('ZSCORE', SEEN, id) or 0)
    if not wanted or at - seen > SILENT_MS then
      leave_line(id)
    else
      local room, shut = find_headroom(wanted, at), false
      for _, claim in ipairs(wanted.claims) do
        shut = shut or (closed[claim.account] and (is_given(claim.limit) or is_given(claim.tokens_limit)))
      end
      local takes = not shut and amount_taken(wanted, room, at)
      if takes then
        leave_line(id)
        grant_claims(wanted, takes, at)
      elseif at - wanted.since >= OVERTAKEN_MS and not (room and room.unspent < wanted.least) then
        local insists = wanted[accepted_level(wanted, room, at)]
        for _, claim in ipairs(wanted.claims) do
          local one = claim_room(claim, wanted.ask.scale, at)
          if one and one.left < insists then closed[claim.account] = true end
        end
      end
    end
  end
end

local function describe_shortfall(wanted, room)
  local claim, tokens = room.claim, {}
  local balance = read_balance(room.name)
  if room.of_tokens then
    local limit = math.max(0, numeric(claim.tokens_limit) - room.kept_tokens)
    tokens = { whole(limit), balance[3], balance[4], whole(tokens_at(wanted.ask.scale, wanted.least)) }
  end
  local limit = math.max(0, (numeric(claim.limit) or 0) - room.kept)
  local span = room.span and { whole(room.span[1]), whole(room.span[2]) } or {}
  return { room.name, whole(limit), balance[1], balance[2], wanted.ask.least, tokens, span }
end

local function describe_grant(id)
  local grant = read_grant(id)
  if not grant or grant.booked then return nil end
  return { 'granted', grant.accounts, grant.money, grant.tokens }
end

local function next_look(wanted, at)
  local next_at = wanted.since + wanted.in_all
  if at < wanted.since + wanted.for_most then
    next_at = math.min(next_at, wanted.since + wanted.for_most)
  end
  for _, claim in ipairs(wanted.claims) do
    local _, span = find_claimed(claim, at)
    if span then next_at = math.min(next_at, math.max(span[2], at + 1)) end
  end
  return next_at
end

-- Decides on a request that waits, after all that came before it.
local function check_waiter(id, at)
  serve_line(at)
  local granted = describe_grant(id)
  if granted then return granted end
  local wanted = read_waiter(id)
  if not wanted then return { 'away', 'the place is gone' } end
  local room = find_headroom(wanted, at)
  local is_spent = room ~= nil and room.unspent < wanted.least
  if not is_spent and at < wanted.since + wanted.in_all then
    call('SET', name_key('L', id),
      (call('GET', FREED) or '0') .. ':' .. whole(next_look(wanted, at)), 'EX', 60)
    return { 'wait' }
  end
  local takes = amount_taken(wanted, room, at)
  leave_line(id)
  if takes then
    grant_claims(wanted, takes, at)
    serve_line(at)
    return describe_grant(id)
  end
  local short = describe_shortfall(wanted, room)
  serve_line(at)
  return { is_spent and 'spent' or 'busy', short }
end

local function is_free(wanted, at)
  for _, claim in ipairs(wanted.claims) do
    if call('EXISTS', name_key('w', claim.account)) == 1 then return false end
    local room = claim_room(claim, wanted.ask.scale, at)
    if room and room.left < wanted.most then return false end
  end
  return true
end

local function join_line(wanted, at)
  wanted.since = at
  local id = wanted.id
  call('SET', name_key('W', id), cjson.encode(wanted), 'EX', 600)
  local place = call('INCR', TAG .. ':place')
  call('ZADD', LINE, place, id)
  call('ZADD', SEEN, whole(at), id)
  for _, key in ipairs({ TAG .. ':place', LINE, SEEN }) do keep(key) end
  for _, claim in ipairs(wanted.claims) do
    local waiting = name_key('w', claim.account)
    call('ZADD', waiting, place, id)
    call('EXPIRE', waiting, 600)
  end
end

-- Books what was spent before, and reads the balances before the reservation.
local function begin(asked, at)
  if asked.spent_before ~= '0' then
    for _, claim in ipairs(asked.wanted.claims) do
      if not is_given(claim.window) then
        add(claim.account, 's', asked.spent_before)
        keep_account(claim.account, KEEP_RUN_ACCOUNT)
      end
    end
  end
  local names = {}
  for n, account in ipairs(asked.balances) do
    names[n] = find_claimed(account, at)
  end
  return read_balances(names)
end

local function try_reserve(wanted, at)
  if not knows_windows(wanted.claims, at) then
    return { 'away', 'the bounds of a window are those of another time' }
  end
  if is_free(wanted, at) then
    grant_claims(wanted, wanted.ask.most, at)
    return describe_grant(wanted.id)
  end
  join_line(wanted, at)
  return check_waiter(wanted.id, at)
end

function ops.reserve(asked)
  local at, id = now_ms(asked.at), asked.wanted.id
  expire_leases(asked.at)
  local answer = describe_grant(id)
  local balances = begin(asked, at)
  answer = answer or try_reserve(prepare(asked.wanted), at)
  local opened = {}
  if is_given(asked.opens) and answer[1] ~= 'wait' then opened = open_run(asked.opens) end
  return { answer, balances, opened }
end

-- Asks again for a request that waits. It looks only if money was freed, or the time has come.
function ops.poll(asked)
  local at, id = now_ms(asked.at), asked.id
  local answer = describe_grant(id)
  if not answer then
    call('ZADD', SEEN, 'XX', whole(at), id)
    local freed, next_at = string.match(call('GET', name_key('L', id)) or '', '^(%d+):(%d+)$')
    if freed == (call('GET', FREED) or '0') and at < tonumber(next_at) then return { { 'wait' }, {} } end
    answer = check_waiter(id, at)
  end
  local opened = {}
  if is_given(asked.opens) and answer[1] ~= 'wait' then opened = open_run(asked.opens) end
  return { answer, opened }
end

-- Gives up a place, and what was granted to it.
function ops.leave(note)
  leave_line(note.id)
  settle(note.id, '0', '0')
end

function ops.settle(note) settle(note.id, note.money, note.tokens) end

function ops.lower(note)
  local grant = read_grant(note.id)
  if not grant or grant.booked then return end
  local by_money = math.max(0, tonumber(grant.money) - tonumber(note.money))
  local by_tokens = math.max(0, tonumber(grant.tokens) - tonumber(note.tokens))
  for _, name in ipairs(grant.accounts) do
    add(name, 'r', negated(whole(by_money)))
    add(name, 'tr', negated(whole(by_tokens)))
  end
  local key = name_key('R', note.id)
  call('HINCRBY', key, 'money', negated(whole(by_money)))
  call('HINCRBY', key, 'tokens', negated(whole(by_tokens)))
  note_freed()
end

function ops.renew(asked)
  local at = now_ms(asked.at)
  for _, id in ipairs(asked.held) do
    local lease = call('HGET', name_key('R', id), 'lease')
    if lease then
      call('ZADD', LEASES, 'XX', whole(at + tonumber(lease)), id)
      call('EXPIRE', name_key('R', id), KEEP_RUN_ACCOUNT)
    end
  end
  expire_leases(asked.at)
end

-- Returns the windows of claims: their spans, whether they are unused, balances and what is kept.
function ops.windows(asked)
  local at, windows = now_ms(asked.at), {}
  expire_leases(asked.at)
  for n, claim in ipairs(asked.claims) do
    local name, span = find_claimed(claim, at)
    if span then
      local is_unused = call('EXISTS', name_key('a', name)) == 0
      local money, tokens = kept_of(name, read_account(name), claim)
      windows[n] = { whole(span[1]), whole(span[2]), is_unused and 1 or 0, read_balance(name),
        whole(money), whole(tokens) }
    else
      windows[n] = {}
    end
  end
  return windows
end

-- Forgets what these windows keep back for the answer of a run that has ended.
local function forget_run_kept(names, run)
  for _, name in ipairs(names) do forget_kept(name, run) end
  note_freed()
end
