// Package passkey lets people prove with a passkey that they, at this moment, want one
// answer to one request on facts of one digest (Web Authentication Level 3).
//
//	passkey.go  Keys: New, what is sealed into a challenge
//	register.go a new passkey
//	decision.go the proof of a decision, and how an auditor checks it later
package passkey
