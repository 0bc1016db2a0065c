// Package storetest holds the suites that every store passes: each sentence of
// the contracts in package broker, races, paging and recovery.
//
//	journal.go           RunJournal, and what its parts share
//	journal_units.go     what one unit does
//	journal_refuse.go    what it refuses, and that it is done as a whole or not at all
//	journal_delegation.go  tasks that sandboxes delegated to, and counted credentials
//	journal_races.go     one winner, withdrawal, replicas
//	journal_reopen.go    a store that was closed, and the next run on what it left
//	journal_read.go      filters, pages, derived states of leases
//	journal_listing.go   pages of lists, forth and back
//	journal_audit.go     the chain under concurrency, entries, checkpoints
//	journal_figures.go   sums over windows of a random history;
//	                     journal_figures_counted.go  the same by counting all of it;
//	                     journal_usage.go  what was issued and used, the same way
//	journal_fixtures.go  tasks, leases and requests with every member filled
//	journal_postgres.go  a database of its own on a real server
//	lane.go              RunLane, and what its parts share
//	lane_take.go         intents, claims, turns
//	lane_settle.go       what came of a step at a provider
//	lane_close.go        the end of a task, and of one lease
//	lane_read.go         listings, sums, sealed handles
//	lane_races.go        replicas, the end of a task against a mint, crashes
//	desk.go              RunDesk: creating requests
//	desk_settle.go       settling them
//	desk_vote.go         votes; desk_together.go  those that count together; desk_races.go  at the same time
//	desk_breakglass.go   periods in which somebody approves alone: how they begin and end
//	desk_breakglass_pages.go, desk_breakglass_races.go, desk_breakglass_votes.go  lists and sight, races, votes under them
//	desk_read.go         filters of requests; desk_queue.go  those that wait, what was seen
//	policies.go          RunPolicies: drafts of policy sets; policies_release.go  what is published of them
//	ledger.go            RunLedger, and what its parts share
//	ledger_tasks.go, ledger_touch.go, ledger_due.go, ledger_leases.go, ledger_owners.go,
//	ledger_lease_races.go, ledger_feed.go, ledger_gate.go, ledger_rates.go, ledger_values.go, ledger_guard.go
//	                     one file for each part of the contract
//	ledger_model.go      random walks against a model; ledger_model_ops.go its steps
//	ledger_bench.go      BenchLedger
//	notify.go            RunNotify, and what its parts share
//	notify_read.go       reading the record: where it begins, one reader of each part
//	notify_keep.go       what becomes one message, what is kept of it, what is forgotten
//	notify_take.go       claims of messages and what came of them
//
// What needs a real server finds it with package counterpart.
package storetest
