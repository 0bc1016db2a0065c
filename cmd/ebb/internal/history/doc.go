// Package history creates the history of one working day at a running ebb: tasks,
// requests, decisions, credentials and their revocation, including failures. All of it
// is done through the API by the people and sandboxes concerned; only the clock is set.
//
//	clock.go     Clock: it begins in the past and is advanced to the present
//	house.go     People, Policies: the configuration of the ebb
//	helpdesk.go  an OAuth server that mints, revokes and finally stops answering
//	stage.go     the clients, and helpers shared by the acts of the day
//	day.go       Run: the day; emergency.go  a person approves alone; now.go  tasks that are
//	             still open at its end; said.go  transcripts of requests of one of them
package history
