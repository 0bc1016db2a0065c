package egress

import (
	"slices"
	"strings"
	"unicode"
)

// queryWords are what names of parameters end with that servers take a credential from, as
// words and run together.
var queryWords = []string{
	"token", "auth", "authorization", "secret", "password", "passwd", "pwd", "credential", "credentials", "signature", "sig", "jwt", "assertion", "bearer", "pat",
	"session", "session-id", "sid", "api-key", "access-key", "access-key-id", "secret-key", "private-key", "auth-key", "subscription-key",
	"apikey", "accesskey", "secretkey", "authkey", "accesstoken", "apitoken", "authtoken", "idtoken", "sessiontoken", "sessionid", "jsessionid", "phpsessid",
}

// paging are names that say where a list goes on.
var paging = []string{"continuation-token", "page-token", "next-page-token", "next-token", "sync-token", "cursor-token"}

// isCredentialParameter reports whether servers take a credential from a parameter of this
// name, however it is spelled: access_token, accessToken, AccessToken, user[token].
func isCredentialParameter(name string) bool {
	plain, spelled := strings.ToLower(name), words(name)
	if slices.Contains(paging, spelled) {
		return false
	}
	// Of a key by itself there are many that are none: sortKey, issueKey.
	if plain == "key" || strings.HasSuffix(plain, "_key") || strings.HasSuffix(plain, "-key") || strings.HasPrefix(plain, "x-amz-") {
		return true
	}
	together := strings.ReplaceAll(spelled, "-", "")
	return slices.ContainsFunc(queryWords, func(w string) bool {
		return spelled == w || strings.HasSuffix(spelled, "-"+w) || together == w
	})
}

// words are those of a name in lower case, with hyphens between them.
func words(name string) string {
	var b strings.Builder
	all := []rune(name)
	for i, c := range all {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			c = '-'
		} else if unicode.IsUpper(c) && i > 0 && (!unicode.IsUpper(all[i-1]) || i+1 < len(all) && unicode.IsLower(all[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.Join(strings.FieldsFunc(b.String(), func(c rune) bool { return c == '-' }), "-")
}
