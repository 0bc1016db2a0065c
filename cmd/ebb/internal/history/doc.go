// Package history creates the history of one working day at a running ebb: tasks,
// requests, decisions, credentials and their revocation, including failures. All of it
// is done through the API by the people and sandboxes concerned; only the clock is set.
//
// Clock begins in the past and is advanced to the present. People and Policies configure the ebb.
// Run plays the day: its requests and decisions, one person who approves alone in an emergency, and an
// OAuth server that mints, revokes and finally stops answering. At the end some tasks are still open,
// and one of them has transcripts of its requests.
package history
