package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// rounds is the number of tasks with n live tokens to complete: enough for a
// median and a p99 if minting the tokens is quick, and a few if it takes most
// of a minute.
func (b *run) rounds(n int) int {
	rounds := 3
	switch {
	case n <= 100:
		rounds = 200
	case n <= 1000:
		rounds = 50
	case n <= 10_000:
		rounds = 7
	}
	if b.Rounds > 0 {
		rounds = min(rounds, b.Rounds)
	}
	return rounds
}

// complete measures completing tasks with n live tokens: the duration of the
// call, and how many tokens of a sample are still active when it has returned.
func (b *run) complete(ctx context.Context, n int) error {
	rounds := b.rounds(n)
	latencies := make([]time.Duration, 0, rounds)
	survivors := 0
	memory := ""
	start := time.Now()
	said := start
	for i := range rounds {
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			b.Announce(fmt.Sprintf("complete with %d live tokens, %d of %d", n, i+1, rounds))
		}
		s, err := b.newTask(ctx)
		if err != nil {
			return err
		}
		tokens, err := b.fill(ctx, s, n)
		if err != nil {
			return err
		}
		if n > 10_000 && i == 0 {
			if memory, err = b.hold(ctx, n); err != nil {
				return err
			}
		}
		took, alive, err := b.end(ctx, s, tokens)
		if err != nil {
			return err
		}
		survivors += alive
		latencies = append(latencies, took)
	}
	r := load.Summary(fmt.Sprintf("complete, %d live", n), 1, time.Since(start), latencies)
	r.Rate = 0 // the time for minting the tokens is not part of the measurement
	r.Errors = survivors
	b.add(r, fmt.Sprintf("of a sample of %d tokens, %d alive after the answer%s", min(n, sample)*rounds, survivors, memory))
	return nil
}

// end completes the task and counts the tokens of a sample that are active
// after the response.
func (b *run) end(ctx context.Context, s sandbox, tokens []string) (took time.Duration, alive int, err error) {
	n := min(len(tokens), sample)
	if alive, err = b.alive(ctx, tokens); err != nil || b.ServerID != "" && alive < n {
		return 0, 0, fmt.Errorf("before completion %d of a sample of %d tokens are active: %w", alive, n, err)
	}
	undo := load.Quiet()
	begin := time.Now()
	done, err := b.runner.Tasks.Complete(ctx, s.id)
	took = time.Since(begin)
	undo()
	if err != nil {
		return 0, 0, err
	}
	if done.Revoked != len(tokens) {
		return 0, 0, fmt.Errorf("completing a task with %d tokens revoked %d", len(tokens), done.Revoked)
	}
	alive, err = b.alive(ctx, tokens)
	return took, alive, err
}

// hold measures an ebb with n live tokens: its memory, and the time until it is
// ready again after a restart.
func (b *run) hold(ctx context.Context, n int) (string, error) {
	before, err := b.resident(ctx)
	if err != nil || b.Restart == nil {
		return before, err
	}
	took, err := b.Restart(ctx)
	if err != nil {
		return "", err
	}
	b.add(load.Result{Op: fmt.Sprintf("restart, %d live", n), Clients: 1, Ops: 1, Took: took, P50: took, P99: took}, "from the start of the process to ready")
	after, err := b.resident(ctx)
	return before + ", after a restart" + strings.TrimPrefix(after, ","), err
}

// resident returns the memory of the process from /metrics, "" if it is not
// exported there.
func (b *run) resident(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Issuer+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := b.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 4<<20))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "process_resident_memory_bytes "); ok {
			bytes, err := strconv.ParseFloat(text, 64)
			return fmt.Sprintf(", %.0f MiB resident", bytes/(1<<20)), err
		}
	}
	return "", lines.Err()
}

// issuerKeys fetches the published keys.
func (b *run) issuerKeys() (jose.KeySet, error) {
	resp, err := b.HTTP.Get(b.Issuer + "/.well-known/jwks.json")
	if err != nil {
		return jose.KeySet{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return jose.KeySet{}, fmt.Errorf("GET /.well-known/jwks.json: status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return jose.KeySet{}, err
	}
	return jose.ParseJWKS(text)
}
