package vaultbench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// revoke creates tokens with n children and measures the call that revokes one
// of them: when it returns, all its children are revoked.
func (v *vault) revoke(ctx context.Context, n int) error {
	rounds := 1 // takes most of a minute
	switch {
	case n <= 100:
		rounds = 50
	case n <= 1000:
		rounds = 5
	}
	start := time.Now()
	var latencies []time.Duration
	for range rounds {
		took, err := v.revokeOne(ctx, n)
		if err != nil {
			return err
		}
		latencies = append(latencies, took)
	}
	r := load.Summary(fmt.Sprintf("revoke a parent of %d", n), 1, time.Since(start), latencies)
	r.Rate = 0 // the time for creating the children is not part of the measurement
	v.rows = append(v.rows, r)
	return nil
}

func (v *vault) revokeOne(ctx context.Context, n int) (time.Duration, error) {
	c, err := v.Dial(ctx, 10*time.Minute)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	parent, err := newToken(c, v.request(v.Token, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"root"}, "no_parent": true}))
	if err != nil {
		return 0, err
	}
	child := v.request(parent, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"default"}})
	r, err := load.Run(ctx, v.Target, load.Job{
		Clients: 16, Window: 5 * time.Minute, Requests: slices.Repeat([][]byte{child}, n),
		Check: func(_, status int, _ []byte) error {
			if status != http.StatusOK {
				return fmt.Errorf("a child answered %d", status)
			}
			return nil
		},
	})
	if err != nil || r.Ops != n {
		return 0, fmt.Errorf("%d of %d children were made: %s, %w", r.Ops, n, r.First, err)
	}
	defer load.Quiet()()
	begin := time.Now()
	status, _, err := c.Do(v.request(v.Token, "auth/token/revoke", map[string]any{"token": parent}))
	if err != nil || status >= 300 {
		return 0, fmt.Errorf("revoke answered %d, %w", status, err)
	}
	return time.Since(begin), nil
}
