// Package transit wraps data keys with a key that never leaves the transit engine
// of Vault or OpenBao.
//
//	transit.go  Wrapper and its configuration
package transit
