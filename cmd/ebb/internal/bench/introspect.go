package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"

	"ebb/cmd/ebb/internal/load"
)

var active = []byte(`"active":true`)

// introspectRequests asks for each of up to n tokens, in random order.
func (b *run) introspectRequests(tokens []string, n int) [][]byte {
	out := make([][]byte, 0, n)
	for _, i := range rand.Perm(len(tokens))[:min(n, len(tokens))] {
		out = append(out, b.Target.Form("/oauth2/introspect", url.Values{"token": {tokens[i]}}, load.Header{Name: "Authorization", Value: "Bearer " + b.bearer}))
	}
	return out
}

// introspect measures over 1,000 tokens at random.
func (b *run) introspect(ctx context.Context, tokens []string) error {
	requests := b.introspectRequests(tokens, 1000)
	for _, n := range b.Clients {
		r, err := load.Run(ctx, b.Target, load.Job{Op: "introspect", Clients: n, Window: b.Window, Requests: requests, Repeat: true, Check: func(_, status int, body []byte) error {
			if status != http.StatusOK || !bytes.Contains(body, active) {
				return fmt.Errorf("status %d: not active", status)
			}
			return nil
		}})
		if err != nil {
			return err
		}
		b.add(r, fmt.Sprintf("%d tokens at random", len(requests)))
	}
	return nil
}

// alive counts how many of up to 200 tokens are still active.
func (b *run) alive(ctx context.Context, tokens []string) (alive int, err error) {
	if b.ServerID == "" {
		return 0, nil
	}
	c, err := b.Target.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var buf []byte
	for _, request := range b.introspectRequests(tokens, 200) {
		var status int
		if status, buf, err = c.Do(request, buf); err != nil {
			return 0, err
		}
		if status != http.StatusOK {
			return 0, errors.New("introspection does not answer")
		}
		if bytes.Contains(buf, active) {
			alive++
		}
	}
	return alive, nil
}
