package verify_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/web/verify"
)

// shown sends a request with a proof through the middleware.
func (w *world) shown(v *verify.Verifier, token, proof string) *httptest.ResponseRecorder {
	r := w.request(token)
	r.Header.Set("DPoP", proof)
	rec := httptest.NewRecorder()
	v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })).ServeHTTP(rec, r)
	return rec
}

// A server restarts without its record of earlier proofs. It accepts none of
// those, regardless of their iat. A client continues at once with the nonce of the
// response.
//
//ebb:invariant I10 After its start or a loss of its replay cache, a resource server requires a nonce for DPoP proofs that may have been used before
func TestReplayAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1300 * time.Millisecond)))
		w := newWorld(t, time.Now)
		raw := w.token(nil)
		old := w.config()
		old.Replay = verify.NewReplay(0, func() time.Time { return time.Now().Add(-time.Hour) })
		before := w.running(old)
		used := map[string]string{}
		for name, ahead := range map[string]time.Duration{"of the same second": 0, "30 s ahead": 30 * time.Second, "60 s ahead": time.Minute, "of 50 s ago": -50 * time.Second} {
			used[name] = w.proofAt(time.Now().Add(ahead), "GET", base+path, raw, "")
			if rec := w.shown(before, raw, used[name]); rec.Code != 204 || len(rec.Header().Values("DPoP-Nonce")) != 0 {
				t.Fatalf("a proof %s: %d %v", name, rec.Code, rec.Header())
			}
		}
		v := w.running(w.config())
		first := w.shown(v, raw, w.proofWith("GET", base+path, raw, ""))
		nonces := first.Header().Values("DPoP-Nonce")
		if first.Code != 401 || len(nonces) != 1 || !strings.Contains(first.Header().Get("WWW-Authenticate"), `error="use_dpop_nonce"`) {
			t.Fatalf("a fresh proof: %d %v", first.Code, first.Header())
		}
		for at := range 36 {
			if rec := w.shown(v, raw, w.proofWith("GET", base+path, raw, nonces[0])); rec.Code != 204 {
				t.Errorf("%d s after the start a proof with the nonce: %d %s", 5*at, rec.Code, rec.Body)
			}
			for name, proof := range used {
				if rec := w.shown(v, raw, proof); rec.Code != 401 {
					t.Errorf("%d s after the start, a proof %s was used twice", 5*at, name)
				}
			}
			time.Sleep(5 * time.Second)
		}
		if rec := w.shown(v, raw, w.proofWith("GET", base+path, raw, "")); rec.Code != 204 {
			t.Errorf("three minutes after the start a proof without a nonce: %d %s", rec.Code, rec.Body)
		}
		again := w.running(w.config())
		if rec := w.shown(again, raw, w.proofWith("GET", base+path, raw, nonces[0])); rec.Code != 401 {
			t.Errorf("the nonce of the process before: %d", rec.Code)
		}
	})
}

// A server with its own nonces requires the nonce of its memory while the
// memory is young.
func TestNoncesAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		nonces, err := dpop.NewNonces(make([]byte, 32), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		cfg := w.config()
		cfg.Nonces = nonces
		v, raw := w.running(cfg), w.token(nil)
		send := func(nonce string) (int, string) {
			rec := w.shown(v, raw, w.proofWith("GET", base+path, raw, nonce))
			return rec.Code, rec.Header().Get("DPoP-Nonce")
		}
		if code, _ := send(nonces.Issue(time.Now())); code != 401 {
			t.Errorf("a nonce that the process before may have issued: %d", code)
		}
		_, nonce := send("")
		for range 300 { // each answer names the next nonce: with it no request is refused
			code, next := send(nonce)
			if code != 204 && nonce != next { // the nonce of the memory is no longer required
				code, next = send(next)
			}
			if code != 204 {
				t.Fatalf("%d with the nonce of the answer before", code)
			}
			nonce = next
			time.Sleep(time.Second)
		}
		if !nonces.Check(nonce, time.Now()) {
			t.Error("the nonce is still that of the start")
		}
	})
}

// remembering is an external Replay whose store has lost data.
type remembering struct {
	replayFunc
	memory dpop.Memory
}

func (r remembering) Memory() dpop.Memory { return r.memory }

//ebb:invariant I10 After its start or a loss of its replay cache, a resource server requires a nonce for DPoP proofs that may have been used before
func TestReplayThatLostData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	var claims atomic.Int64
	count := func(dpop.Proof) (bool, error) { claims.Add(1); return true, nil }
	for nonce, want := range map[string]string{"": "503", "n1": "401 use_dpop_nonce"} {
		cfg := w.config()
		cfg.Replay = remembering{count, dpop.Memory{Began: time.Now(), Nonce: nonce}}
		v := w.running(cfg)
		w.replay = nil
		if _, err := v.Verify(w.request(w.token(nil))); fault(err) != want || claims.Load() != 0 {
			t.Errorf("nonce %q: %v after %d claims, want %s", nonce, err, claims.Load(), want)
		}
	}
}
