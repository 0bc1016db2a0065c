// Package redisstore is the Ledger on Redis >= 7 or Valkey >= 8: standalone,
// behind Sentinel, or a Cluster. Many processes share one store.
//
//   - config.go   Config and New: how the server is reached
//   - server.go   what is demanded of the server: version, no eviction
//   - exec.go     scripts (EVALSHA, else EVAL), pipelines, WAIT
//   - batch.go    calls that come at the same time travel together
//   - scripts/    the Lua: every compound step is one script on one hash slot
//   - keys.go     the names of keys
//   - record.go   a task's encoding, and the cache of what seldom changes in it
//   - tasks.go    TaskTable; due.go its index
//   - owners.go   how many leases the tasks of one owner hold
//   - leases.go   LeaseTable; feed.go the revocation feed; tail.go its wake-ups
//   - gate.go     Admit; values.go one-time values and paces
//   - guard.go    Check and Mark; canary.go how a loss is noticed
//   - marks.go    high-water marks of the audit log
//   - metrics.go; log.go what the driver itself has to say
//
// # What lies where
//
// Prefix is "ebb" by default. The keys of one task share a slot, and so do those of
// one owner; the others have each their own.
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
//	ebb:canary:{..} hash    counters whose loss tells of a loss
//
// Nothing secret is stored: keys and values hold ids, hashes and public keys. An
// ACL user needs ~ebb:* with +@read +@write +@scripting +@connection +wait +info
// (or +config|get), in a Cluster also +cluster.
//
// # Clocks
//
// Whether something has expired is decided by the caller's clock (the times
// passed in, else Config.Now). TTLs of keys are relative and have a margin: they
// only collect garbage, and what they collect too early is unknown, not valid.
//
// # Crashes
//
// Steps on different slots are separate. Closing a task and ending a lease are
// true first and published after; what was not published is published when the
// close or the end is repeated, which the broker does at start, and by Due. An
// event may therefore be published twice, never not at all. With it the owner's
// places are given back. In a Cluster a lease is put and takes its place at its owner at
// the same time; what one of them refuses, the other gives back. What is cut off there
// holds a place until its lease expires, and is never missing one. Nothing depends on
// keyspace notifications or pub/sub.
package redisstore
