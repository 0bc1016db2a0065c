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

// maxAnswer is above any answer: 500 repositories of 8 kB.
const maxAnswer = 4 << 20

// answer is what GitHub answered to one call.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time // our clock when it came
}

// errNotSent is wrapped by call when no byte of the request can have reached
// GitHub.
var errNotSent = errors.New("nothing was sent")

// call makes one API call. Any complete response is an answer, whatever its status. An error means
// that there was no response, or only a part of one.
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

// asApp makes a call as the App. A key that GitHub does not take is read again,
// once: it may have been rotated. GitHub's own 401 says that nothing was done.
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

// theirs is GitHub's clock when it answered; ours, when it does not say.
func (a answer) theirs() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return a.at
}

// GitHub refuses a JWT that is issued in its future or that lives more than ten
// minutes from its own clock on. Starting a minute early and ending a minute
// early leaves a minute of difference between the clocks in both directions.
const (
	jwtBefore = time.Minute
	jwtAfter  = 9 * time.Minute
	jwtReuse  = 4 * time.Minute // signing costs a millisecond; reuse it while most of its life is left
	minBits   = 2048
)

// app says who the App is. It is safe for concurrent use.
type app struct {
	issuer string
	file   string
	now    func() time.Time

	mu    sync.Mutex
	token secret.Secret
	made  time.Time
}

// jwt returns the JWT of the App, a new one when the last is getting old. fresh
// reports that its key was read just now.
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

// forget makes the next jwt read the key again: GitHub did not like this one.
func (a *app) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = secret.Secret{}
}

// readKey reads an RSA key in PEM, in the form that GitHub hands out (PKCS #1) or
// in PKCS #8. Errors hold nothing of the file.
func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := secret.Read(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM file: download the key again from the App's settings", file)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s holds no private key of a kind that is understood: GitHub's are RSA", file)
		}
		is := false
		if key, is = parsed.(*rsa.PrivateKey); !is {
			return nil, fmt.Errorf("%s holds no RSA key: GitHub Apps have no other", file)
		}
	}
	if key.N.BitLen() < minBits {
		return nil, errors.New("the key of the App is shorter than 2048 bits")
	}
	return key, nil
}
