// Package console is ebb's web console. Approvers decide requests in it, and auditors read the
// audit log. Pages are rendered on the server, forms are plain HTML, and everything works without
// JavaScript. The console decides nothing: every handler calls the broker.
//
// A request passes three layers:
//
//	internal/session  who is it: the session behind the cookies
//	internal/shell    may it pass: headers, forms that are sent once, the frame
//	                  of pages, errors as pages
//	an area           one handler, which calls the core and draws a page
//
// Each area is a package of its own: requests, tasks, credentials, auditlog, transcripts, policies,
// breakglass, settings, insights. An area declares the calls of the core that it makes, as
// interfaces, and imports no other area. They share internal/list, for lists with filters and
// pages, and proof, which demands proofs of presence before an answer counts. passkey and chart
// know neither pages nor people.
//
// This package connects them:
//
//	console.go  Config, New, Register; the areas and their dependencies
//	routes.go   every route, the navigation, the functions of templates
//	signin.go   sign-in and sign-out, by the methods of package signin
//	live.go     server-sent events: the waiting requests, and that the audit log
//	            has grown
//
// templates has one file for each page; the names of shared ones begin with _.
package console
