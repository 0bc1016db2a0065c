// Package echoverify verifies ebb's access tokens in servers that use echo v4.
// It is separate from package verify so that servers on net/http do not need
// echo.
//
//	echoverify.go  Middleware and TokenOf
package echoverify
