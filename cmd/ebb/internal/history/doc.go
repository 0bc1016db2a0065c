// Package history makes a day of work at an ebb that runs: tasks, questions, answers,
// credentials and their ends, some of them bad. All of it is done through the API by
// the people and sandboxes concerned; only the clock is turned.
//
//	clock.go     Clock: it begins in the past and is turned to now
//	house.go     People, Providers, Policies: what the ebb must be started with
//	helpdesk.go  an OAuth server that mints, revokes and, at the end, does not answer
//	stage.go     the clients, and what the acts of the day have in common
//	day.go       Run: the day; emergency.go  somebody approves alone; now.go  what is still going on
//	             at its end; said.go  what was said in requests of that
package history
