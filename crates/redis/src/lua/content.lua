-- What is stored of runs, for its deletion: the caller goes through all of it and names what goes.

local PREFIXES = { scopes = name_key('s', ''), links = name_key('l', ''), runs = name_key('o', '') }
-- Keys that one call looks at.
local LOOKED_AT = 1000

-- Returns the names of a conversation's runs.
local function scope_runs(key)
  local names = {}
  for _, field in ipairs(call('HKEYS', key)) do
    if string.sub(field, 1, 1) == 'i' then names[#names + 1] = call('HGET', key, field) end
  end
  return names
end

-- Returns some entries of a kind with their owners, and where to go on; nowhere at the end.
function ops.scan_stored(asked)
  local prefix, rows = PREFIXES[asked.kind], {}
  local from = asked.cursor == '' and '0' or asked.cursor
  local found = call('SCAN', from, 'COUNT', LOOKED_AT)
  for _, key in ipairs(found[2]) do
    if string.sub(key, 1, #prefix) == prefix then
      local owner
      if asked.kind == 'scopes' then owner = scope_runs(key) else owner = call('HGET', key, 'scope') end
      rows[#rows + 1] = { string.sub(key, #prefix + 1), owner }
    end
  end
  return { found[1] == '0' and '' or found[1], rows }
end

-- Deletes entries by their names. A run that is open stays.
function ops.drop_stored(asked)
  for _, name in ipairs(asked.names) do
    if asked.kind ~= 'runs' then
      call('DEL', PREFIXES[asked.kind] .. name)
    elseif not read_open(name) then
      forget_run(name)
    end
  end
  return 0
end
