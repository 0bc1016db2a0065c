// Package passkey lets a person prove with a passkey that they want one answer to one request, on
// facts with one digest, at this moment (Web Authentication Level 3).
//
//	passkey.go  Keys: New, and the sealed state of a challenge
//	register.go a new passkey
//	decision.go the proof of a decision, and its later verification
package passkey
