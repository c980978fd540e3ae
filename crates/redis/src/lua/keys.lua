-- The gateway's own keys. `keys` is a hash with each by its name, `keys_version` is raised by each
-- change. They are an operator's, and do not expire.

local KEY_ROWS, KEYS_VERSION = TAG .. ':keys', TAG .. ':keys_version'

-- Returns the keys, unless they still have the version that the gateway knows.
function ops.keys(asked)
  local version = call('GET', KEYS_VERSION) or '0'
  if asked.known == version then return false end
  return { version, call('HGETALL', KEY_ROWS) }
end

-- Stores a key, if the keys still have the version that the writer knows. Versions follow the time, so
-- that none comes again after a store has lost its newest changes.
function ops.write_key(asked)
  local version = call('GET', KEYS_VERSION) or '0'
  if asked.known ~= version then return 0 end
  local time = call('TIME')
  local later = math.max(tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(version) + 1)
  call('HSET', KEY_ROWS, asked.name, asked.row)
  call('SET', KEYS_VERSION, string.format('%.0f', later))
  return 1
end
