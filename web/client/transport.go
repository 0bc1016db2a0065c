package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Transport uses a credential at its resource server. Each request gets the
// token and a new proof (RFC 9449 section 7.1), and is repeated once when the
// server requires a nonce. The credential is sent only to the origin of its
// resource, also after a redirect to another one. Without a resource the first request
// determines the origin. base nil means the transport of Config.HTTP, also with
// a Socket, which connects to ebb only.
func (s *Sandbox) Transport(c Credential, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = s.outside
	}
	if base == nil {
		base = http.DefaultTransport
	}
	t := &bound{sandbox: s, cred: c, base: base}
	if u, err := url.Parse(c.Resource); err == nil && u.Host != "" {
		t.origin = origin(u)
	}
	return t
}

// ErrOrigin is wrapped when a request would send a credential to another
// server.
var ErrOrigin = errors.New("the credential is for another server")

type bound struct {
	sandbox *Sandbox
	cred    Credential
	base    http.RoundTripper

	mu     sync.Mutex
	origin string
	nonce  string
}

// origin returns scheme, host and port, always with the port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// RoundTrip implements http.RoundTripper.
func (t *bound) RoundTrip(r *http.Request) (*http.Response, error) {
	nonce, err := t.admit(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := t.once(r, nonce)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	fresh := resp.Header.Get("DPoP-Nonce")
	rewind := r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
	if fresh == "" || fresh == nonce || !rewind || !asksNonce(resp.Header.Values("WWW-Authenticate")) {
		return resp, nil
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil // return the 401
		}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem))
	_ = resp.Body.Close()
	return t.once(again, fresh)
}

func asksNonce(challenges []string) bool {
	for _, c := range challenges {
		if strings.Contains(c, `"use_dpop_nonce"`) {
			return true
		}
	}
	return false
}

// admit refuses a request to another origin or over plain http.
func (t *bound) admit(r *http.Request) (nonce string, err error) {
	if err := secure(r.URL); err != nil {
		return "", fmt.Errorf("client: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.origin == "" {
		t.origin = origin(r.URL)
	}
	if origin(r.URL) != t.origin {
		return "", fmt.Errorf("client: %s: %w", r.URL.Hostname(), ErrOrigin)
	}
	return t.nonce, nil
}

func (t *bound) once(r *http.Request, nonce string) (*http.Response, error) {
	out := r.Clone(r.Context()) // a RoundTripper must not change the request
	htu := *out.URL
	htu.RawQuery, htu.ForceQuery, htu.Fragment, htu.User = "", false, "", nil
	var key jose.Signer
	if t.cred.Type == "DPoP" {
		key = t.sandbox.key
	}
	if err := authorize(out, t.cred.Type, t.cred.Token, key, htu.String(), nonce, t.sandbox.now()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if fresh := resp.Header.Get("DPoP-Nonce"); fresh != "" {
		t.mu.Lock()
		t.nonce = fresh
		t.mu.Unlock()
	}
	return resp, nil
}
