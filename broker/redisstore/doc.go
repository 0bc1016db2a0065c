// Package redisstore implements the LiveStore on Redis
// >= 7 or Valkey >= 8: standalone, behind Sentinel, or a Cluster. Many processes share
// one store.
//
// Every compound step is one Lua script on one hash slot, in the folder scripts. A call
// runs its script by EVALSHA, in a batch with concurrent calls, and uses WAIT where a
// loss would be harmful. The server must have a supported version and must not evict. A
// part of a task that rarely changes is cached. Loss markers show that Redis has lost
// data; until the refill, calls then answer that the state is unknown.
//
// # Keys
//
// Prefix is "ebb" by default. The keys of one task share a slot, and so do the keys of
// one owner; every other key has a slot of its own.
//
//	ebb:{tsk_..}:t  hash    the task: s state, h head, b facts, o owner, x sandbox, t:* taint, p published, ...
//	ebb:{tsk_..}:l  zset    its leases by expiry; gone when the task is closed, so that a lease
//	                        is live if and only if it is here: Status is one ZSCORE
//	ebb:{tsk_..}:e  zset    leases that ended, by expiry
//	ebb:{tsk_..}:u  hash    ends that are not yet in the feed
//	ebb:{o:..}:l    zset    leases of an owner by expiry, each with its task
//	ebb:{o:..}:n    hash    how many of them each task has that is not closed, and their sum
//	ebb:due         zset    tasks by a moment that is never later than the one they are due
//	ebb:feed        stream  the revocation feed
//	ebb:c:*  ebb:r:*  ebb:v:*  ebb:p:*    claims, rates, one-time values, paces
//	ebb:marks       hash    high-water marks of the audit log, by process run
//	ebb:marker:{..} hash    loss markers: counters whose loss shows that data was lost
//
// No secret is stored: keys and values hold ids, hashes and public keys. An ACL user
// needs ~ebb:* with +@read +@write +@scripting +@connection +wait +info (or +config|get)
// and, for ebb doctor, +time. -@dangerous before these removes the commands that ebb does
// not use. In a Cluster it also needs +cluster.
//
// # Clocks
//
// Expiry is decided by the caller's clock (the times passed in, else Config.Now). TTLs of
// keys are relative and have a margin: they only remove garbage. Data removed too early
// is unknown, not valid.
//
// # Crashes
//
// Steps on different slots are separate. The close of a task and the revocation of a
// lease take effect first and are published afterwards. If publishing fails, Due
// publishes them, and so does repeating the close or the revocation, which the broker
// does at the start. An event may therefore be published twice, but is never missing.
// Publishing also frees the places of the owner. In a Cluster the lease is written and
// its place at the owner is taken at the same time; if one of the two is refused, the
// other is undone. After a crash in between, a place may stay taken until the lease
// expires, but a lease never lacks its place. Nothing depends on keyspace notifications
// or pub/sub.
package redisstore
