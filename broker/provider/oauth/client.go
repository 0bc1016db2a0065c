package oauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response in bytes: the largest access tokens have about
// ten kilobytes.
const maxAnswer = 256 << 10

// defaultPause is the wait when the server limits the rate without Retry-After.
const defaultPause = 5 * time.Second

// oauthError is an error of RFC 6749 section 5.2.
type oauthError struct {
	status int
	code   string // "" when the response has none
}

func (e *oauthError) Error() string {
	if e.code == "" {
		return fmt.Sprintf("the server answered %d", e.status)
	}
	return fmt.Sprintf("the server answered %d %s", e.status, e.code)
}

// codes are the accepted error codes. Other texts of the server are not logged.
var codes = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true, "unsupported_grant_type": true,
	"invalid_scope": true, "invalid_target": true, "unsupported_token_type": true, "temporarily_unavailable": true, "server_error": true,
	"invalid_token": true, "insufficient_scope": true,
}

// post sends a form and returns the body of a 200 response. Any other response is an error: a
// *provider.BusyError for a rate limit. A 503 is not a BusyError, because the server may have done
// part of the work.
func (d *Driver) post(ctx context.Context, endpoint string, form url.Values) ([]byte, error) {
	secret, err := d.secret()
	if err == nil {
		_, err = d.certificate()
	}
	if err != nil { // nothing is sent
		return nil, provider.Refused("The client credentials of this provider are missing or unusable. Tell the operator of the broker.", err)
	}
	if d.cfg.Client.Auth != "client_secret_basic" {
		form.Set("client_id", d.cfg.Client.ID)
	}
	if d.cfg.Client.Auth == "client_secret_post" {
		form.Set("client_secret", secret.Reveal())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("oauth: the request could not be built")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if d.cfg.Client.Auth == "client_secret_basic" { // both parts are form-encoded first (RFC 6749 section 2.3.1)
		r.SetBasicAuth(url.QueryEscape(d.cfg.Client.ID), url.QueryEscape(secret.Reveal()))
	}
	answer, err := d.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("oauth: %w", err)
	}
	body, err := provider.ReadBody(answer, maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("oauth: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return body, nil
	}
	e := &oauthError{status: answer.StatusCode}
	var doc struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil && codes[doc.Error] {
		e.code = doc.Error
	}
	if e.status == http.StatusTooManyRequests {
		after, told := provider.RetryAfter(answer.Header, d.now())
		if !told {
			after = defaultPause
		}
		return nil, &provider.BusyError{After: after, Cause: e}
	}
	return nil, fmt.Errorf("oauth: %w", e)
}

func (d *Driver) secret() (secret.Secret, error) {
	if d.cfg.Client.SecretFile == "" {
		return secret.Secret{}, nil
	}
	s, err := secret.Read(d.cfg.Client.SecretFile)
	if err != nil {
		return s, fmt.Errorf("oauth: client.secret_file: %w", err)
	}
	return s, nil
}

// certificate returns the client certificate (RFC 8705 section 2), nil for other client
// authentication. It is read for each call, so that a new one is used at once.
func (d *Driver) certificate() (*clientcert.Certificate, error) {
	if d.cfg.Client.CertificateFile == "" {
		return nil, nil //nolint:nilnil // nil means none
	}
	s, err := secret.Read(d.cfg.Client.CertificateFile)
	if err != nil {
		return nil, fmt.Errorf("client.certificate_file: %w", err)
	}
	c, err := clientcert.Parse(s.Reveal(), d.now())
	if err != nil {
		return nil, fmt.Errorf("client.certificate_file: %w", err)
	}
	return c, nil
}

// shown returns the certificate in the form for a handshake.
func (d *Driver) shown() (*tls.Certificate, error) {
	c, err := d.certificate()
	if err == nil && c == nil {
		err = errors.New("oauth: there is no client certificate")
	}
	return c.Show(), err
}

// answer is the response of a token endpoint (RFC 6749 section 5.1).
type answer struct {
	access   secret.Secret
	refresh  secret.Secret // empty: the old one remains valid
	lifetime time.Duration // 0 when not stated
	scopes   []string      // nil: as requested
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
		return answer{}, errors.New("the response is not a JSON object of a token endpoint") // err may contain parts of a token
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
	case !jose.IsToken68(doc.AccessToken):
		return out, errors.New("access_token is missing or cannot be sent in a header")
	case !strings.EqualFold(doc.TokenType, "bearer"):
		return out, errors.New("token_type is not Bearer")
	case doc.RefreshToken != "" && !printable(doc.RefreshToken):
		return out, errors.New("refresh_token is not printable")
	}
	return out, nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

// covered returns an error when the server granted a scope that was not requested.
func (a answer) covered(asked []string) error {
	for _, s := range a.scopes {
		if !slices.Contains(asked, s) {
			return fmt.Errorf("the server granted a scope beyond the %d requested", len(asked))
		}
	}
	if a.scopes != nil && len(a.scopes) == 0 {
		return errors.New("the server granted no scope")
	}
	return nil
}

// jwt reports whether a token looks like one that resource servers verify themselves. Its
// revocation does not reach them.
func (a answer) jwt() bool {
	t := a.access.Reveal()
	return strings.Count(t, ".") == 2 && strings.HasPrefix(t, "eyJ")
}

// Revoke implements RFC 7009 for the access token only. All leases share the refresh token,
// and revoking it would end all of them. When the server supports no revocation, tokens end
// by expiry, and the class is ttl-only.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Empty() {
		return fmt.Errorf("oauth: %w", provider.ErrLost)
	}
	if d.cfg.RevocationEndpoint == "" {
		return nil
	}
	body, err := d.post(ctx, d.cfg.RevocationEndpoint, url.Values{"token": {t.Handle.Reveal()}, "token_type_hint": {"access_token"}})
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		// RFC 7009 section 2.2 has clients ignore the body of a 200 response. An HTML page,
		// however, comes from a sign-in page or a portal on the way, and not from the revocation
		// endpoint.
		return errors.New("oauth: the revocation endpoint answered with an HTML page: the token may still be valid; look for a proxy or a sign-in page in front of the server")
	}
	if oe, ok := errors.AsType[*oauthError](err); ok && oe.code == "unsupported_token_type" {
		return fmt.Errorf("the server does not revoke access tokens, so revocation_endpoint must not be configured: %w", err)
	}
	return err
}

// prober is a Driver whose server has an introspection endpoint.
type prober struct{ *Driver }

// Probe implements provider.Prober by RFC 7662.
func (d prober) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	if t.Handle.Empty() {
		return false, errors.New("oauth: there is no token to introspect")
	}
	body, err := d.post(ctx, d.cfg.IntrospectionEndpoint, url.Values{"token": {t.Handle.Reveal()}, "token_type_hint": {"access_token"}})
	if err != nil {
		return false, err
	}
	var doc struct {
		Active *bool `json:"active"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&doc); err != nil || dec.More() || doc.Active == nil {
		return false, errors.New("oauth: the response of the introspection endpoint has no active member")
	}
	return *doc.Active, nil
}
