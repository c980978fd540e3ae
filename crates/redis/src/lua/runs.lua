-- Open runs, and the ended ones that are remembered: the hash `o` of each. x<host> counts the
-- running requests of a gateway, which are forgotten with a gateway that is dead.

local PAST = 500
local KEEP_PAST = DAY
local OPEN, ENDED, VERSIONS, HOSTS = TAG .. ':open', TAG .. ':past', TAG .. ':versions', TAG .. ':hosts'

local function next_version()
  local version = call('INCR', TAG .. ':version')
  keep(TAG .. ':version')
  return version
end

local function touch_run(run)
  call('ZADD', VERSIONS, next_version(), run)
  keep(VERSIONS)
end

local is_alive = {}
local function host_is_alive(host)
  if is_alive[host] == nil then
    local seen = tonumber(call('ZSCORE', HOSTS, host))
    is_alive[host] = seen ~= nil and seen > now_seconds() - DEAD
  end
  return is_alive[host]
end

-- Returns the fields of a run that is open.
local function read_open(run)
  local fields = read_hash(name_key('o', run))
  if fields.info and not fields.ended then return fields end
end

local function count_running(fields)
  local running = 0
  for field, count in pairs(fields) do
    if string.sub(field, 1, 1) == 'x' and host_is_alive(string.sub(field, 2)) then
      running = running + tonumber(count)
    end
  end
  return running
end

local function add_running(run, by)
  local key, field = name_key('o', run), 'x' .. HOST
  if call('HINCRBY', key, field, by) <= 0 then call('HDEL', key, field) end
end

local function forget_run(run)
  call('DEL', name_key('o', run))
  call('ZREM', VERSIONS, run)
  call('ZREM', OPEN, run)
  call('ZREM', ENDED, run)
end

-- Ends an open run, and remembers it. Without an end, nobody continues it. Returns its fields.
local function end_run(run, fields, at, ending)
  local key = name_key('o', run)
  call('HSET', key, 'ended', at, 'ending', ending or '')
  call('EXPIRE', key, KEEP_PAST)
  call('ZREM', OPEN, run)
  if fields.parent then call('SREM', name_key('k', fields.parent), run) end
  local version = next_version()
  call('ZADD', VERSIONS, version, run)
  call('ZADD', ENDED, version, run)
  keep(ENDED)
  local too_many = call('ZCARD', ENDED) - PAST
  if too_many > 0 then
    for _, old in ipairs(call('ZRANGE', ENDED, 0, too_many - 1)) do forget_run(old) end
  end
  return { run, call('HGETALL', key) }
end

local function set_highest(key, field, known, value)
  if tonumber(value) > (tonumber(known) or 0) then call('HSET', key, field, value) end
end

local function open_run(opening)
  local run = opening.run
  local key, known = name_key('o', run), read_open(run)
  if known then
    set_highest(key, 'last', known.last, opening.at)
    call('HSET', key, 'here', opening.here)
    call('ZADD', OPEN, 'GT', opening.at, run)
    add_running(run, 1)
    touch_run(run)
    call('EXPIRE', key, KEEP)
    return { 0, known.begun, {} }
  end
  local superseded = {}
  if is_given(opening.continues) then
    local old = read_open(opening.continues)
    if old then superseded = end_run(opening.continues, old, opening.at) end
  end
  forget_run(run)
  call('HSET', key, 'info', opening.info, 'last', opening.at, 'begun', '0', 'turns', '0',
    'calls', '0', 'cost', '0', 'phase', opening.phase, 'here', opening.here)
  if is_given(opening.parent) then
    call('HSET', key, 'parent', opening.parent)
    local children = name_key('k', opening.parent)
    call('SADD', children, run)
    call('EXPIRE', children, KEEP)
  end
  call('EXPIRE', key, KEEP)
  call('ZADD', OPEN, opening.at, run)
  keep(OPEN)
  add_running(run, 1)
  touch_run(run)
  return { 1, '0', superseded }
end

function ops.progress(note)
  local known = read_open(note.run)
  if not known then return end
  local key = name_key('o', note.run)
  if known.begun == '0' then
    call('HSET', key, 'turns_before', note.before[1], 'calls_before', note.before[2])
  end
  set_highest(key, 'begun', known.begun, note.turn)
  set_highest(key, 'calls', known.calls, note.calls)
  call('HSET', key, 'phase', note.phase)
  touch_run(note.run)
end

function ops.withdraw(note)
  local known = read_open(note.run)
  if not known then return end
  add_running(note.run, -1)
  local left = read_hash(name_key('o', note.run))
  if known.begun == '0' and count_running(left) <= 0 then
    if known.parent then call('SREM', name_key('k', known.parent), note.run) end
    return forget_run(note.run)
  end
  touch_run(note.run)
end

-- Counts a request that has ended. Returns the run's fields if it has ended with it, and whether
-- this was the first end that it would have had.
local function end_request(request)
  local run = request.run
  local known = read_open(run)
  if not known then return { {}, 0 } end
  local key = name_key('o', run)
  add_running(run, -1)
  touch_run(run)
  set_highest(key, 'last', known.last, request.last)
  call('ZADD', OPEN, 'GT', request.last, run)
  set_highest(key, 'turns', known.turns, request.turns)
  set_highest(key, 'calls', known.calls, request.calls)
  call('HSET', key, 'failed', request.failed, 'remaining', request.remaining)
  for field, count in pairs(request.tokens) do call('HINCRBY', key, field, count) end
  local served, known_served = tonumber(string.match(request.served, '^%d+')), known.served or ''
  if served > (tonumber(string.match(known_served, '^%d+')) or 0) then
    call('HSET', key, 'served', request.served)
  end
  if request.in_one_country then call('HSET', key, 'in_one_country', '1') end
  if is_given(request.cost) and known.cost then
    call('HINCRBY', key, 'cost', request.cost)
  else
    call('HDEL', key, 'cost')
  end
  local first = is_given(request.observed) and call('HSETNX', key, 'observed', request.observed) or 0
  local ended = {}
  if is_given(request.ended) then ended = end_run(run, known, request.ended, request.ending) end
  return { ended, first }
end

function ops.ended(note) end_request(note.request) end

function ops.replace_end(note)
  local key = name_key('o', note.run)
  if call('HEXISTS', key, 'ended') == 0 then return end
  call('HSET', key, 'ended', note.ended, 'ending', note.ending)
  touch_run(note.run)
end

local function describe_run(run)
  local fields = read_hash(name_key('o', run))
  if not fields.info then return nil end
  local busy = not fields.ended and count_running(fields) > 0
  return { run, call('HGETALL', name_key('o', run)), busy and 1 or 0 }
end

function ops.list(query)
  local version = tonumber(call('GET', TAG .. ':version')) or 0
  -- A store that has lost everything counts anew.
  local after = query.after <= version and query.after or 0
  local rows = {}
  for _, run in ipairs(call('ZRANGEBYSCORE', VERSIONS, '(' .. after, '+inf')) do
    local row = describe_run(run)
    if row then rows[#rows + 1] = row else call('ZREM', VERSIONS, run) end
  end
  return { version, rows }
end

function ops.find(query) return describe_run(query.run) or {} end

function ops.cancel(query)
  if not read_open(query.run) then return {} end
  local family, is_member, at, ended = { query.run }, { [query.run] = true }, 1, {}
  while family[at] do
    for _, child in ipairs(call('SMEMBERS', name_key('k', family[at]))) do
      if not is_member[child] and read_open(child) then
        is_member[child] = true
        family[#family + 1] = child
      end
    end
    at = at + 1
  end
  for _, run in ipairs(family) do
    local fields = read_open(run)
    call('SET', name_key('x', run), fields.here, 'EX', KEEP)
    if count_running(fields) <= 0 then ended[#ended + 1] = end_run(run, fields, query.now) end
  end
  return { family, ended }
end

function ops.cancelled(query)
  local cancelled = {}
  for _, run in ipairs(query.runs) do
    if call('EXISTS', name_key('x', run)) == 1 then cancelled[#cancelled + 1] = run end
  end
  return cancelled
end

function ops.end_idle(query)
  local limit = call('ZCARD', OPEN) > 50000 and query.idle / 10 or query.idle
  local before = string.format('(%.0f', query.now - limit)
  local ended = {}
  for _, run in ipairs(call('ZRANGEBYSCORE', OPEN, '-inf', before, 'LIMIT', 0, 5000)) do
    local fields = read_open(run)
    if not fields then
      call('ZREM', OPEN, run)
    elseif count_running(fields) <= 0 then
      ended[#ended + 1] = end_run(run, fields, string.format('%.0f', query.now))
    end
  end
  return ended
end
