package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"ebb/cmd/ebb/internal/load"
)

// mintRequests builds n requests for one token each.
func (b *run) mintRequests(s sandbox, n int) ([][]byte, error) {
	form := url.Values{
		"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token": {s.token}, "subject_token_type": {"urn:ebb:params:oauth:token-type:task"}, "scope": {b.Scope},
	}
	out := make([][]byte, n)
	var g errgroup.Group
	var next atomic.Int64
	for range 4 {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				proof, err := s.proof(http.MethodPost, b.Issuer+"/oauth2/token", "")
				if err != nil {
					return err
				}
				out[i] = b.Target.Form("/oauth2/token", form, load.Header{Name: "DPoP", Value: proof})
			}
		})
	}
	return out, g.Wait()
}

// mint measures n clients and returns the tokens that were minted.
func (b *run) mint(ctx context.Context, s sandbox, clients int) ([]string, error) {
	requests, err := b.mintRequests(s, min(maxRequests, int(b.Window.Seconds()*8000)))
	if err != nil {
		return nil, err
	}
	r, tokens, err := b.send(ctx, "mint", clients, requests)
	if err != nil {
		return nil, err
	}
	b.add(r, "DPoP-bound own token, durable record and audit before the answer")
	return tokens, nil
}

// send sends mint requests and keeps the tokens.
func (b *run) send(ctx context.Context, op string, clients int, requests [][]byte) (load.Result, []string, error) {
	bodies := make([][]byte, len(requests))
	r, err := load.Run(ctx, b.Target, load.Job{Op: op, Clients: clients, Window: b.Window, Requests: requests, Check: func(i, status int, body []byte) error {
		if status != http.StatusOK {
			_, err := accessToken(status, body)
			return err
		}
		bodies[i] = slices.Clone(body)
		return nil
	}})
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

// fill mints exactly n tokens.
func (b *run) fill(ctx context.Context, s sandbox, n int) ([]string, error) {
	const batch = 10_000
	tokens := make([]string, 0, n)
	full := *b
	full.Window *= 20 // a slow store is still filled; proofs stay fresh because a batch is small
	for len(tokens) < n {
		requests, err := b.mintRequests(s, min(batch, n-len(tokens)))
		if err != nil {
			return nil, err
		}
		r, more, err := full.send(ctx, "fill", 16, requests)
		if err != nil {
			return nil, err
		}
		if r.Errors > 0 {
			return nil, fmt.Errorf("filling: %d of %d requests failed: %s", r.Errors, len(requests), r.First)
		}
		tokens = append(tokens, more...)
	}
	return tokens, nil
}
