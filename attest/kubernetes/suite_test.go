package kubernetes_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

type makeEvidence = func(*testing.T) attest.Evidence

// foreign returns a token that is valid except for its signature by another issuer's
// key.
func (a *apiServer) foreign(t testing.TB, kid string) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := a.clock.Now()
	return attesttest.Forge(t, k, attesttest.Claims{"alg": "ES256", "kid": kid}, attesttest.Claims{
		"iss": a.issuer.URL, "sub": "system:serviceaccount:agents:worker", "aud": []string{aud}, "jti": "x",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "kubernetes.io": bound(nil)})
}

func tokens(a *apiServer) attesttest.Tokens {
	return func(t *testing.T, header, claims attesttest.Claims) attest.Evidence {
		return evidence(t, a.tokenWith(header, claims))
	}
}

// badTokens returns tokens that both modes must reject.
func badTokens(a *apiServer) map[string]makeEvidence {
	with := tokens(a).With
	k8s := func(change object) makeEvidence { return with(attesttest.Claims{"kubernetes.io": bound(change)}) }
	now := a.clock.Now()
	out := tokens(a).Bad(map[string]makeEvidence{
		"wrong audience":          with(attesttest.Claims{"aud": []string{aud + "/"}}),
		"another ebb":             with(attesttest.Claims{"aud": []string{"https://other.example"}}),
		"audience of the API":     with(attesttest.Claims{"aud": []string{"https://kubernetes.default.svc"}}),
		"H14 a second audience":   with(attesttest.Claims{"aud": []string{aud, "https://other.example"}}),
		"wrong issuer":            with(attesttest.Claims{"iss": a.issuer.URL + "/"}),
		"another cluster's":       with(attesttest.Claims{"iss": "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789"}),
		"wrong key":               func(t *testing.T) attest.Evidence { return evidence(t, a.foreign(t, "key-1")) },
		"unknown kid":             func(t *testing.T) attest.Evidence { return evidence(t, a.foreign(t, "key-99")) },
		"expired":                 with(attesttest.Claims{"iat": now.Add(-time.Minute).Unix(), "nbf": nil, "exp": now.Add(-time.Second).Unix()}),
		"not yet valid":           with(attesttest.Claims{"nbf": now.Add(time.Second).Unix()}),
		"clock off by 5 minutes":  with(attesttest.Claims{"iat": now.Add(5 * time.Minute).Unix(), "nbf": now.Add(5 * time.Minute).Unix(), "exp": now.Add(10 * time.Minute).Unix()}),
		"legacy, without expiry":  with(attesttest.Claims{"exp": nil, "iat": nil, "nbf": nil}),
		"legacy, its flat claims": with(attesttest.Claims{"exp": nil, "kubernetes.io": nil, "kubernetes.io/serviceaccount/namespace": "agents", "kubernetes.io/serviceaccount/service-account.name": "worker"}),
		"longer than max":         with(attesttest.Claims{"exp": now.Add(time.Hour + time.Second).Unix()}),
		"extended for a year":     with(attesttest.Claims{"exp": now.AddDate(1, 0, 0).Unix(), "kubernetes.io": bound(object{"warnafter": now.Add(time.Hour).Unix()})}),
		"no kubernetes.io":        with(attesttest.Claims{"kubernetes.io": nil}),
		"kubernetes.io a text":    with(attesttest.Claims{"kubernetes.io": "agents"}),
		"kubernetes.io null":      with(attesttest.Claims{"kubernetes.io": []any{nil}}),
		"H11 look-alikes":         k8s(object{"pod": nil, "Pod": object{"name": "tool-1", "uid": podUID}}),
		"another subject":         with(attesttest.Claims{"sub": "system:serviceaccount:agents:admin"}),
		"subject with more":       with(attesttest.Claims{"sub": "system:serviceaccount:agents:worker:x"}),
		"unbound":                 k8s(object{"pod": nil, "node": nil}),
		"bound to a secret":       k8s(object{"pod": nil, "node": nil, "secret": object{"name": "s", "uid": podUID}}),
		"bound to a node":         k8s(object{"pod": nil}),
		"pod without uid":         k8s(object{"pod": object{"name": "tool-1"}}),
		"pod without name":        k8s(object{"pod": object{"uid": podUID}}),
		"pod an array":            k8s(object{"pod": []any{}}),
		"node of no form":         k8s(object{"node": object{"name": "node/1"}}),
		"bound to a key":          with(attesttest.Claims{"cnf": map[string]string{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}),
		"H24 bidi":                with(attesttest.Claims{"jti": "a\u202eb"}),
	})
	for _, name := range []string{"../tool-1", "tool-1/../tool-2", "tool-1/log", "tool-1?x", "tool-1#x", "tool-1%2f..", "..", ".", "tool-1 ", "tool-1\n", "Tool-1", "tool_1", "tööl", "tool-1..a"} {
		out["pod named "+name] = k8s(object{"pod": object{"name": name, "uid": podUID}})
		out["namespace "+name] = with(attesttest.Claims{"sub": "system:serviceaccount:" + name + ":worker", "kubernetes.io": bound(object{"namespace": name})})
		out["account "+name] = with(attesttest.Claims{"sub": "system:serviceaccount:agents:" + name, "kubernetes.io": bound(object{"serviceaccount": object{"name": name, "uid": saUID}})})
	}
	for _, uid := range []string{"", "../x", "a/b", "a b", "*"} {
		out["uid "+uid] = k8s(object{"pod": object{"name": "tool-1", "uid": uid}})
	}
	delete(out, "namespace tool-1") // a good name
	return out
}

func lures(a *apiServer) func(*testing.T, string) []attest.Evidence {
	return func(t *testing.T, url string) []attest.Evidence {
		out := tokens(a).Lures(t, url, "server")
		for _, name := range []string{"namespace", "server"} {
			out = append(out, evidence(t, a.token(attesttest.Claims{"kubernetes.io": bound(object{name: url})})))
		}
		return append(out, evidence(t, a.token(attesttest.Claims{"kubernetes.io": bound(object{"pod": object{"name": url, "uid": podUID}})})))
	}
}

func TestSuiteReviewed(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	a.create("tool-2", "7d0e6c4e-7a83-4a0f-8e93-b8ee3b6b3c11")
	bad := badTokens(a)
	dead := func(change object) makeEvidence {
		return func(t *testing.T) attest.Evidence {
			return evidence(t, a.token(attesttest.Claims{"kubernetes.io": bound(change)}))
		}
	}
	bad["a dead pod"] = dead(object{"pod": object{"name": "tool-9", "uid": podUID}})
	bad["another pod of that name"] = dead(object{"pod": object{"name": "tool-2", "uid": podUID}})
	bad["another node"] = dead(object{"node": object{"name": "node-2", "uid": nodeUID}})
	attesttest.Run(t, attesttest.Suite{
		Attestor: open(t, a.config()), Clock: a.clock, Bad: bad, Lures: lures(a),
		Good: func(t *testing.T) attest.Evidence { return evidence(t, a.token(nil)) },
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			down := newServer(t, a.clock)
			down.fault = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
			return open(t, down.config()), evidence(t, down.token(nil))
		},
	})
}

func TestSuiteSigned(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	attesttest.Run(t, attesttest.Suite{
		Attestor: open(t, a.signed()), Clock: a.clock, Bad: badTokens(a), Lures: lures(a),
		Good: func(t *testing.T) attest.Evidence { return evidence(t, a.token(nil)) },
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			down := newServer(t, a.clock)
			down.issuer.Answer(http.StatusInternalServerError)
			return open(t, down.signed()), evidence(t, down.token(nil))
		},
	})
	if asked := a.asked(); len(asked) > 0 {
		t.Errorf("mode jwks asked the API server: %v", asked)
	}
}
