-- Acquires and releases many locks in one call: each as acquire.lua or release.lua would, in the order in which they stand here. In a
-- cluster, all keys are of one slot.
-- Each lock has its own answer: what its own script would refuse is not done and answered by false, whatever becomes of the others; sent again
-- by its own script, it gets the error. Nothing here raises an error, so an error for the whole call means that nothing was done.
-- Safe to send twice and to arrive late, since each of them is. (A full memory refuses nothing that comes behind a release.)
--
-- KEYS[1..] keys (hash, string): the locks (owner -> hold count), the same one perhaps more than once; behind one that is acquired with
-- a fencing token its counter (the last one that was given out)
-- ARGV[1] kinds (string): a letter for each lock: a to acquire it, o to acquire it with a lease of its own, f to do that with a
-- fencing token, k to acquire it so that its client may keep it, r to release it, w to release it and tell nobody
-- ARGV[2] leaseMs (integer, ms): how long a lock is kept without a renewal
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
-- ARGV[4..] owners (string): for each lock "<clientId>:<n>"; behind it its own lease (integer, ms), if it has one, and then how long its
-- token is remembered (integer, ms; 0: for ever), if it is given one, or keptLeaseMs and own as in acquire.lua, if it may be kept
-- Returns for each lock what its own script returns; false (null to a client) where nothing was done.
local keys = KEYS
local kinds, leaseMs, publish, owners = ARGV[1], ARGV[2], ARGV[3], ARGV

local ACQUIRE, ACQUIRE_FOR, ACQUIRE_FENCED, ACQUIRE_KEPT, RELEASE = string.byte('aofkr', 1, 5)
local numsub = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'

-- The name of the channel is Redisson's, as in src/redis/keys.ts: it need not be sent for each of many locks.
local function channelOf(lock)
  return 'redisson_lock__channel:' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end

local function acquire(lock, owner, leaseMs, counter, tokenTtlMs, keptLeaseMs, own, channel)
  -- include: acquire
end

local function release(lock, owner, channel, publish)
  -- include: release
end

local answers = {}
local key = 0
local at = 3
for i = 1, #kinds do
  local kind = string.byte(kinds, i)
  key = key + 1
  at = at + 1
  local lock = keys[key]
  local owner = owners[at]
  local isDone, answer
  if kind == ACQUIRE then
    isDone, answer = pcall(acquire, lock, owner, leaseMs)
  elseif kind == ACQUIRE_FOR then
    at = at + 1
    isDone, answer = pcall(acquire, lock, owner, owners[at])
  elseif kind == ACQUIRE_FENCED then
    key = key + 1
    at = at + 2
    isDone, answer = pcall(acquire, lock, owner, owners[at - 1], keys[key], owners[at])
  elseif kind == ACQUIRE_KEPT then
    at = at + 3
    isDone, answer = pcall(acquire, lock, owner, owners[at - 2], nil, nil, owners[at - 1], owners[at], channelOf(lock))
  else
    isDone, answer = pcall(release, lock, owner, channelOf(lock), kind == RELEASE and publish or '')
  end
  local isRefused = not isDone or type(answer) == 'table' and answer.err
  answers[i] = not isRefused and answer
end
return answers
