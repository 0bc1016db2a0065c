package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// maxAnswer limits the size of one JSON response.
const maxAnswer = 16 << 20

const (
	typeForm = "application/x-www-form-urlencoded"
	typeJSON = "application/json"
)

// peer holds the connection settings and state of a client.
type peer struct {
	issuer, base string
	http         http.Client
	upgrading    sync.Once
	first        http.Client       // http limited to HTTP/1.1, set by upgrading
	outside      http.RoundTripper // transport to other servers than ebb; nil = http.DefaultTransport
	now          func() time.Time
	timeout      time.Duration
	nonces       [2]atomic.Pointer[string] // last DPoP-Nonce of /oauth2 and of the rest (RFC 9449 section 8.2)
}

// call is one request. It can be repeated, because its body is in memory.
type call struct {
	method, path string
	query        url.Values
	kind         string // Content-Type
	upgrade      string // protocol to upgrade to, HTTP/1.1 only; "" = none
	body         []byte
	key          jose.Signer // of the proof
	scheme       string
	token        secret.Secret
}

func (p *peer) nonce(path string) *atomic.Pointer[string] {
	if strings.HasPrefix(path, "/oauth2/") {
		return &p.nonces[0]
	}
	return &p.nonces[1]
}

// send makes the call, once more when ebb requires a nonce. An error response
// is returned as a *Problem. Otherwise the caller must close the body.
func (p *peer) send(ctx context.Context, c call) (*http.Response, error) {
	for again := false; ; again = true {
		slot := p.nonce(c.path)
		var nonce string
		if v := slot.Load(); v != nil {
			nonce = *v
		}
		req, err := p.request(ctx, c, nonce)
		if err != nil {
			return nil, err
		}
		resp, err := p.doer(c).Do(req)
		if err != nil {
			return nil, unreachable(err)
		}
		fresh := resp.Header.Get("DPoP-Nonce")
		if fresh != "" {
			slot.Store(&fresh)
		}
		if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusSwitchingProtocols && c.upgrade != "" {
			return resp, nil
		}
		problem := readProblem(resp, p.now())
		_ = resp.Body.Close()
		if again || problem.Kind != wire.KindUseNonce || fresh == "" || fresh == nonce {
			return nil, problem
		}
	}
}

func (p *peer) request(ctx context.Context, c call, nonce string) (*http.Request, error) {
	target := p.base + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	var body io.Reader
	if c.body != nil {
		body = bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("User-Agent", "ebb-client")
	req.Header.Set("Accept", typeJSON)
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	if c.upgrade != "" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", c.upgrade)
	}
	return req, authorize(req, c.scheme, c.token, c.key, p.issuer+c.path, nonce, p.now())
}

// doer returns the HTTP client for a call. Upgrades use a separate client,
// because HTTP/2 does not support them.
func (p *peer) doer(c call) *http.Client {
	if c.upgrade == "" {
		return &p.http
	}
	p.upgrading.Do(func() {
		p.first = p.http
		t, is := p.http.Transport.(*http.Transport)
		if p.http.Transport == nil {
			t, is = http.DefaultTransport.(*http.Transport)
		}
		if is {
			t = t.Clone()
			t.Protocols = new(http.Protocols)
			t.Protocols.SetHTTP1(true)
			if t.TLSClientConfig != nil {
				t.TLSClientConfig.NextProtos = nil // a used transport has added HTTP/2 here
			}
			p.first.Transport = t
		}
		p.first.Timeout = 0 // it would limit the upgraded connection
	})
	return &p.first
}

// json makes the call within the timeout and decodes a JSON response into out;
// nil ignores the body.
func (p *peer) json(ctx context.Context, c call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	resp, err := p.send(ctx, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, out)
}

func decode(resp *http.Response, out any) error {
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection can be reused
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeJSON {
		return badAnswer("is not JSON; check the URL of ebb", nil)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return badAnswer("ended early", err)
	}
	if len(body) > maxAnswer {
		return badAnswer(fmt.Sprintf("is larger than %d bytes; request smaller pages", maxAnswer), nil)
	}
	if err := json.Unmarshal(body, out); err != nil {
		// The decoder's error may quote the response, which may contain a
		// token.
		return badAnswer("cannot be parsed; ebb may be newer than this client", nil)
	}
	return nil
}

// unreachable removes the URL that net/http adds to its errors, because a query
// may contain secrets.
func unreachable(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("client: %w: %w", errUnreachable, err)
}

var errUnreachable = errors.New("ebb cannot be reached")
