package oauth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer bounds an answer: the largest access tokens have some ten kilobytes.
const maxAnswer = 256 << 10

// defaultPause is what to wait when the server limits the rate and does not say.
const defaultPause = 5 * time.Second

// oauthError is an error of RFC 6749 section 5.2.
type oauthError struct {
	status int
	code   string // "" when the answer had none
}

func (e *oauthError) Error() string {
	if e.code == "" {
		return fmt.Sprintf("the server answered %d", e.status)
	}
	return fmt.Sprintf("the server answered %d %s", e.status, e.code)
}

// codes are those that a server may answer; a text of its own choice reaches no log.
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
		return nil, provider.Refused("What this provider's client logs in with is missing or unusable. Tell the operator of the broker.", err)
	}
	if d.cfg.Client.Auth != "client_secret_basic" {
		form.Set("client_id", d.cfg.Client.ID)
	}
	if d.cfg.Client.Auth == "client_secret_post" {
		form.Set("client_secret", secret.Reveal())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("oauth: the request cannot be made")
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

// certificate is what the client is known by (RFC 8705 section 2), nil = by something else. It is
// read for each call, so that a new one counts at once.
func (d *Driver) certificate() (*clientcert.Certificate, error) {
	if d.cfg.Client.CertificateFile == "" {
		return nil, nil //nolint:nilnil // nil stands for none
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

// shown is the certificate as a handshake takes it.
func (d *Driver) shown() (*tls.Certificate, error) {
	c, err := d.certificate()
	if err == nil && c == nil {
		err = errors.New("oauth: there is no client certificate")
	}
	return c.Show(), err
}
