-- Runs the operations in order: each argument after the gateway's name is one, as JSON. An operation
-- that fails undoes nothing and stops none of the others.

-- Ends a request: all its changes in one operation.
function ops.close(closing)
  if is_given(closing.shown) then store_shown(closing.shown, closing.changes.scope) end
  apply_changes(closing.changes)
  if is_given(closing.parent) then apply_changes(closing.parent) end
  local balances = read_balances(closing.accounts)
  local run = { {}, 0 }
  if is_given(closing.request) then
    run = end_request(closing.request)
    if is_given(closing.request.ended) then forget_run_kept(closing.accounts, closing.request.run) end
  end
  return { balances, run }
end

-- Returns true if a note comes for the first time: one whose answer was lost is sent again.
local function is_new_note(number)
  local key = name_key('d', HOST)
  if call('ZADD', key, 'NX', number, number) == 0 then return false end
  call('ZREMRANGEBYRANK', key, 0, -20001)
  call('EXPIRE', key, DAY)
  return true
end

call('ZADD', HOSTS, now_seconds(), HOST)
call('EXPIRE', HOSTS, DAY)
call('ZREMRANGEBYSCORE', HOSTS, '-inf', now_seconds() - DAY)

local answers = {}
for n = 2, #ARGV do
  local ok, answer = pcall(function()
    local asked = cjson.decode(ARGV[n])
    if asked.note and not is_new_note(asked.note) then return false end
    return ops[asked.op](asked) or false
  end)
  if not ok then answer = type(answer) == 'table' and answer.err or tostring(answer) end
  answers[n - 1] = { ok and 1 or 0, answer }
end
return answers
