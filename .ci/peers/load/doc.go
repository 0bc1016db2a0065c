// Command load measures a Vault or an OpenBao, which speaks its API, as `ebb bench`
// measures ebb: with package web/load, at 1, 16 and 64 clients, and in rows of the
// same JSON. ../run starts it; ../README.md says what is compared with what.
//
//	main.go    tokens created and looked up
//	revoke.go  a parent with children is revoked
package main
