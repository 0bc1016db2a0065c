package verify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/web/verify"
)

func (w *world) dead(task, lease string) verify.Event {
	return verify.Event{TaskID: task, LeaseID: lease, At: w.now(), Until: w.now().Add(time.Hour)}
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		w.events = []verify.Event{w.dead("tsk_old", "")}
		v := w.running(w.config())
		task := func(id string) string { return w.token(with(issuer+verify.TaskClaim, id)) }
		lease := func(id string) string { return w.token(with("jti", id)) }
		one, two, a, b := task("tsk_1"), task("tsk_2"), lease("lse_a"), lease("lse_b")
		narrowed := w.token(with(issuer+verify.ParentsClaim, "lse_root lse_a"))
		delegated := w.token(with(issuer+verify.AncestorsClaim, "tsk_root tsk_2"))
		want := func(name, raw, want string) {
			t.Helper()
			if _, err := v.Verify(w.request(raw)); fault(err) != want {
				t.Errorf("%s: %s (%v), want %s", name, fault(err), err, want)
			}
		}
		want("dead before the start", task("tsk_old"), "401 invalid_token")
		for _, raw := range []string{one, two, a, b, narrowed, delegated} {
			want("alive", raw, "200")
		}
		w.kill(w.dead("tsk_2", ""))
		w.kill(w.dead("tsk_1", "lse_a"))
		synctest.Wait() // no time passes: the long poll delivers it
		want("task dead", two, "401 invalid_token")
		want("delegated by it", delegated, "401 invalid_token")
		want("lease dead", a, "401 invalid_token")
		want("narrowed from it", narrowed, "401 invalid_token")
		want("another lease of its task", b, "200")
		want("another task", one, "200")
	})
}

// The stated bound: a revoked set older than MaxStaleness is not used.
//
//ebb:invariant I2
func TestStaleness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		cfg := w.config()
		fresh := w.verifier(cfg)
		if _, err := fresh.Verify(w.request(w.token(nil))); fault(err) != "503" {
			t.Errorf("before the feed was ever read: %v", err)
		}
		v := w.running(cfg)
		// While the feed answers, the revoked set is never stale.
		for range 50 {
			time.Sleep(731 * time.Millisecond)
			if _, err := v.Verify(w.request(w.token(nil))); err != nil {
				t.Fatalf("while the feed answers: %v", err)
			}
		}
		for name, trouble := range map[string]*bool{"down": &w.down, "silent": &w.silent} {
			mine := with(issuer+verify.TaskClaim, "tsk_mine_"+name)
			began := time.Now()
			w.set(func() { *trouble = true })
			for {
				_, err := v.Verify(w.request(w.token(mine)))
				if err != nil {
					if fault(err) != "503" || v.Ready() == nil {
						t.Errorf("%s: %v", name, err)
					}
					break
				}
				if time.Since(began) > 10*time.Second {
					t.Fatalf("%s: still accepted after %v", name, time.Since(began))
				}
				time.Sleep(100 * time.Millisecond)
			}
			if time.Since(began) < 3*time.Second {
				t.Errorf("%s: refused after only %v", name, time.Since(began))
			}
			w.kill(w.dead("tsk_mine_"+name, "")) // happens while the feed is down
			w.set(func() { *trouble = false })
			time.Sleep(9 * time.Second)
			if _, err := v.Verify(w.request(w.token(mine))); fault(err) != "401 invalid_token" {
				t.Errorf("%s: after recovery: %v", name, err)
			}
			w.set(func() { w.events = nil }) // the issuer lost its stream: the cursor is unknown
			time.Sleep(9 * time.Second)
			if _, err := v.Verify(w.request(w.token(mine))); fault(err) != "401 invalid_token" {
				t.Errorf("%s: a lost stream revived a task: %v", name, err)
			}
			other := w.token(with(issuer+verify.TaskClaim, "tsk_"+name))
			if _, err := v.Verify(w.request(other)); err != nil {
				t.Errorf("%s: another task after recovery: %v", name, err)
			}
		}
	})
}

// The issuer may require a shorter bound than configured.
func TestStalenessOfTheIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		w.maxAge = 6
		cfg := w.config()
		cfg.MaxStaleness = time.Minute
		v := w.running(cfg)
		for range 30 {
			time.Sleep(777 * time.Millisecond)
			if _, err := v.Verify(w.request(w.token(nil))); err != nil {
				t.Fatal(err)
			}
		}
		w.set(func() { w.down = true })
		time.Sleep(6*time.Second + time.Millisecond)
		if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "503" {
			t.Errorf("after six seconds: %v", err)
		}
	})
}

// A feed that does not cover tokens for this resource is an error.
//
//ebb:invariant I2 A resource server answers 503 when its revocation feed does not cover tokens for its own resource
func TestFeedOfOtherAudiences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		w.hears = []string{"https://mail.test/", resource}
		v := w.running(w.config())
		if _, err := v.Verify(w.request(w.token(nil))); err != nil {
			t.Fatal(err)
		}
		w.set(func() { w.hears = []string{resource + "/"} })
		time.Sleep(time.Minute)
		if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "503" || v.Ready() == nil {
			t.Errorf("told of other audiences alone: %v", err)
		}
	})
}

// A feed that was read partly is not complete.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		for i := range 3500 {
			w.events = append(w.events, w.dead(fmt.Sprint("tsk_dead_", i), ""))
		}
		v := w.running(w.config())
		if n := w.count("/v1/revocations"); n < 4 {
			t.Errorf("ready after %d pages, want 4", n)
		}
		for _, i := range []int{0, 999, 1000, 3499} {
			if _, err := v.Verify(w.request(w.token(with(issuer+verify.TaskClaim, fmt.Sprint("tsk_dead_", i))))); fault(err) != "401 invalid_token" {
				t.Errorf("task %d: %v", i, err)
			}
		}
	})
}

// I12: more revocations than fit in memory refuse too much, never too little.
func TestTooManyDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		cfg := w.config()
		cfg.MaxRevoked = 10
		v := w.running(cfg)
		alive := w.token(with(issuer+verify.TaskClaim, "tsk_alive"))
		if _, err := v.Verify(w.request(alive)); err != nil {
			t.Fatal(err)
		}
		var dead []string
		for i := range 25 {
			id := fmt.Sprint("tsk_dead_", i)
			dead = append(dead, w.token(with(issuer+verify.TaskClaim, id)))
			w.kill(w.dead(id, ""))
		}
		synctest.Wait()
		for i, raw := range dead {
			if _, err := v.Verify(w.request(raw)); fault(err) != "401 invalid_token" {
				t.Errorf("task %d: %v", i, err)
			}
		}
		if _, err := v.Verify(w.request(alive)); fault(err) != "401 invalid_token" {
			t.Errorf("a token from before: %v", err)
		}
		time.Sleep(7 * time.Second)
		if _, err := v.Verify(w.request(w.token(with(issuer+verify.TaskClaim, "tsk_alive")))); err != nil {
			t.Errorf("a token from after: %v", err)
		}
		// Expired entries are removed.
		time.Sleep(2 * time.Hour)
		w.kill(w.dead("tsk_late", ""))
		synctest.Wait()
		if _, err := v.Verify(w.request(w.token(nil))); err != nil {
			t.Errorf("after the revocations are over: %v", err)
		}
	})
}

// H60: a clock jump makes no revoked token valid.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	var offset atomic.Int64
	began := time.Now().Round(0) // without the monotonic reading that would hide the jump
	w := newWorld(t, func() time.Time { return began.Add(time.Duration(offset.Load())) })
	v := w.running(w.config())
	raw := w.token(nil)
	stale := w.request(raw)
	if _, err := v.Verify(stale); err != nil {
		t.Fatal(err)
	}
	for _, jump := range []time.Duration{-10 * time.Minute, 11 * time.Minute, -time.Second} {
		offset.Store(int64(jump))
		if _, err := v.Verify(stale); err == nil {
			t.Errorf("%v: a replay passed", jump)
		}
		if _, err := v.Verify(w.request(raw)); err == nil {
			t.Errorf("%v: accepted", jump)
		}
	}
	offset.Store(0)
	if _, err := v.Verify(stale); err == nil {
		t.Error("a replay passed after the clock came back")
	}
}

// A45-A47 at the feed, and a token that ebb no longer accepts.
func TestFeedNonce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		w.nonce = "n1"
		v := w.running(w.config())
		if n := w.count("/oauth2/token"); n != 2 {
			t.Errorf("%d token requests, want 2", n)
		}
		w.set(func() { w.nonce = "n2" })
		time.Sleep(30 * time.Second)
		if v.Ready() != nil {
			t.Error("a new nonce stopped the feed")
		}
		time.Sleep(20 * time.Minute)
		if n := w.count("/oauth2/token"); v.Ready() != nil || n < 4 || n > 10 {
			t.Errorf("ready %v after %d token requests in 20 minutes", v.Ready(), n)
		}
		if n := w.count("/v1/revocations"); n > 600 {
			t.Errorf("the feed was asked %d times in 20 minutes", n)
		}
	})
}

// A feed that neither waits nor has new events is not read in a busy loop.
func TestFeedThatDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		cfg := w.config()
		var calls atomic.Int64
		cfg.Feed = feedFunc(func(context.Context, string, time.Duration) (verify.Page, error) {
			calls.Add(1)
			return verify.Page{}, nil
		})
		v := w.running(cfg)
		time.Sleep(time.Minute)
		if n := calls.Load(); v.Ready() != nil || n > 60 {
			t.Errorf("%d calls in a minute, ready: %v", n, v.Ready())
		}
	})
}

type feedFunc func(context.Context, string, time.Duration) (verify.Page, error)

func (f feedFunc) Next(ctx context.Context, cursor string, wait time.Duration) (verify.Page, error) {
	return f(ctx, cursor, wait)
}

// Revocations, requests and key changes at once, for the race detector.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	var requests []*http.Request
	raw := w.token(nil)
	for range 64 {
		requests = append(requests, w.request(raw))
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for _, r := range requests { // all goroutines send the same proofs
				if _, err := v.Verify(r); err == nil {
					passed.Add(1)
				}
				if i == 0 {
					w.kill(w.dead("tsk_other", ""))
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 64 {
		t.Errorf("64 proofs passed %d times", passed.Load())
	}
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.verifier(w.config()).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v", err)
		}
	})
}

// FuzzFeed: no response of the issuer causes a panic.
func FuzzFeed(f *testing.F) {
	f.Add(200, "application/json", []byte(`{"events":[{"task_id":"t","at":"2026-11-20T12:00:00Z","until":"2026-11-20T13:00:00Z"}],"cursor":"1","max_age_seconds":10}`))
	f.Add(400, "application/problem+json", []byte(`{"type":"x/invalid_request"}`))
	f.Add(200, "application/json", []byte(`{"access_token":"t","token_type":"DPoP","expires_in":-1}`))
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		if status < 100 || status > 599 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, time.Now)
			cfg := w.config()
			cfg.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Request: r}
				resp.Body = http.NoBody
				if body != nil {
					resp.Body = readCloser{strings.NewReader(string(body))}
				}
				return resp, nil
			})}
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			defer cancel()
			_ = w.verifier(cfg).Run(ctx)
		})
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
