package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

var active = []byte(`"active":true`)

// introspectRequests builds a request for each of up to n tokens, in random
// order.
func (b *run) introspectRequests(tokens []string, n int) [][]byte {
	out := make([][]byte, 0, n)
	for _, i := range rand.Perm(len(tokens))[:min(n, len(tokens))] {
		out = append(out, b.Target.Form("/oauth2/introspect", url.Values{"token": {tokens[i]}}, load.Header{Name: "Authorization", Value: "Bearer " + b.bearer}))
	}
	return out
}

// introspect measures introspection of up to 1,000 random tokens.
func (b *run) introspect(ctx context.Context, tokens []string) error {
	requests := b.introspectRequests(tokens, 1000)
	for _, n := range b.Clients {
		r, err := b.load(ctx, load.Job{Op: "introspect", Clients: n, WarmUp: b.warmUp(), Window: b.Window, Requests: requests, Repeat: true, Check: func(_, status int, body []byte) error {
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

// sample is the number of tokens of a task that are introspected before and
// after it is completed.
const sample = 200

// alive counts the tokens of a sample that are still active.
func (b *run) alive(ctx context.Context, tokens []string) (alive int, err error) {
	if b.ServerID == "" {
		return 0, nil
	}
	c, err := b.Target.Dial(ctx, time.Minute)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for _, request := range b.introspectRequests(tokens, sample) {
		status, body, err := c.Do(request)
		if err != nil {
			return 0, err
		}
		if status != http.StatusOK {
			return 0, errors.New("introspection: status is not 200")
		}
		if bytes.Contains(body, active) {
			alive++
		}
	}
	return alive, nil
}
