// Package notifier tells people that something waits for them: it reads the record, finds
// out whom each entry concerns, and hands messages over through the kinds of package
// notify. It decides nothing, and nothing waits for it: what it does not get done, the
// broker never notices.
//
//	config.go    Config, Route, New, Run
//	follow.go    from the record to a plan: every entry is looked at once by all replicas
//	facts.go     from an entry to a notice: facts of the broker alone
//	route.go     whom it concerns
//	schedule.go  when they are told: at once, or in a digest
//	deliver.go   messages that are due: sent, tried again, given up
//	metrics.go
//
// # What is told
//
// An entry of the record is written in the unit that makes it true, so that a notice
// derived from it is neither lost nor of something that did not happen, and no write of
// the broker is any longer for it (docs/decisions/0040-told-from-the-record.md). To have people told of something, put
// it on the record: entries of a kind that begins with "breakglass." go to all approvers and
// auditors, and those that begin with "policy.draft" to operators, without another call.
//
// Who is asked is told with risk and reasons, and how it ended. Who answered what is never
// told: before a request is over, that would sway the second person; afterwards
// the page says it to those who may see it.
package notifier
