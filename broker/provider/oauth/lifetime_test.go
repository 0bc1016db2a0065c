package oauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
)

// TestTokensThatOutliveTheirLease: a token that cannot be revoked has at most the lifetime of
// its lease or the operator's max_lifetime. The broker receives the expiry of a token that it
// does not issue.
func TestTokensThatOutliveTheirLease(t *testing.T) {
	t.Parallel()
	const jwt, opaque = "eyJhbGciOiJub25lIn0.e30.x", "canary-access"
	for name, c := range map[string]struct {
		token    string
		seconds  int
		most     int
		endpoint bool
		ok       bool
	}{
		"an hour":             {token: opaque, seconds: 3600, ok: true},
		"over an hour":        {token: opaque, seconds: 3601},
		"a year":              {token: opaque, seconds: 365 * 86400},
		"a year, revocable":   {token: opaque, seconds: 365 * 86400, endpoint: true, ok: true},
		"ten seconds":         {token: opaque, seconds: 10, endpoint: true, ok: true},
		"a JWT":               {token: jwt, seconds: 3600, endpoint: true, ok: true},
		"a JWT for a year":    {token: jwt, seconds: 365 * 86400, endpoint: true},
		"as configured":       {token: opaque, seconds: 7200, most: 7200, ok: true},
		"beyond":              {token: opaque, seconds: 7201, most: 7200},
		"shorter than leases": {token: opaque, seconds: 300, most: 60, ok: true},
		"beyond the lease":    {token: opaque, seconds: 301, most: 60},
	} {
		d, _ := at(t, body(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":%d}`, c.token, c.seconds)), func(cfg *oauth.Config) {
			cfg.MaxLifetime = c.most
			if !c.endpoint {
				cfg.RevocationEndpoint, cfg.IntrospectionEndpoint = "", ""
			}
		})
		g := grant("files:drive:read")
		cred, err := d.Mint(t.Context(), g)
		if (err == nil) != c.ok || errors.Is(err, provider.ErrRefused) || cred.Handle.Empty() {
			t.Errorf("%s: Mint = %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: the error holds the token", name)
		}
		if cred.DiesAt.Before(g.IssuedAt.Add(time.Duration(c.seconds) * time.Second)) {
			t.Errorf("%s: it dies at %s", name, cred.DiesAt)
		}
		if err == nil && (cred.ExpiresAt.After(cred.DiesAt) || cred.ExpiresAt.After(g.ExpiresAt)) {
			t.Errorf("%s: it expires at %s, dies at %s, and its lease ends at %s", name, cred.ExpiresAt, cred.DiesAt, g.ExpiresAt)
		}
		if f := d.Traits().Floor; c.most != 0 && f != time.Duration(c.most)*time.Second || c.most == 0 && f != time.Hour {
			t.Errorf("%s: floor %s", name, f)
		}
	}
}
