// Package people holds what ebb knows of the people who use its console: the sessions
// of their browsers. Who they are is a broker.Principal; how they proved it, a kind of
// web/signin.
//
//	session.go  Session
//	passkey.go  Passkey, PasskeyStore, PasskeyNames
//	store.go    Store, Reader: what is asked of the database
//	reach.go    Wishes, Reach, ReachStore: what people want to be told, and where
package people
