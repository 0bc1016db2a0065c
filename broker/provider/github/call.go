package github

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response in bytes, above 500 repositories of 8 kB.
const maxAnswer = 4 << 20

// answer is GitHub's response to one call.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time // ebb's clock at the time of the response
}

// errNotSent is wrapped by call when no byte of the request can have reached GitHub.
var errNotSent = errors.New("nothing was sent")

// call makes one API call. It returns every complete response, also one with an error status. An
// error means that there was no response, or only a part of one.
func (d *Driver) call(ctx context.Context, method, path string, auth secret.Secret, body any) (answer, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
		}
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, d.cfg.APIURL+path, bytes.NewReader(payload))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "ebb")
	req.Header.Set("X-GitHub-Api-Version", d.cfg.APIVersion)
	req.Header.Set("Authorization", "Bearer "+auth.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost && d.cfg.TokenFormat != "" {
		req.Header.Set("X-GitHub-Stateless-S2S-Token", map[string]string{formatOpaque: "disabled", formatStateless: "enabled"}[d.cfg.TokenFormat])
	}
	res, err := d.http.Do(req)
	if err != nil {
		if !connected.Load() {
			return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return answer{}, err
	}
	b, err := provider.ReadBody(res, maxAnswer)
	if err != nil {
		return answer{}, fmt.Errorf("GitHub answered %d, and then: %w", res.StatusCode, err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: b, at: d.cfg.Now()}, nil
}

// asApp makes a call as the App. When GitHub refuses the key, asApp reads it again once,
// because it may have been rotated. A 401 from GitHub itself means that GitHub did nothing.
func (d *Driver) asApp(ctx context.Context, method, path string, body any) (answer, error) {
	token, fresh, err := d.app.jwt()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	ans, err := d.call(ctx, method, path, token, body)
	if err != nil || ans.status != http.StatusUnauthorized || !ans.fromGitHub() || fresh {
		return ans, err
	}
	d.app.forget()
	if token, _, err = d.app.jwt(); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return d.call(ctx, method, path, token, body)
}

// theirs returns GitHub's clock at the time of the response; ebb's when the response has no
// Date.
func (a answer) theirs() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return a.at
}

// GitHub refuses a JWT whose iat is in its future, or whose exp is more than ten minutes
// after its own clock. An iat and an exp that are each a minute earlier tolerate a
// difference of a minute in both directions.
const (
	jwtBefore = time.Minute
	jwtAfter  = 9 * time.Minute
	jwtReuse  = 4 * time.Minute // signing costs a millisecond, so a JWT is reused while most of its lifetime is left
	minBits   = 2048
)

// app has the identity of the App. It is safe for concurrent use.
type app struct {
	issuer string
	file   string
	now    func() time.Time

	mu    sync.Mutex
	token secret.Secret
	made  time.Time
}

// jwt returns the JWT of the App, a new one when the last one has reached jwtReuse. fresh
// reports whether the key was read by this call.
func (a *app) jwt() (token secret.Secret, fresh bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if age := now.Sub(a.made); !a.token.Empty() && age >= 0 && age < jwtReuse {
		return a.token, false, nil
	}
	key, err := readKey(a.file)
	if err != nil {
		return secret.Secret{}, false, err
	}
	signed, err := jose.Sign(key, jose.SignHeader{Type: "JWT"}, struct {
		IssuedAt int64  `json:"iat"`
		Expiry   int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}{now.Add(-jwtBefore).Unix(), now.Add(jwtAfter).Unix(), a.issuer})
	if err != nil {
		return secret.Secret{}, false, fmt.Errorf("signing the App's JWT: %w", err)
	}
	a.token, a.made = secret.New(signed), now
	return a.token, true, nil
}

// forget makes the next call of jwt read the key again, after GitHub refused this one.
func (a *app) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = secret.Secret{}
}

// readKey reads an RSA key in PEM, in GitHub's form (PKCS #1) or in PKCS #8. Errors contain
// nothing from the file.
func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := secret.Read(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file: download the key again from the App's settings", file)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s contains no private key of a supported type: those of GitHub Apps are RSA", file)
		}
		is := false
		if key, is = parsed.(*rsa.PrivateKey); !is {
			return nil, fmt.Errorf("%s contains no RSA key: GitHub Apps have no other type", file)
		}
	}
	if key.N.BitLen() < minBits {
		return nil, errors.New("the key of the App is shorter than 2048 bits")
	}
	return key, nil
}
