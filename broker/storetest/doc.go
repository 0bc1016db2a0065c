// Package storetest holds the test suites for every store: the contracts in package
// broker, races, paging and recovery.
//
//	store.go              RunStore, and the shared functions
//	store_units.go     the effects of one unit
//	store_refuse.go    refused units, which leave no part behind
//	store_delegation.go  tasks that sandboxes delegated to, and counted credentials
//	store_races.go     one winner, withdrawal, replicas
//	store_reopen.go    a closed store, and the next run on its data
//	store_read.go      filters, pages, derived states of leases
//	store_listing.go   pages of lists, forth and back
//	store_audit.go     the chain under concurrency, entries, checkpoints
//	store_figures.go   sums over windows of a random history;
//	                     store_figures_counted.go  the same by counting all of it;
//	                     store_usage.go  sums of issued and used credentials, the same way
//	store_fixtures.go  tasks, leases and requests with every member filled
//	store_postgres.go  a database of its own on a real server
//	revocation_queue.go              RunRevocationQueue (the revocation queue), and the shared functions
//	revocation_queue_take.go         intents, claims, turns
//	revocation_queue_settle.go       the outcome of a step at a provider
//	revocation_queue_close.go        the close of a task, and the revocation of one lease
//	revocation_queue_read.go         listings, sums, sealed handles
//	revocation_queue_races.go        replicas, the close of a task against a mint, crashes
//	approval_store.go              RunApprovalStore: creating requests
//	approval_store_settle.go       settling them
//	approval_store_vote.go         votes; approval_store_together.go  batch decisions; approval_store_races.go  concurrent votes
//	approval_store_breakglass.go   beginning and end of break-glass periods
//	approval_store_breakglass_pages.go, approval_store_breakglass_races.go, approval_store_breakglass_votes.go  lists and sight, races, votes under them
//	approval_store_read.go         filters of requests; approval_store_queue.go  pending requests, evidence snapshots
//	policies.go          RunPolicies: drafts of policy sets; policies_release.go  published policies
//	live_store.go            RunLiveStore (the LiveStore), and the shared functions
//	live_store_tasks.go, live_store_touch.go, live_store_due.go, live_store_leases.go, live_store_owners.go,
//	live_store_lease_races.go, live_store_feed.go, live_store_gate.go, live_store_rates.go, live_store_values.go, live_store_guard.go
//	                     one file for each part of the contract
//	live_store_model.go      random walks against a model; live_store_model_ops.go its steps
//	live_store_bench.go      BenchLiveStore
//	notify.go            RunNotify, and the shared functions
//	notify_read.go       reading the audit log: the beginning, one reader of each range
//	notify_keep.go       items of a message, their storage and their removal
//	notify_take.go       claims of messages and their outcomes
//
// Tests that need a real server find it with package counterpart.
package storetest
