// Package signin is the contract of ways to sign in to the console: a kind proves who a
// person is, the console makes the session. Kinds are sub-folders.
//
//	signin.go  Method, Prover, Host, Person
package signin
