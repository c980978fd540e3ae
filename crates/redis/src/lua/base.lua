-- The state of a fleet on Redis: one script, which runs a list of operations, so that each call of a
-- gateway is one round trip. All keys have the tag KEYS[1], so they lie in one slot of a cluster.
--
-- Amounts of money, tokens and all that Lua's doubles could not hold come and go as strings, and are
-- added by Redis itself. What only gateways read are texts that pass through.

local TAG = KEYS[1]
local HOST = ARGV[1]
local DAY = 86400
-- Seconds for which a conversation, its clues and its links are kept after their last use.
local KEEP = 7 * DAY
-- Seconds for which an account without a use is kept: longer than the longest window.
local KEEP_ACCOUNT = 35 * DAY
-- Seconds without a sign of life after which a gateway counts as dead.
local DEAD = 20

local call = redis.call

local function name_key(kind, name) return TAG .. ':' .. kind .. ':' .. name end

local function is_given(value) return value ~= nil and value ~= cjson.null and value ~= false end

local store_seconds
-- Returns the store's time in seconds.
local function now_seconds()
  if not store_seconds then store_seconds = tonumber(call('TIME')[1]) end
  return store_seconds
end

-- Returns the fields of a hash as a table.
local function read_hash(key)
  local flat, fields = call('HGETALL', key), {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

-- Lets a key of the whole fleet live on.
local function keep(key) call('EXPIRE', key, KEEP_ACCOUNT) end

local ops = {}
