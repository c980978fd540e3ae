-- Finds the conversation of a request by the rules of `docs/governing.md` §7, in their order, as
-- `recall_from` of softland-govern does.

local RECENT_MS = 30 * 60 * 1000
local QUOTED_HEADS = 4

-- Stores a fork of a conversation under a name of its own.
local function store_fork(scope, kept, name)
  local key = name_key('s', scope)
  for field, value in pairs(kept) do
    if string.find('pqwbtra', string.sub(field, 1, 1), 1, true) then
      call('HSET', key, field, value)
    end
  end
  if kept.g then call('HSET', key, 'g', kept.g) end
  if kept.h then call('HSET', key, 'h', kept.h) end
  if kept.f then
    local face = cjson.decode(kept.f)
    face.scope = scope
    local text = cjson.encode(face)
    call('HSET', key, 'f', text)
    name_scope(name and { name } or {}, scope, text)
  end
  call('EXPIRE', key, KEEP)
end

local function read_faces(name)
  local key = name_key('n', name)
  local faces = {}
  for n, known in ipairs(read_list(key)) do faces[n] = cjson.decode(known.f) end
  if #faces > 0 then call('EXPIRE', key, KEEP) end
  return faces
end

local function contains(list, value)
  for _, one in ipairs(list) do
    if one == value then return true end
  end
  return false
end

local function continues_from(query, face)
  for n, asked in ipairs(query.asked) do
    if asked[2] == face.asked then
      return query.asked[n + 1] ~= nil or #query.turns > asked[1]
    end
  end
  return false
end

-- Returns true if a conversation with a shared name may have become this history.
local function may_have_become(query, face)
  local recent = query.now - face.last <= RECENT_MS
  return recent and (query.opens_in_summary or continues_from(query, face))
end

-- Returns the newest of these, if they are one conversation and its forks, of the same program.
local function single_match(query, faces, accepts)
  local newest
  for _, face in ipairs(faces) do
    if accepts(face) and face.answered and face.tools == query.tools
      and face.system == query.system then
      if newest and newest.root ~= face.root then return nil end
      newest = face
    end
  end
  return newest
end

local function found(scope, by, more)
  more = more or {}
  more.scope, more.by = scope, by
  return more
end

local function continue_from(query, hit, by, more)
  local scope = hit.twin.s
  if hit.fork then
    local kept = read_hash(name_key('s', scope))
    scope = query.fork
    store_fork(scope, kept, query.is_named and query.name)
  end
  more = found(scope, by, more)
  more.turn, more.forked = hit.twin, hit.fork
  return more
end

local function by_calls(query)
  local hit = find_clue(query.calls, query.here)
  if not hit then return nil end
  local turn, known = query.call_turns[hit.index + 1] or 0, 0
  for n = 1, math.min(turn, #query.turns) do
    if call('EXISTS', name_key('c', query.turns[n])) == 0 then break end
    known = known + 1
  end
  return continue_from(query, hit, 'calls', { index = hit.index, known = known })
end

local function by_name(query)
  local faces = query.is_named and read_faces(query.name) or {}
  for n = #faces, 1, -1 do
    local face = faces[n]
    if face.opening == query.here and (query.is_run or not face.answered) then
      return found(face.scope, 'again')
    end
  end
  local accepts = function(face) return may_have_become(query, face) end
  local own = query.is_client and function() return true end or accepts
  local face = single_match(query, faces, own)
  for _, name in ipairs(query.shared) do
    if not face then face = single_match(query, read_faces(name), accepts) end
  end
  if not face then return nil end
  if query.here == face.opening then return found(face.scope, 'again') end
  return found(face.scope, 'name', { flag = contains(query.openings, face.opening) })
end

local function by_prefix(query)
  local clues = {}
  for n = #query.turns - 1, 1, -1 do clues[#clues + 1] = query.turns[n] end
  local hit = find_clue(clues, query.here)
  return hit and continue_from(query, hit, 'prefix', { index = hit.index })
end

-- Finds the conversation of which most of these different clues are, if at least `fewest` are its. Of
-- several the last of those that have the last shared clue is taken.
local function find_quoted(clues, fewest)
  local counts, last, place, best = {}, {}, 0, nil
  for _, clue in ipairs(clues) do
    for _, twin in ipairs(read_list(name_key('c', clue))) do
      place = place + 1
      counts[twin.s], last[twin.s] = (counts[twin.s] or 0) + 1, place
    end
  end
  for scope, count in pairs(counts) do
    if not best or count > counts[best] or count == counts[best] and last[scope] > last[best] then
      best = scope
    end
  end
  return best and counts[best] >= fewest and best or nil
end

local function find_beside(query)
  local hit = find_clue(query.calls, query.here) or find_clue(query.passages, query.here)
  local scope = hit and hit.twin.s or find_quoted(query.heads, QUOTED_HEADS)
  if scope then return found(scope, 'beside', { flag = true }) end
  local faces = query.is_named and read_faces(query.name) or {}
  return #faces > 0 and found(faces[#faces].scope, 'beside', { flag = false }) or nil
end

local function find_conversation(query)
  local last = query.turns[#query.turns]
  local hit = last and find_clue({ last }, query.here)
  if hit and query.ends_in_summary then return found(hit.twin.s, 'compacted') end
  if hit then return continue_from(query, hit, 'content') end
  if query.metered then return find_beside(query) end
  local by = by_calls(query)
  if by then return by end
  for _, clues in ipairs({ query.unshown, query.sealed }) do
    hit = find_clue(clues, query.here)
    if hit then return found(hit.twin.s, 'compacted') end
  end
  hit = find_clue(query.summaries, query.here)
  if hit then return found(hit.twin.s, 'summary', { index = hit.index }) end
  hit = find_clue(query.told, query.here)
  if hit then return found(hit.twin.s, 'compacted') end
  by = by_name(query) or by_prefix(query)
  if by or query.is_named or #query.turns > 0 then return by end
  local scope = call('RPOP', name_key('q', query.question))
  return scope and found(scope, 'again') or nil
end

-- Adds the cancelled runs of a conversation's fields to `cancelled`.
local function collect_cancelled(names, cancelled)
  local seen = {}
  for _, run in ipairs(names) do
    local here = not seen[run] and call('GET', name_key('x', run))
    seen[run] = true
    if here then cancelled[#cancelled + 1] = { run, here } end
  end
end

local function add_run_names(fields, names)
  for n = 1, #fields, 2 do
    if string.sub(fields[n], 1, 1) == 'i' then names[#names + 1] = fields[n + 1] end
  end
end

function ops.recall(query)
  local answer, runs = { parent = false, found = false }, {}
  for _, name in ipairs(query.parents) do
    local faces = read_faces(name)
    if #faces > 0 then
      local scope = faces[#faces].scope
      answer.parent = { scope, load_scope(scope) }
      add_run_names(answer.parent[2], runs)
      break
    end
  end
  local by = find_conversation(query)
  if by then
    local turn = {}
    if by.turn then
      local twin = by.turn
      runs[#runs + 1] = twin.i
      turn = { twin.r, twin.u, twin.k, twin.c, by.forked and '1' or '0' }
    end
    local fields = load_scope(by.scope)
    add_run_names(fields, runs)
    answer.found = { by.scope, fields, by.by, by.index or 0, by.known or 0, by.flag and 1 or 0, turn }
  end
  local cancelled = {}
  collect_cancelled(runs, cancelled)
  local lessons = call('HGETALL', name_key('m', query.model))
  return { answer.parent or {}, answer.found or {}, lessons, cancelled }
end

-- Adds lessons about a model to those that are known. Limits are texts: they may be as large as u64.
function ops.learn(lesson)
  local key = name_key('m', lesson.model)
  for _, flag in ipairs({ 'forcing', 'none', 'completion' }) do
    if lesson[flag] then call('HSET', key, flag, '1') end
  end
  if is_given(lesson.most) then
    local known = call('HGET', key, 'most')
    local less = not known or #lesson.most < #known or #lesson.most == #known and lesson.most < known
    if less then call('HSET', key, 'most', lesson.most) end
  end
  call('EXPIRE', key, KEEP)
end
