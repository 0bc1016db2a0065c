// Package github mints installation access tokens of a GitHub App, limited to repositories and
// permissions. It revokes a token with the token itself, as GitHub requires
// (https://docs.github.com/en/rest/apps/installations#revoke-an-installation-access-token).
//
//	config.go       Config and its checks, all problems at once
//	permissions.go  the table of GitHub's permissions and their levels
//	ask.go          scopes -> one owner, its repositories, one set of permissions
//	driver.go       Driver: Check, Mint, Revoke, Probe, Traits
//	effect.go       Describe: the effect of a scope
//	handle.go       the stored state of a lease: a token, or a note in its place
//	repositories.go names -> ids: pinned, or looked up once and then fixed
//	answer.go       the strict parser of a mint response, and its comparison with the request
//	call.go         one call of the API
//	appjwt.go       the App's login: an RS256 JWT
//	refuse.go       GitHub's refusals, as sentences for the caller; rate limits
//	inject.go       Injector: Bearer at the API, Basic for git, nowhere else
//	routes.go       the API requests of each permission; routes_pulls.go those for pull requests;
//	                covers.go matches a request with them
//	setup.go        CheckSetup: problems of the App's configuration
//
// # Scopes
//
//	<provider>:<owner>/<repository>/<permission>:<read|write|admin>
//	<provider>:<owner>/@<group>/<permission>:<level>    the group of the configuration
//	<provider>:<owner>/*/<permission>:<level>           likewise, when one of that name is configured
//	<provider>:@<owner>/<permission>:<level>            a permission of the organization itself
//
// write includes read, and admin includes both, as at GitHub. A token has one set of permissions
// for all of its repositories. Scopes with different permissions for different repositories are
// refused; they need one token each.
//
// Subpackage githubtest is a GitHub server for tests.
package github
