// Package secret keeps secrets in memory and in files. It imports the standard library only, so that clients of ebb can
// use it without the core.
//
//	secret.go  Secret: a credential that cannot be printed by accident
//	file.go    files: written whole or not at all, and refused when others can reach them
package secret
