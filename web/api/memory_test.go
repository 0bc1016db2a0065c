package api_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// proofAt makes a proof whose iat is ahead of the clock.
func (r *rig) proofAt(t testing.TB, key jose.Signer, method, path, token, nonce string, ahead time.Duration) string {
	t.Helper()
	p, err := dpop.NewProof(key, method, r.env.Issuer+path, token, nonce, r.env.Clock.Now().Add(ahead))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// openAs opens a task with a proof of the runner.
func (r *rig) openAs(t testing.TB, token, proof string) *answer {
	t.Helper()
	req := r.request(http.MethodPost, "/v1/tasks", encode(t, spec()))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "DPoP "+token)
	req.Header.Set("DPoP", proof)
	return r.do(t, req)
}

func (r *rig) tasks(t testing.TB) int {
	t.Helper()
	ts, err := r.env.Config.Store.Tasks(t.Context(), broker.TaskFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(ts)
}

// A proof used before a restart is refused after it, regardless of its iat. The
// client continues at once with the nonce of the response.
//
//ebb:invariant I10 After a loss of the live store, a DPoP proof that could have been used before it needs the nonce issued since the loss
func TestProofsAfterARestart(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"the same second": 0, "30 s ahead": 30 * time.Second, "60 s ahead": minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, options{})
			runner := r.env.Keys[brokertest.Runner]
			b, token := r.sandbox(t), r.apiToken(t, brokertest.Runner)
			opens := r.proofAt(t, runner, http.MethodPost, "/v1/tasks", token, "", ahead)
			mints := r.proofAt(t, b.key, http.MethodPost, tokenURL, "", "", ahead)
			if a := r.openAs(t, token, opens); a.status != 201 || len(a.header.Values("DPoP-Nonce")) != 0 {
				t.Fatalf("opening a task: %d %s %v", a.status, a.body, a.header)
			}
			if a := b.askWith(t, mints); a.status != 200 {
				t.Fatalf("minting: %d %s", a.status, a.body)
			}
			tasks := r.tasks(t)
			r = r.restarted(t)
			b.r = r
			nonce := ""
			for range 24 {
				a := r.openAs(t, token, opens)
				if a.status < 400 {
					t.Fatalf("the proof of a task opened another one: %d %s", a.status, a.body)
				}
				if nonce == "" {
					a.problem(t, "a task again", 401, "use_dpop_nonce")
					nonce = oneNonce(t, a)
				}
				if a := b.askWith(t, mints); a.status != 400 {
					t.Fatalf("the proof of a token minted another one: %d %s", a.status, a.body)
				}
				a = b.askWith(t, r.proofAt(t, b.key, http.MethodPost, tokenURL, "", nonce, 0))
				if a.status != 200 {
					t.Fatalf("a new proof with the nonce: %d %s", a.status, a.body)
				}
				r.env.Clock.Add(5 * time.Second)
			}
			if n := r.tasks(t); n != tasks {
				t.Errorf("%d tasks, before the restart %d", n, tasks)
			}
			r.env.Clock.Add(3 * minute)
			a := b.askWith(t, r.proofAt(t, b.key, http.MethodPost, tokenURL, "", "", 0))
			if a.status != 200 || len(a.header.Values("DPoP-Nonce")) != 0 {
				t.Errorf("five minutes after the start, a proof without a nonce: %d %s %v", a.status, a.body, a.header)
			}
		})
	}
}

// A replica that starts on an intact LiveStore requires no nonce.
//
//ebb:invariant I10 A replica that starts while the live store is intact requires no DPoP nonce
func TestNoNonceAtANewReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	used := b.proofWith(t, nil, nil)
	if a := b.askWith(t, used); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	calm := r.sandbox(t)
	b.r = r.replica(t)
	calm.r = b.r
	b.askWith(t, used).want(t, "the proof again, at the new replica", 400, "invalid_dpop_proof")
	if a := calm.askWith(t, calm.proofWith(t, nil, nil)); a.status != 200 || len(a.header.Values("DPoP-Nonce")) != 0 {
		t.Errorf("a fresh proof: %d %s %v", a.status, a.body, a.header)
	}
}

// An assertion is used up only if the nonce of its proof is valid. Without a
// DPoP proof, assertions are refused until none from before the restart could
// still be valid.
//
//ebb:invariant I10 After a loss, the DPoP nonce is required before the request's client assertion is claimed, so that the client can repeat the request with it
//ebb:invariant I10 After a loss, a client assertion that may have been used before is refused for a time, unless the request proves the client's key
func TestAssertionsAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	key := r.env.Keys[brokertest.Operator]
	form := func() url.Values {
		return r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}})
	}
	send := func(f url.Values, key jose.Signer, nonce string) *answer {
		return r.post(t, tokenURL, f, header("DPoP", r.proofAt(t, key, http.MethodPost, tokenURL, "", nonce, 0)))
	}
	used := form()
	if a := send(used, key, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r = r.restarted(t)
	mine := form()
	first := send(mine, key, "")
	first.want(t, "without a nonce", 400, "use_dpop_nonce")
	nonce := oneNonce(t, first)
	if a := send(mine, key, nonce); a.status != 200 {
		t.Errorf("the same assertion with the nonce: %d %s", a.status, a.body)
	}
	send(mine, key, nonce).want(t, "the same assertion again", 401, "invalid_client")
	a := send(form(), brokertest.NewKey(t), nonce)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.want(t, "with a proof of another key", 503, "temporarily_unavailable"); err != nil || wait < 1 || wait > 11 {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	introspect := func(f url.Values, mods ...func(*http.Request)) *answer {
		return r.post(t, "/oauth2/introspect", r.client(t, brokertest.Server, f), mods...)
	}
	garbage := url.Values{"token": {"garbage"}}
	introspect(garbage).want(t, "introspection without a proof", 503, "temporarily_unavailable")
	proof := r.proofAt(t, r.env.Keys[brokertest.Server], http.MethodPost, "/oauth2/introspect", "", nonce, 0)
	if a := introspect(garbage, header("DPoP", proof)); a.status != 200 {
		t.Errorf("introspection with a proof: %d %s", a.status, a.body)
	}
	thief := brokertest.NewKey(t)
	for range 30 {
		if a := send(used, thief, nonce); a.status == 200 {
			t.Fatalf("an assertion was used twice: %s", a.body)
		}
		r.env.Clock.Add(2 * time.Second)
	}
	if a := send(form(), brokertest.NewKey(t), nonce); a.status != 200 {
		t.Errorf("a new assertion a minute after the start: %d %s", a.status, a.body)
	}
	if a := introspect(garbage); a.status != 200 {
		t.Errorf("introspection a minute after the start: %d %s", a.status, a.body)
	}
}

// iat of an assertion may be at most 10 s in the future: for that time an
// assertion could have been used before a restart.
//
//ebb:invariant I10 A client assertion is refused if its iat is more than 10 seconds in the future
func TestAssertionOfTheFuture(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for ahead, want := range map[time.Duration]int{10 * time.Second: 200, 12 * time.Second: 401} {
		now := r.env.Clock.Now()
		a, err := jose.Sign(r.env.Keys[brokertest.Server], jose.SignHeader{Type: "JWT"}, map[string]any{
			"iss": brokertest.Server, "sub": brokertest.Server, "aud": r.env.Issuer, "jti": ahead.String(), "iat": now.Add(ahead).Unix(), "exp": now.Add(minute).Unix(),
		})
		if err != nil {
			t.Fatal(err)
		}
		got := r.post(t, "/oauth2/introspect", url.Values{"token": {"x"}, "client_assertion_type": {assertionType}, "client_assertion": {a}})
		if got.status != want || want == 401 && !strings.Contains(got.body, "clock") {
			t.Errorf("%s ahead: %d %s, want %d", ahead, got.status, got.body, want)
		}
	}
}
