// Package sandboxtest has the helpers that tests of the kinds of sandboxes share.
//
//	bed.go   Bed: the sandboxes of a test, and their results
//	try.go   try: a hostile program that runs in a sandbox
package sandboxtest
