// Package walktest tests an attestor that uses challenges against a whole ebb,
// over HTTP and with the client that sandboxes use: challenge, evidence, task
// token, credential, and attempts that must fail. The suite in attesttest tests
// the attestor alone; this package tests the result of its evidence.
//
//	walktest.go Run, Kind and Sandbox
//	ebb.go      an ebb with one such attestor, and its clients
package walktest
