// Package github mints installation access tokens of a GitHub App, limited to repositories and
// permissions. It revokes a token with the token itself, as GitHub requires
// (https://docs.github.com/en/rest/apps/installations#revoke-an-installation-access-token).
//
// Mint turns the scopes into one owner, its repositories and one set of permissions. It resolves
// names to ids, which are pinned or looked up once and then fixed. It authenticates as the App
// with an RS256 JWT, parses the response strictly and compares it with the request. The stored
// state of a lease is the token, or a note in its place.
//
// The egress proxy adds the token to requests for GitHub and for nothing else: as Bearer at the
// API, as Basic for git. A table assigns the requests of the API to permissions. GitHub's
// refusals and rate limits become sentences for the caller.
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
