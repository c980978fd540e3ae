-- Conversations, the clues to them, and the responses that clients were shown.
--
-- A conversation is the hash `s`: p<run> a record, q<run> what decides between two records,
-- w<run> and b<run> the messages that arrived at once; t<place> tails; r<place> results;
-- u<run> a state, with i<run> its name, k<run> tokens, c<run> cost and l<run> its last request;
-- n the newest run, a what was asked, f the face, h the cache, g the age, z when to look at bounds.

local RUNS, TAILS, RESULTS, ASKED = 64, 256, 4096, 128
local TWINS, NAMESAKES, IMMEDIATE = 64, 32, 4096
local DIGEST = 32

local function split_digests(text)
  local list = {}
  for at = 1, #text, DIGEST do list[#list + 1] = string.sub(text, at, at + DIGEST - 1) end
  return list
end

local function read_list(key)
  local text = call('GET', key)
  return text and cjson.decode(text) or {}
end

local function write_list(key, list) call('SET', key, cjson.encode(list), 'EX', KEEP) end

-- Finds the conversation of the first of these clues that is known. Of several conversations with
-- the same turn the first that has not continued is taken, and continues with `here`; else the newest
-- that continued with `here`, else the newest, which forks.
local function find_clue(clues, here)
  for i, clue in ipairs(clues) do
    local key = name_key('c', clue)
    local twins = read_list(key)
    if #twins > 0 then
      local at
      for n = 1, #twins do
        if not twins[n].h then at = n break end
      end
      for n = #twins, 1, -1 do
        if at then break end
        if twins[n].h == here then at = n end
      end
      local twin = twins[at or #twins]
      local fork = twin.h ~= nil and twin.h ~= here
      if twin.h then
        call('EXPIRE', key, KEEP)
      else
        twin.h = here
        write_list(key, twins)
      end
      return { index = i - 1, fork = fork, twin = twin }
    end
  end
end

local function note_clue(clue, scope, turn)
  local key = name_key('c', clue)
  local twins, own = read_list(key), nil
  local twin = { s = scope, r = turn.run, i = turn.id, u = turn.blob, k = turn.tokens, c = turn.cost }
  for n = 1, #twins do
    if twins[n].s == scope then own = n end
  end
  if own then twins[own] = twin else twins[#twins + 1] = twin end
  if #twins > TWINS then table.remove(twins, 1) end
  write_list(key, twins)
end

-- Adds messages that arrived at once, up to a bound.
local function add_immediate(key, run, places, behind)
  local known = call('HGET', key, 'w' .. run)
  if not known then
    if #places > 0 then call('HSET', key, 'w' .. run, table.concat(places)) end
    if #places > 0 and is_given(behind) then call('HSET', key, 'b' .. run, behind) end
    return
  end
  local all, seen = split_digests(known), {}
  for _, place in ipairs(all) do seen[place] = true end
  for _, place in ipairs(places) do
    if not seen[place] then all[#all + 1] = place end
  end
  table.sort(all)
  while #all > IMMEDIATE do table.remove(all, 1) end
  call('HSET', key, 'w' .. run, table.concat(all))
  if #places > 0 and is_given(behind) then call('HSETNX', key, 'b' .. run, behind) end
end

-- Keeps the record that has looked further; after a compaction all places are looked at again.
local function apply_pin(key, pin)
  local run = pin.run
  local order = call('HGET', key, 'q' .. run)
  local compactions, looked = nil, nil
  if order then compactions, looked = string.match(order, '^(%d+):(%d+):') end
  compactions, looked = tonumber(compactions), tonumber(looked)
  local older = compactions
    and (compactions > pin.compactions or compactions == pin.compactions and looked > pin.looked)
  if older then return add_immediate(key, run, pin.went, pin.behind) end
  if compactions ~= pin.compactions then
    call('HDEL', key, 'w' .. run, 'b' .. run)
    add_immediate(key, run, pin.went, pin.behind)
  else
    if #pin.went > 0 and is_given(pin.behind) then call('HSET', key, 'b' .. run, pin.behind) end
    add_immediate(key, run, pin.went, pin.behind)
  end
  local age = call('HINCRBY', key, 'g', 1)
  call('HSET', key, 'p' .. run, pin.blob,
    'q' .. run, string.format('%d:%d:%d', pin.compactions, pin.looked, age))
end

-- Forgets those of `list` that are oldest by `age`, beyond `most`.
local function forget_oldest(key, list, most, prefixes)
  table.sort(list, function(one, other) return one.age < other.age end)
  for n = 1, #list - most do
    for prefix in string.gmatch(prefixes, '.') do call('HDEL', key, prefix .. list[n].name) end
  end
end

-- Looks at the bounds of a conversation each time it has grown by a part.
local function bound_scope(key)
  local fields = call('HLEN', key)
  if fields < (tonumber(call('HGET', key, 'z')) or 400) then return end
  local runs, pins, tails, results = {}, {}, 0, 0
  for _, field in ipairs(call('HKEYS', key)) do
    local kind, name = string.sub(field, 1, 1), string.sub(field, 2)
    if kind == 'u' then
      runs[#runs + 1] = { name = name, age = tonumber(call('HGET', key, 'l' .. name)) or 0 }
    elseif kind == 'p' then
      local age = string.match(call('HGET', key, 'q' .. name) or '', ':(%d+)$')
      pins[#pins + 1] = { name = name, age = tonumber(age) or 0 }
    elseif kind == 't' then
      tails = tails + 1
      if tails > TAILS then call('HDEL', key, field) end
    elseif kind == 'r' then
      results = results + 1
      if results > RESULTS then call('HDEL', key, field) end
    end
  end
  forget_oldest(key, runs, RUNS, 'uikclpqwb')
  forget_oldest(key, pins, 2 * RUNS, 'pqwb')
  call('HSET', key, 'z', call('HLEN', key) + 100)
end

local function append_asked(key, asked)
  if #asked == 0 then return end
  local all = split_digests(call('HGET', key, 'a') or '')
  for _, one in ipairs(asked) do
    for n = #all, 1, -1 do
      if all[n] == one then table.remove(all, n) end
    end
    all[#all + 1] = one
  end
  call('HSET', key, 'a', table.concat(all, '', math.max(1, #all - ASKED + 1)))
end

-- Adds the face of a conversation to its names, as the newest of each.
local function name_scope(names, scope, face)
  for _, name in ipairs(names) do
    local key = name_key('n', name)
    local kept = {}
    for _, known in ipairs(read_list(key)) do
      if known.s ~= scope then kept[#kept + 1] = known end
    end
    kept[#kept + 1] = { s = scope, f = face }
    while #kept > NAMESAKES do table.remove(kept, 1) end
    write_list(key, kept)
  end
end

local function apply_run(key, run)
  local id = run.run
  call('HSET', key, 'u' .. id, run.blob, 'i' .. id, run.id, 'l' .. id, run.last, 'n', id)
  call('HINCRBY', key, 'k' .. id, run.tokens)
  call('HINCRBY', key, 'c' .. id, run.cost)
  run.tokens, run.cost = call('HGET', key, 'k' .. id), call('HGET', key, 'c' .. id)
end

local function apply_changes(changes)
  local scope = changes.scope
  local key = name_key('s', scope)
  for _, pin in ipairs(changes.pins) do apply_pin(key, pin) end
  for _, tail in ipairs(changes.tails) do call('HSET', key, 't' .. tail[1], tail[2]) end
  for _, seen in ipairs(changes.results) do call('HSETNX', key, 'r' .. seen[1], seen[2]) end
  append_asked(key, changes.asked)
  if is_given(changes.named) then
    call('HSET', key, 'f', changes.named.face)
    name_scope(changes.named.names, scope, changes.named.face)
  end
  if is_given(changes.cache) then call('HSET', key, 'h', changes.cache) end
  if is_given(changes.child) and call('HEXISTS', key, 'u' .. changes.child[1]) == 1 then
    call('HINCRBY', key, 'k' .. changes.child[1], changes.child[2])
  end
  if is_given(changes.past) then
    for _, clue in ipairs(changes.past.clues) do note_clue(clue, scope, changes.past) end
  end
  if is_given(changes.run) then
    apply_run(key, changes.run)
    for _, clue in ipairs(changes.clues) do note_clue(clue, scope, changes.run) end
  end
  if is_given(changes.untaken) then
    local asked = name_key('q', changes.untaken)
    call('RPUSH', asked, scope)
    call('LTRIM', asked, -TWINS, -1)
    call('EXPIRE', asked, KEEP)
  end
  bound_scope(key)
  call('EXPIRE', key, KEEP)
end

local function load_scope(scope)
  local key = name_key('s', scope)
  call('EXPIRE', key, KEEP)
  return call('HGETALL', key)
end

local function write_link(id, link)
  local key = name_key('l', id)
  call('DEL', key)
  for field, value in pairs(link) do
    if is_given(value) then call('HSET', key, field, value) end
  end
  call('EXPIRE', key, KEEP)
end

-- Stores a response under all its ids, as one of this conversation.
local function store_shown(shown, scope)
  local link, ids = shown.link, shown.ids
  link.scope = scope
  if is_given(shown.conversation) then
    -- It follows the newest link of the present, whatever was the newest when its request came.
    local newest = name_key('l', shown.conversation)
    link.before = call('HGET', newest, 'before')
    local own = shown.conversation .. ':'
      .. redis.sha1hex((link.before or '') .. '\n' .. link.items)
    write_link(shown.conversation,
      { before = own, items = '', upstream = link.upstream, add = link.add, scope = scope })
    ids[#ids + 1] = own
  end
  for _, id in ipairs(ids) do write_link(id, link) end
end

-- Returns the links behind one, the newest first, or nothing if one is unknown or all are too large.
function ops.links(query)
  local links, id, bytes = {}, query.id, 0
  while id do
    if bytes > query.most then return false end
    local key = name_key('l', id)
    local link = read_hash(key)
    if not link.items then return false end
    call('EXPIRE', key, KEEP)
    bytes = bytes + #link.items + #id
    links[#links + 1] = call('HGETALL', key)
    id = link.before
  end
  return links
end
