package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Config is the provider's part of the configuration.
type Config struct {
	TokenEndpoint         string `json:"token_endpoint"`
	RevocationEndpoint    string `json:"revocation_endpoint,omitempty"`    // RFC 7009; "" when the server has none, and tokens then end by expiry
	IntrospectionEndpoint string `json:"introspection_endpoint,omitempty"` // RFC 7662; "" when revocations are not verified
	CAFile                string `json:"ca_file,omitempty"`                // PEM; "" = the system's
	Client                Client `json:"client"`
	// Grants maps the resource of a scope to the source of its tokens: {drive:
	// {refresh_token: drive-ann, actions: {read: files.read}}}.
	Grants map[string]Grant `json:"grants"`
	// RevocationBound is how many seconds resource servers may accept a revoked token,
	// because they cache the state of tokens; 0 means 60.
	RevocationBound int `json:"revocation_bound,omitempty"`
	// AssumedLifetime is the assumed lifetime in seconds for responses without one; with 0
	// such a response is refused.
	AssumedLifetime int `json:"assumed_lifetime,omitempty"`
	// MaxLifetime is the maximum lifetime in seconds of a token that cannot be revoked, when
	// that is longer than its lease; 0 means 3600. A token with a longer lifetime is not
	// issued.
	MaxLifetime int `json:"max_lifetime,omitempty"`
}

// Client is ebb's registration at the authorization server.
type Client struct {
	ID string `json:"id"`
	// Auth is client_secret_basic, client_secret_post, none, tls_client_auth or
	// self_signed_tls_client_auth. The last two (RFC 8705 section 2) differ only for the
	// server.
	Auth       string `json:"auth"`
	SecretFile string `json:"secret_file,omitempty"` // mode 0600
	// CertificateFile is a PEM file with a chain and its private key, mode 0600, for both
	// methods with TLS.
	CertificateFile string `json:"certificate_file,omitempty"`
}

// Grant is one authorization of ebb.
type Grant struct {
	// RefreshToken is the name of a secret in the secret store; "" for client_credentials.
	RefreshToken string `json:"refresh_token,omitempty"`
	// Resource is sent as the parameter of RFC 8707, if set.
	Resource string `json:"resource,omitempty"`
	// Actions maps an action to OAuth scopes, separated by a space.
	Actions map[string]string `json:"actions"`
	// Requests are the requests that egress adds tokens to; nil means that tokens are issued
	// to sandboxes.
	Requests *Requests `json:"requests,omitempty"`
}

const (
	defaultBound = 60
	maxSeconds   = 24 * 60 * 60
)

var (
	nameForm = lazyregexp.New(`^[a-z][a-z0-9._-]{0,63}$`)
	// scopeForm matches scope of RFC 6749 section 3.3.
	scopeForm = lazyregexp.New(`^[\x21\x23-\x5B\x5D-\x7E]+( [\x21\x23-\x5B\x5D-\x7E]+)*$`)
)

// check returns all problems joined; name is the provider's.
func (c Config) check(name string) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for key, text := range map[string]string{"token_endpoint": c.TokenEndpoint, "revocation_endpoint": c.RevocationEndpoint, "introspection_endpoint": c.IntrospectionEndpoint} {
		if (text != "" || key == "token_endpoint") && !endpoint(text) {
			bad("%s: only https without user, query and fragment, or http on loopback", key)
		}
	}
	if c.Client.ID == "" {
		bad("client.id: say who ebb is at the server")
	}
	c.Client.check(bad)
	for _, text := range []string{c.TokenEndpoint, c.RevocationEndpoint, c.IntrospectionEndpoint} {
		if c.Client.tls() && strings.HasPrefix(text, "http:") {
			bad("client.auth: %s needs endpoints over https", c.Client.Auth)
		}
	}
	if c.RevocationBound < 0 || c.RevocationBound > maxSeconds || c.AssumedLifetime < 0 || c.AssumedLifetime > maxSeconds || c.MaxLifetime < 0 || c.MaxLifetime > maxSeconds {
		bad("revocation_bound, assumed_lifetime, max_lifetime: 1 to %d seconds", maxSeconds)
	}
	if len(c.Grants) == 0 {
		bad("grants: name at least one resource, its refresh token and its actions")
	}
	for _, res := range slices.Sorted(maps.Keys(c.Grants)) {
		g := c.Grants[res]
		if s, err := scopes.New(name, res, "x"); err != nil || s.IsPattern() {
			bad("grants: %q cannot be the resource of a scope", res)
		}
		if g.RefreshToken != "" && !nameForm.MatchString(g.RefreshToken) {
			bad("grants.%s.refresh_token: %q is not a valid name of a stored secret: use a lower-case letter, then up to 63 of a-z 0-9 . _ -", res, g.RefreshToken)
		}
		if g.RefreshToken == "" && c.Client.Auth == "none" {
			bad("grants.%s: without a refresh token the client must authenticate (RFC 6749 section 4.4)", res)
		}
		if g.Requests != nil {
			g.Requests.check("grants."+res+".requests", g, []string{c.TokenEndpoint, c.RevocationEndpoint, c.IntrospectionEndpoint}, bad)
		}
		if len(g.Actions) == 0 {
			bad("grants.%s.actions: name at least one", res)
		}
		for _, a := range slices.Sorted(maps.Keys(g.Actions)) {
			if !provider.ValidAction(a) || !scopeForm.MatchString(g.Actions[a]) {
				bad("grants.%s.actions.%s: it needs an action and OAuth scopes", res, a)
			}
		}
	}
	return errors.Join(errs...)
}

// tls reports whether the client authenticates with a certificate.
func (c Client) tls() bool {
	return c.Auth == "tls_client_auth" || c.Auth == "self_signed_tls_client_auth"
}

func (c Client) check(bad func(format string, a ...any)) {
	secret := c.Auth == "client_secret_basic" || c.Auth == "client_secret_post"
	switch {
	case !secret && !c.tls() && c.Auth != "none":
		bad("client.auth: %q is none of client_secret_basic, client_secret_post, tls_client_auth, self_signed_tls_client_auth, none", c.Auth)
	case secret != (c.SecretFile != ""):
		bad("client.secret_file: client_secret_basic and client_secret_post need it, and nothing else sends it")
	case c.tls() != (c.CertificateFile != ""):
		bad("client.certificate_file: tls_client_auth and self_signed_tls_client_auth need it, and nothing else shows it")
	}
}

func endpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && !strings.Contains(text, "#") && fetch.Secure(u)
}

// CheckSetup implements provider.Checker. It checks that every secret exists and that the
// server accepts the client. It uses no refresh token.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	fatal := func(what, remedy string) {
		out = append(out, provider.Finding{Fatal: true, What: what, Remedy: remedy})
	}
	if _, err := d.secret(); err != nil {
		fatal("The client's secret cannot be read.", "Write it to client.secret_file, mode 0600.")
	}
	c, err := d.certificate()
	switch {
	case err != nil:
		fatal("What the client certificate is read from does not hold one: "+err.Error()+".", "Write chain and private key to client.certificate_file as PEM, mode 0600.")
	case c != nil && c.NotAfter().Sub(d.now()) < clientcert.Soon:
		out = append(out, provider.Finding{What: "The client certificate, or one of its chain, expires on " + c.NotAfter().UTC().Format(time.RFC3339) + ", and nothing is minted or revoked from then on.", Remedy: "Put a new one in its place: it holds for the next call."})
	}
	for _, res := range slices.Sorted(maps.Keys(d.cfg.Grants)) {
		name := d.cfg.Grants[res].RefreshToken
		if name == "" {
			continue
		}
		if _, err := d.secrets.Get(ctx, name); err != nil {
			fatal("The refresh token of "+res+" is not in the secret store, or cannot be decrypted.", "ebb secrets put "+name+" < file")
		}
	}
	if d.cfg.RevocationEndpoint == "" {
		out = append(out, provider.Finding{What: "Tokens cannot be taken back before they expire.", Remedy: "Set revocation_endpoint if the server has one."})
		return out
	}
	// The revocation of an unknown token returns 200 (RFC 7009 section 2.2) if the client
	// authentication is valid.
	err = d.Revoke(ctx, provider.Target{Handle: secret.New("ebb-set-up-check")})
	if errors.Is(err, provider.ErrRefused) { // nothing could be sent; an earlier finding reports it
		return out
	}
	if oe, ok := errors.AsType[*oauthError](err); ok {
		fatal("The server refuses the client: "+oe.Error()+".", "Check client.id, client.auth, the secret or the client certificate, and revocation_endpoint.")
	} else if err != nil {
		fatal("The server cannot be reached, or does not take the client certificate.", "Check the endpoints, ca_file, the client certificate, the proxy (HTTPS_PROXY) and the network.")
	}
	return out
}
