package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"ebb/attest/jose"
	"ebb/cmd/ebb/internal/load"
)

// complete measures the end of tasks with n live tokens: how long the call
// takes, and that nothing of a sample is alive when it has returned.
func (b *run) complete(ctx context.Context, n int) error {
	rounds := 1
	switch {
	case n <= 100:
		rounds = 30
	case n <= 10_000:
		rounds = 5
	}
	var latencies []time.Duration
	survivors := 0
	start := time.Now()
	for range rounds {
		s, err := b.newTask(ctx)
		if err != nil {
			return err
		}
		tokens, err := b.fill(ctx, s, n)
		if err != nil {
			return err
		}
		if alive, err := b.alive(ctx, tokens); err != nil || b.ServerID != "" && alive == 0 {
			return fmt.Errorf("before the end no token is alive: %w", err)
		}
		begin := time.Now()
		done, err := b.runner.Complete(ctx, s.id)
		took := time.Since(begin)
		if err != nil {
			return err
		}
		if done.Revoked != n {
			return fmt.Errorf("the end of a task with %d tokens revoked %d", n, done.Revoked)
		}
		alive, err := b.alive(ctx, tokens)
		if err != nil {
			return err
		}
		survivors += alive
		latencies = append(latencies, took)
	}
	r := load.Summary(fmt.Sprintf("complete, %d live", n), 1, time.Since(start), latencies)
	r.Rate = 0 // filling is not what is measured
	r.Errors = survivors
	b.add(r, fmt.Sprintf("of a sample of %d tokens, %d alive after the answer", min(n, 200)*rounds, survivors))
	return nil
}

// issuerKeys are the published keys.
func (b *run) issuerKeys() (jose.KeySet, error) {
	resp, err := b.HTTP.Get(b.Issuer + "/.well-known/jwks.json")
	if err != nil {
		return jose.KeySet{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return jose.KeySet{}, fmt.Errorf("the key set answers %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return jose.KeySet{}, err
	}
	return jose.ParseJWKS(text)
}
