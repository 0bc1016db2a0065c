package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// mintRequests builds n requests for one token each. A proof is valid for one
// minute and one use. All are signed here, on every core, so that the window
// measures the server's work and not the client's signatures.
func (b *run) mintRequests(ctx context.Context, s sandbox, n int) ([][]byte, error) {
	nonce, err := b.nonce(ctx)
	if err != nil {
		return nil, err
	}
	form := []byte(url.Values{
		"grant_type":    {exchange},
		"subject_token": {s.token}, "subject_token_type": {"urn:ebb:params:oauth:token-type:task"}, "scope": {b.Scope},
	}.Encode())
	out := make([][]byte, n)
	var g errgroup.Group
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				proof, err := s.proof(http.MethodPost, b.Issuer+tokenPath, "", nonce)
				if err != nil {
					return err
				}
				out[i] = b.Target.Build(tokenPath, load.FormType, form, load.Header{Name: "DPoP", Value: proof})
			}
		})
	}
	return out, g.Wait()
}

const (
	tokenPath = "/oauth2/token"
	exchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// nonce returns the nonce that the server requires in proofs, "" if none. It is
// in every response of the endpoint; this one refuses an empty request. A nonce
// is valid for longer than a window (RFC 9449, section 8).
func (b *run) nonce(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.Issuer+tokenPath, strings.NewReader(url.Values{"grant_type": {exchange}}.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", load.FormType)
	resp, err := b.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("DPoP-Nonce"), resp.Body.Close()
}

// mint measures n clients and returns the minted tokens.
func (b *run) mint(ctx context.Context, s sandbox, clients int) ([]string, error) {
	requests, err := b.mintRequests(ctx, s, min(maxRequests, int((b.warmUp()+b.Window).Seconds()*8000)))
	if err != nil {
		return nil, err
	}
	r, tokens, err := b.send(ctx, load.Job{Op: "mint", Clients: clients, WarmUp: b.warmUp(), Window: b.Window, Requests: requests})
	if err != nil {
		return nil, err
	}
	b.add(r, "DPoP-bound own token, durable record and audit before the answer")
	return tokens, nil
}

// send sends mint requests and keeps the tokens. The bodies are parsed after
// the window.
func (b *run) send(ctx context.Context, j load.Job) (load.Result, []string, error) {
	bodies := make([][]byte, len(j.Requests))
	j.Check = func(i, status int, body []byte) error {
		if status != http.StatusOK || !bytes.Contains(body, minted) {
			_, err := accessToken(status, body)
			return errors.Join(errNotMinted, err)
		}
		bodies[i] = slices.Clone(body)
		return nil
	}
	r, err := b.load(ctx, j)
	if err != nil {
		return r, nil, err
	}
	var tokens []string
	for _, body := range bodies {
		if body == nil {
			continue
		}
		token, err := accessToken(http.StatusOK, body)
		if err != nil {
			return r, nil, err
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return r, nil, errors.New("no token was minted")
	}
	return r, tokens, nil
}

var (
	minted       = []byte(`"access_token":"`)
	errNotMinted = errors.New("no token in the answer")
)

// fill mints exactly n tokens.
func (b *run) fill(ctx context.Context, s sandbox, n int) ([]string, error) {
	const batch = 10_000 // small enough that its proofs do not expire
	const fillWindow = 50 * time.Second
	tokens := make([]string, 0, n)
	for len(tokens) < n {
		requests, err := b.mintRequests(ctx, s, min(batch, n-len(tokens)))
		if err != nil {
			return nil, err
		}
		r, more, err := b.send(ctx, load.Job{Op: "fill", Clients: 16, Window: fillWindow, Requests: requests})
		if err != nil {
			return nil, err
		}
		if r.Errors > 0 {
			return nil, fmt.Errorf("minting live tokens: %d of %d requests failed: %s", r.Errors, len(requests), r.First)
		}
		tokens = append(tokens, more...)
	}
	return tokens, nil
}
