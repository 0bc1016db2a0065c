// Package contexts keeps the ebbs that a person works with: for each a name, its
// URL, the CA of its certificate, and the person's key file and principal there. The
// file contains no secret. But a program with write access to it can direct commands to another
// server, so the file and its directory must be accessible to their owner only.
//
//	contexts.go  File: Read, Write; Context
package contexts
