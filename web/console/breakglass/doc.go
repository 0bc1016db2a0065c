// Package breakglass is break-glass on the console: a person may approve alone
// for a short time, and everyone is told.
//
// A person states an incident and a reason, which become a signed plan in a cookie (plan.go). They
// prove who they are for this plan alone, by a passkey or by a new sign-in, and the period starts.
// period.go shows a period with the requests approved in it, and the forms that end and review it.
// breakglass.go lists the periods and draws the banner of every page. pages.go lists the routes and
// the calls of the core.
package breakglass
