// Package file wraps data keys with a key in a file: 32 random bytes that only
// their owner can read, made on the first start.
//
//	file.go  Wrapper, its configuration, and rotation by naming the previous file
package file
