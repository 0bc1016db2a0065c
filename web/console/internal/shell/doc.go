// Package shell has the parts that all pages of the console share: routes that check the visitor's
// session and roles, the frame around each page, forms that can be sent only once, and error pages.
// It imports no area of the console. Shell.Open gets the areas and their entries in the navigation.
//
// A GET request passes Shell.Page: guarded sets the headers (errors.go), the session is read, the
// area's handler collects the data of its page, and Shell.Draw renders it (page.go, templates.go).
// A form passes Shell.Form, which also passes the gate (gate.go): it must come from a page of this
// console, with the nonce of that page.
//
//	shell.go      Config, New, Open; routes, redirects, paths of the console
//	page.go       View and Frame, the data of a template; the navigation
//	templates.go  parsing and rendering; the functions that every template has
//	text.go       times and names as text; rows of facts and form errors
//	assets.go     style sheet, script, font and icons, named by their hash
//	compress.go   compression of pages and assets
package shell
