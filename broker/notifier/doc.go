// Package notifier notifies people about requests that wait for a decision and about other events.
// It reads the audit log, finds the recipients of each entry, and sends messages through the
// channels of package notify. It makes no decisions, and the broker never waits for it.
//
//	config.go    Config, Route, New, Run
//	follow.go    reads the audit log; replicas process each entry once
//	facts.go     builds a notice from an entry, of facts that the broker computed
//	route.go     finds the recipients, and the time: at once, or in a digest
//	deliver.go   sends due messages, retries, gives up; metrics of the queue and of the channels
//
// # Events
//
// The broker writes an audit entry in the same transaction as the change that it describes. A
// notice that comes from the entry is therefore never lost and never about a change that did not
// happen, and the broker's writes take no longer because of it
// (docs/decisions/0040-notifications-from-the-audit-log.md). To notify people of a new event, write
// an audit entry: kinds that begin with "breakglass." go to all approvers and auditors, and kinds
// that begin with "policy.draft" go to operators.
//
// Approvers are notified of a request with its risk and reasons. They and the owner of the task are
// notified of its result and of the people who decided. While the request waits, a notice names no
// approver and no vote, because that would influence the second approver.
package notifier
