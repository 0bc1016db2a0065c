package oauth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// answer is what a token endpoint gave (RFC 6749 section 5.1).
type answer struct {
	access   secret.Secret
	refresh  secret.Secret // empty = the old one goes on
	lifetime time.Duration // 0 = it did not say
	scopes   []string      // nil = as asked
}

// read parses a token response (RFC 6749 section 5.1). It ignores unknown members, as section 5.1
// requires, and refuses known members of the wrong type.
func read(body []byte) (answer, error) {
	var doc struct {
		AccessToken  string       `json:"access_token"`
		TokenType    string       `json:"token_type"`
		ExpiresIn    *json.Number `json:"expires_in"`
		RefreshToken string       `json:"refresh_token"`
		Scope        *string      `json:"scope"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&doc); err != nil || dec.More() {
		return answer{}, errors.New("it is not a JSON object of a token endpoint") // err can hold parts of a token
	}
	out := answer{access: secret.New(doc.AccessToken), refresh: secret.New(doc.RefreshToken)}
	if doc.ExpiresIn != nil {
		n, err := doc.ExpiresIn.Int64()
		if err != nil || n < 1 || n > int64(10*365*24*time.Hour/time.Second) {
			return out, errors.New("expires_in is not a number of seconds")
		}
		out.lifetime = time.Duration(n) * time.Second
	}
	if doc.Scope != nil {
		out.scopes = strings.Fields(*doc.Scope)
	}
	switch {
	case !token(doc.AccessToken):
		return out, errors.New("access_token is missing or cannot be sent in a header")
	case !strings.EqualFold(doc.TokenType, "bearer"):
		return out, errors.New("token_type is not Bearer")
	case doc.RefreshToken != "" && !printable(doc.RefreshToken):
		return out, errors.New("refresh_token is not printable")
	}
	return out, nil
}

// token is b64token of RFC 6750 section 2.1, which is what a header can carry.
func token(s string) bool {
	return s != "" && strings.Trim(s, "=") != "" && !strings.ContainsFunc(strings.TrimRight(s, "="), func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/", r))
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

// covered reports whether nothing was granted that was not asked for.
func (a answer) covered(asked []string) error {
	for _, s := range a.scopes {
		if !slices.Contains(asked, s) {
			return fmt.Errorf("the server granted a scope beyond the %d asked for", len(asked))
		}
	}
	if a.scopes != nil && len(a.scopes) == 0 {
		return errors.New("the server granted no scope")
	}
	return nil
}

// jwt reports whether a token looks like one that resource servers verify by
// themselves: revoking it does not reach them.
func (a answer) jwt() bool {
	t := a.access.Reveal()
	return strings.Count(t, ".") == 2 && strings.HasPrefix(t, "eyJ")
}
