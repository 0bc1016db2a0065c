// Package requests is the console's queue: approvers read requests of agents and decide them.
//
// The queue (queue.go) lists waiting requests, and one card for each throttled task (throttled.go).
// history.go is the list of all requests with their outcomes. The page of a request (request.go) is
// built as text from the facts that the broker computed (shown.go, lines.go). told.go counts the
// other approvers and lists the messages that were sent. The form on the page contains that text,
// signed (evidence.go), so that a decision is stored with the page that the approver saw.
//
// A decision arrives at decide.go: the form is checked, the person proves their identity (package
// proof), and the broker decides. narrow.go reads and suggests a narrower approval. If the facts
// have changed since, changes.go lists them. batch.go does the same for a group of alike requests,
// also of several tasks, with one answer.
//
// pages.go lists the routes and the calls of the core.
package requests
