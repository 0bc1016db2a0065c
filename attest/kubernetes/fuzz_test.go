package kubernetes_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

// says is an API server that gives one response for one path, and valid ones for the
// other.
type says struct {
	*apiServer
	at   string
	code int
	body []byte
}

func (s *says) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, s.at) {
		w.WriteHeader(s.code)
		_, _ = w.Write(s.body)
		return
	}
	s.apiServer.ServeHTTP(w, r)
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzToken checks that arbitrary documents, including arbitrary claims of a cluster's
// token, are rejected or judged by the key, without a panic and without a request.
func FuzzToken(f *testing.F) {
	a := newServer(f, attesttest.NewClock())
	c := a.signed()
	c.JWKSURL, c.JWKS = "", a.issuer.JWKS()
	at := open(f, c)
	key, kid := a.issuer.Signer()
	f.Add([]byte(a.token(attesttest.Claims{"aud": "https://other.example"})), text(f, bound(nil)))
	f.Add([]byte("e30.e30.AA"), text(f, bound(object{"pod": nil})))
	f.Add([]byte(nil), []byte(`{"namespace":"a","serviceaccount":{"name":"b","uid":"c"},"pod":{"name":"../x","uid":"d"}}`))
	f.Fuzz(func(t *testing.T, document, claims []byte) {
		if id, err := at.Attest(t.Context(), attest.Evidence{Document: document}); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
		// The same claims under the cluster's own signature.
		now := a.clock.Now()
		std := string(text(t, object{"iss": a.issuer.URL, "aud": aud, "sub": "system:serviceaccount:agents:worker", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}))
		body := strings.TrimSuffix(std, "}") + `,"kubernetes.io":` + string(claims) + "}"
		token := attesttest.Forge(t, key, object{"alg": "ES256", "kid": kid}, body)
		id, err := at.Attest(t.Context(), attest.Evidence{Document: []byte(token)})
		if err != nil {
			if !errors.Is(err, attest.ErrRejected) {
				t.Errorf("got %v", err)
			}
			return
		}
		for _, name := range []string{"namespace", "pod", "pod_uid", "service_account", "service_account_uid"} {
			if v := id.Selectors[name]; v == "" || strings.ContainsAny(v, "/\\%?# \n") || v == ".." {
				t.Errorf("selector %s is %q", name, v)
			}
		}
	})
}

// FuzzReview checks that a token is accepted only when the response to the review
// states that it is authenticated, for ebb, and as the user in its claims.
func FuzzReview(f *testing.F) {
	a := newServer(f, attesttest.NewClock())
	s := &says{apiServer: a, at: "tokenreviews"}
	c := a.config()
	c.Fetch.Transport = inside{s}
	at, document := open(f, c), []byte(a.token(nil))
	var good []byte
	a.reviewed = func(o object) { good = text(f, o) }
	s.at = "nowhere"
	if _, err := at.Attest(f.Context(), attest.Evidence{Document: document}); err != nil {
		f.Fatal(err)
	}
	s.at, a.reviewed = "tokenreviews", nil
	f.Add(201, good)
	f.Add(200, []byte(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`))
	f.Add(403, text(f, kubetest.Status(403, "Forbidden", "x")))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if code < 200 || code > 999 || len(body) > 1<<16 {
			return
		}
		s.code, s.body = code, body
		id, err := at.Attest(t.Context(), attest.Evidence{Document: document})
		if err != nil {
			if id.Attestor != "" {
				t.Errorf("got %+v with %v", id, err)
			}
			return
		}
		var said struct {
			Status struct {
				Authenticated bool
				Audiences     []string
				Error         string
				User          struct{ Username, UID string }
			}
		}
		if err := json.Unmarshal(body, &said); err != nil || !said.Status.Authenticated || said.Status.Error != "" || !slices.Contains(said.Status.Audiences, aud) ||
			said.Status.User.Username != "system:serviceaccount:agents:worker" || said.Status.User.UID != saUID || code != 200 && code != 201 {
			t.Errorf("accepted on %d %q", code, body)
		}
	})
}

// FuzzPod checks with arbitrary responses that Watch reports an exit only for a
// response about this pod, and that Attest accepts only a live pod with the token's
// UID.
func FuzzPod(f *testing.F) {
	a := newServer(f, attesttest.NewClock())
	s := &says{apiServer: a, at: "/pods/"}
	c := a.config()
	c.Fetch.Transport = inside{s}
	at, _ := open(f, c).(attest.Watcher)
	document := []byte(a.token(nil))
	f.Add(200, text(f, a.pods["agents/tool-1"]))
	f.Add(404, text(f, kubetest.Status(404, "NotFound", "x", "pods", "tool-1")))
	f.Add(404, text(f, kubetest.Status(404, "NotFound", "x")))
	f.Add(200, []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"tool-1","namespace":"agents","uid":"x","deletionTimestamp":"9999-12-31T23:59:59Z","deletionGracePeriodSeconds":-1},"status":{"phase":"Failed"}}`))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if code < 200 || code > 999 || len(body) > 1<<16 {
			return
		}
		s.code, s.body = code, body
		id, err := at.Attest(t.Context(), attest.Evidence{Document: document})
		r, rejected := errors.AsType[*attest.Rejection](err)
		switch {
		case err == nil:
			if code != 200 && code != 201 || !strings.Contains(string(body), podUID) || id.Selectors["pod_uid"] != podUID {
				t.Errorf("accepted on %d %q", code, body)
			}
			return // a living pod is watched for ever
		case !rejected || r.Reason != attest.ReasonExited:
			if rejected {
				return // of another account or node: alive
			}
		}
		d, err := at.Watch(t.Context(), podIdentity())
		if rejected != (err == nil) || rejected != (d.How != "") || d.At.After(a.clock.Now()) {
			t.Errorf("Attest rejects: %t; Watch: %+v, %v; on %d %q", rejected, d, err, code, body)
		}
		if d.How == "pod_deleted" && (code != 404 || !strings.Contains(string(body), "tool-1")) {
			t.Errorf("deleted on %d %q", code, body)
		}
	})
}
