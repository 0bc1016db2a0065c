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

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/provider"
)

// maxAnswer bounds what is read of one JSON answer.
const maxAnswer = 16 << 20

const (
	typeForm = "application/x-www-form-urlencoded"
	typeJSON = "application/json"
)

// peer is ebb as seen from here.
type peer struct {
	issuer, base string
	http         http.Client
	upgrading    sync.Once
	first        http.Client       // http by HTTP/1.1, once upgrading is done
	outside      http.RoundTripper // to everybody but ebb; nil = the default one
	now          func() time.Time
	timeout      time.Duration
	nonces       [2]atomic.Pointer[string] // last DPoP-Nonce of /oauth2 and of the rest (RFC 9449 section 8.2)
}

// call is one request, repeatable because its body is bytes.
type call struct {
	method, path string
	query        url.Values
	kind         string // Content-Type
	upgrade      string // protocol to go over to, which HTTP/1.1 alone has; "" = none
	body         []byte
	key          jose.Signer // of the proof
	scheme       string
	token        provider.Secret
}

func (p *peer) nonce(path string) *atomic.Pointer[string] {
	if strings.HasPrefix(path, "/oauth2/") {
		return &p.nonces[0]
	}
	return &p.nonces[1]
}

// send makes the call, once more when ebb asks for a nonce. An answer that is
// not a success is a *Problem; otherwise the caller closes the body.
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
		if again || problem.Kind != broker.UseNonce || fresh == "" || fresh == nonce {
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

// doer is the client for a call: one of its own for what HTTP/2 cannot say.
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
				t.TLSClientConfig.NextProtos = nil // of one that has been used they name HTTP/2
			}
			p.first.Transport = t
		}
		p.first.Timeout = 0 // it would bound what is said afterwards
	})
	return &p.first
}

// json makes the call within the timeout and decodes a JSON answer into out;
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
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection is kept
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeJSON {
		return badAnswer("is not JSON; check the address of ebb", nil)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return badAnswer("broke off", err)
	}
	if len(body) > maxAnswer {
		return badAnswer(fmt.Sprintf("is larger than %d bytes; ask for less at a time", maxAnswer), nil)
	}
	if err := json.Unmarshal(body, out); err != nil {
		// The decoder's own error may quote the answer, which may hold a token.
		return badAnswer("cannot be read; is its version newer than this client?", nil)
	}
	return nil
}

// unreachable drops the URL that net/http puts into its errors: it is known and
// a query can hold what others should not read.
func unreachable(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("client: %w: %w", errUnreachable, err)
}

var errUnreachable = errors.New("ebb cannot be reached")
