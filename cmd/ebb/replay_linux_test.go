package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// thief sends recorded requests of the local operator again.
type thief struct {
	*served
	key    keyfile.File
	issuer string
	token  string
}

func newThief(t *testing.T, env ...string) *thief {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", counterpart.FreePort(t))
	h := &thief{served: serveOn(t, filepath.Join(t.TempDir(), "data"), append(env, "EBB_LISTEN="+address)...), issuer: "http://" + address}
	var err error
	if h.key, err = keyfile.Read(filepath.Join(h.data, operatorKey)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	assertion, err := jose.Sign(h.key.Key, jose.SignHeader{Type: "JWT"}, map[string]any{
		"iss": h.key.ClientID, "sub": h.key.ClientID, "aud": h.issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion}}
	status, body, _ := h.send("/oauth2/token", "application/x-www-form-urlencoded", form.Encode(), h.proof("/oauth2/token", 0))
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); status != 200 || err != nil {
		t.Fatalf("a token for the operator: %d %s", status, body)
	}
	h.token = answer.Token
	return h
}

func (h *thief) proof(path string, ahead time.Duration) string {
	h.t.Helper()
	p, err := dpop.NewProof(h.key.Key, http.MethodPost, h.issuer+path, h.token, "", time.Now().Add(ahead))
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (h *thief) send(path, kind, body, proof string) (status int, answer string, head http.Header) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.issuer+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("DPoP", proof)
	if h.token != "" {
		req.Header.Set("Authorization", "DPoP "+h.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// open opens a task with a proof.
func (h *thief) open(proof string) (status int, answer string, head http.Header) {
	h.t.Helper()
	body, err := json.Marshal(spec())
	if err != nil {
		h.t.Fatal(err)
	}
	return h.send("/v1/tasks", "application/json", string(body), proof)
}

func spec() wire.TaskSpec {
	return wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ticket: true, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}}
}

// operator is ebb's own client, as an operator uses it.
func (h *thief) operator() *client.Operator {
	h.t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: h.issuer}, ClientID: h.key.ClientID, Key: h.key.Key})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// TestReplayAcrossLoss uses proofs, makes ebb forget them, and uses them again:
// none opens a second task. ebb's own client continues at once, and unused
// tickets stay valid.
//
//ebb:invariant I10 After a loss of the live store, a DPoP proof that could have been used before it needs the nonce issued since the loss
//ebb:invariant I10 A replica that starts while the live store is intact requires no DPoP nonce
//ebb:invariant I10 After a loss of the live store, an unused ticket enrols exactly one sandbox, and a used ticket works only with its sandbox's key
func TestReplayAcrossLoss(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redis bool
		lose  func(*thief, *redistest.Server)
		asks  bool // for a nonce
	}{
		"killed":                     {false, func(h *thief, _ *redistest.Server) { h.kill(); h.start() }, true},
		"Redis flushed":              {true, func(h *thief, r *redistest.Server) { r.Do("FLUSHALL"); h.refilled() }, true},
		"Redis flushed while killed": {true, func(h *thief, r *redistest.Server) { h.kill(); r.Do("FLUSHALL"); h.start() }, true},
		"killed, and Redis kept all": {true, func(h *thief, _ *redistest.Server) { h.kill(); h.start() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			var store *redistest.Server
			if c.redis {
				store = redistest.Run(t, "--maxmemory-policy", "noeviction")
				env = append(env, "EBB_REDIS_ADDRS="+store.Addr)
			}
			h := newThief(t, env...)
			o := h.operator()
			used := map[string]string{}
			for _, ahead := range []time.Duration{0, 30 * time.Second, 58 * time.Second} {
				proof := h.proof("/v1/tasks", ahead)
				if status, body, _ := h.open(proof); status != 201 {
					t.Fatalf("a proof %s ahead: %d %s", ahead, status, body)
				}
				used[ahead.String()] = proof
			}
			_, ticket, err := o.Tasks.Open(t.Context(), spec())
			if err != nil {
				t.Fatal(err)
			}
			c.lose(h, store)
			h.enrols(ticket)
			for ahead, proof := range used {
				status, body, head := h.open(proof)
				nonces := head.Values("DPoP-Nonce")
				if status != 401 || c.asks && len(nonces) != 1 || !c.asks && len(nonces) != 0 {
					t.Errorf("a proof %s ahead, used again: %d %s, nonces %q", ahead, status, body, nonces)
				}
			}
			if status, body, head := h.open(h.proof("/v1/tasks", 0)); (status == 201) == c.asks || (len(head.Values("DPoP-Nonce")) == 1) != c.asks {
				t.Errorf("a fresh proof without a nonce: %d %s %q", status, body, head.Values("DPoP-Nonce"))
			}
			for _, own := range []*client.Operator{o, h.operator()} { // one that continues, and one that starts now
				if _, _, err := own.Tasks.Open(t.Context(), spec()); err != nil {
					t.Errorf("ebb's own client: %v", err)
				}
			}
		})
	}
}

// refilled waits until ebb has noticed that Redis lost everything, and has
// restored live state.
func (h *thief) refilled() {
	h.t.Helper()
	h.until("refilled", func() bool {
		code, text := h.run("audit", "list", "--kind", "livestore.refilled", "-o", "json")
		return code == 0 && strings.Count(text, "livestore.refilled") >= 2
	})
}

// enrols uses a ticket that was issued before the loss, once.
func (h *thief) enrols(ticket *client.Ticket) {
	h.t.Helper()
	key := filepath.Join(h.t.TempDir(), "key")
	if code, text := h.run("token", "--key", key, "--ticket", ticket.Ticket.Reveal(), "--scope", "local:a/b:read"); code != 0 && time.Now().Before(ticket.ExpiresAt) {
		h.t.Errorf("an unused ticket: exit code %d\n%s", code, text)
	}
	if code, text := h.run("token", "--key", key+"2", "--ticket", ticket.Ticket.Reveal(), "--scope", "local:a/b:read"); code == 0 {
		h.t.Errorf("a used ticket enrolled a second key: %s", text)
	}
}
