// Package credentials shows issued credentials on the console and lets people revoke them.
//
// list.go lists credentials by a filter. export.go exports the same list as a file and returns its
// newest rows. credential.go shows one credential, what happened to it, and the forms that revoke
// it, retry its revocation or close it. pages.go lists the routes and the calls of the core.
package credentials
