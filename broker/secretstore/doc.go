// Package secretstore keeps the operator's secrets that outlive the process and change: refresh
// tokens that rotate, and API keys that egress adds to requests. The secrets are sealed at rest
// and shared by all replicas. One caller at a time, over all replicas, may exchange a secret for
// its successor.
//
//	secretstore.go  Store: Get, Put, Remove, Names, Exchange
//	reseal.go       Reseal: seal every secret again with the newest key
//	database.go     Database: the interface to the database
package secretstore
