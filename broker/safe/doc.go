// Package safe keeps secrets of the operator that outlive the process and change:
// refresh tokens that rotate, API keys that egress adds. They are sealed at rest,
// shared by replicas, and one holder at a time may exchange one for its successor.
//
//	safe.go    Safe: Get, Put, Names, Exchange
//	reseal.go  Reseal: under the newest key
//	store.go   Store: what is asked of the database
package safe
