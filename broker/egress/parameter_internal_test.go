package egress

import "testing"

// TestNamesOfParameters (E75): the names of parameters from which servers take a credential, in
// every spelling, and names from which they do not.
func TestNamesOfParameters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"access_token", "accessToken", "AccessToken", "accesstoken", "ACCESSTOKEN", "access-token", "access.token", "user[token]", "token[]", "apiToken", "APIToken", "private_token",
		"sessionId", "session_id", "sessionid", "SESSIONID", "JSESSIONID", "sid", "pat", "PAT", "api_key", "apiKey", "apikey", "X-Api-Key", "key", "Key", "sig", "Signature", "clientSecret",
		"X-Amz-Credential", "X-Amz-Expires", "x-amz-security-token", "oauthToken", "id_token", "idToken", "jwt", "userPassword", "pwd", "Ocp-Subscription-Key", "AWSAccessKeyId", "auth", "Authorization", "session",
	} {
		if !isCredentialParameter(name) {
			t.Errorf("%s counts as a credential parameter", name)
		}
	}
	for _, name := range []string{
		"", "-", "pageToken", "page_token", "nextPageToken", "next_token", "NextToken", "syncToken", "continuation-token", "sortKey", "issueKey", "keyword", "author", "path", "pattern", "tokens",
		"max-keys", "side", "compat", "design", "code", "state", "q", "per_page", "sort", "expand[]", "filter[author]", "sessions",
	} {
		if isCredentialParameter(name) {
			t.Errorf("%s is one", name)
		}
	}
}
