// Package githubtest is a GitHub for tests: a server over TLS with one App. A test installs the App at
// owners, adds repositories, and may break calls or exhaust the rate limits.
//
// Each call passes the same steps: a fault that a test has set, the rate limits, the judgement of the
// App's JWT or of the token, the deed, and the check of request and answer against GitHub's published
// OpenAPI description. Tokens get at most the permissions and repositories of their installation, in
// both formats of GitHub, and expire by the clock that the test passes in.
//
// testdata holds the description, cut down, and the script that cuts it.
package githubtest
