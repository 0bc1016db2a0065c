// Package requests is the console's queue: approvers read requests of agents
// and decide them.
//
// The queue (queue.go) lists waiting requests, and one card for each throttled
// task (throttled.go). The list of all requests with their outcomes is history.go.
// The page of a request (request.go) is built as text from the facts that the broker computed (shown.go, lines.go). The form
// on it contains that text, signed (evidence.go), so that a decision is stored
// with the page that the approver saw.
//
// A decision arrives at decide.go: the form is checked, the person proves who
// they are (package proof), and
// the broker decides. If the facts have changed since, changes.go lists them.
// batch.go is the same for a few requests of one task with one answer.
//
// pages.go lists the routes and the calls of the core.
package requests
