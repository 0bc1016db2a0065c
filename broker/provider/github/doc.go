// Package github mints installation access tokens of a GitHub App, cut down to
// repositories and permissions, and takes them back with the token itself.
//
//	config.go       Config: what the operator sets, all problems at once
//	permissions.go  the table of GitHub's permissions and their levels
//	ask.go          scopes -> one owner, its repositories, one set of permissions
//	driver.go       Driver: Check, Mint, Revoke, Probe, Traits
//	effect.go       Describe: what a scope lets its holder do
//	handle.go       what the broker keeps of a lease: a token, or what is known without one
//	repositories.go names -> ids: pinned, or looked up once and then held to
//	answer.go       what GitHub answers to a mint, read strictly and compared with the ask
//	call.go         one call of the API
//	appjwt.go       how the App says who it is: an RS256 JWT
//	refuse.go       GitHub's refusals, as sentences for the caller; rate limits
//	inject.go       Injector: Bearer at the API, Basic for git, nowhere else
//	routes.go       the requests of the API that a permission is for, routes_pulls.go those for
//	                pull requests; covers.go reads them
//	setup.go        CheckSetup: what is wrong with the App
//
// # Scopes
//
//	<provider>:<owner>/<repository>/<permission>:<read|write|admin>
//	<provider>:<owner>/@<group>/<permission>:<level>    the group of the configuration
//	<provider>:<owner>/*/<permission>:<level>           likewise, when one of that name is configured
//	<provider>:@<owner>/<permission>:<level>            a permission of the organization itself
//
// write includes read, and admin both, as at GitHub. A token has one set of
// permissions for all of its repositories, so scopes that would give different
// permissions to different repositories are refused: one token for each.
//
// Subpackage githubtest is a GitHub for tests.
package github
