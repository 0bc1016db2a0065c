// Package signin defines the interface of sign-in methods of the console. A method authenticates a
// person; the console creates the session. Methods are sub-packages.
//
//	signin.go  Method, Prover, Host, Person
package signin
