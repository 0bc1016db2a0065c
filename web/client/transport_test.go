package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// resourceServer checks every request by RFC 9449 section 7, and requires nonce
// if set.
type resourceServer struct {
	t     *testing.T
	url   string
	jkt   string
	mu    sync.Mutex
	nonce string
	calls int
	seen  map[string]bool
}

func (s *resourceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "DPoP ACCESS" {
		s.t.Errorf("Authorization %q", got)
	}
	p, err := dpop.Check(r.Header.Values("DPoP"), dpop.Request{Method: r.Method, URL: s.url + r.URL.EscapedPath(), AccessToken: "ACCESS", Now: time.Now()}, dpop.Options{})
	if err != nil || p.JKT != s.jkt || s.seen[p.ReplayKey] {
		s.t.Errorf("proof %+v, %v, used before: %v", p, err, s.seen[p.ReplayKey])
	}
	s.seen[p.ReplayKey] = true
	if s.nonce != "" {
		w.Header().Set("DPoP-Nonce", s.nonce)
		if p.Nonce != s.nonce {
			w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce", algs="ES256"`)
			w.WriteHeader(401)
			return
		}
	}
	_, _ = w.Write(body)
}

func newResource(t *testing.T) (*resourceServer, *httptest.Server, *client.Sandbox, client.Credential) {
	t.Helper()
	key, pub := newKey(t)
	jkt, err := pub.Thumbprint()
	if err != nil {
		t.Fatal(err)
	}
	rs := &resourceServer{t: t, jkt: jkt, seen: map[string]bool{}}
	srv := httptest.NewServer(rs)
	t.Cleanup(srv.Close)
	rs.url = srv.URL
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: issuer}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return rs, srv, s, client.Credential{Token: secret.New("ACCESS"), Type: "DPoP", Resource: srv.URL + "/base"}
}

func TestTransport(t *testing.T) {
	t.Parallel()
	rs, srv, s, cred := newResource(t)
	hc := &http.Client{Transport: s.Transport(cred, nil)}
	for _, nonce := range []string{"", "n1", "n2"} {
		rs.nonce = nonce
		for _, body := range []string{"", "hello"} {
			before := rs.calls
			req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/base/x%2Fy?q=1", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := hc.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 || string(got) != body || rs.calls-before > 2 {
				t.Errorf("nonce %q: %d %q after %d calls", nonce, resp.StatusCode, got, rs.calls-before)
			}
			if req.Header.Get("Authorization") != "" || req.Header.Get("DPoP") != "" {
				t.Error("the caller's request was changed")
			}
		}
	}
}

// A body that cannot be sent twice is sent once: the caller gets the 401.
func TestTransportOnceBody(t *testing.T) {
	t.Parallel()
	rs, srv, s, cred := newResource(t)
	rs.nonce = "n1"
	req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, io.NopCloser(strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: s.Transport(cred, nil)}).Do(req)
	if err != nil || resp.StatusCode != 401 || rs.calls != 1 {
		t.Fatalf("%v after %d calls", err, rs.calls)
	}
	_ = resp.Body.Close()
}

// H68: a credential is sent only to its own origin.
func TestTransportStaysHome(t *testing.T) {
	t.Parallel()
	_, home, s, cred := newResource(t)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("reached %s with %v", r.URL, r.Header) }))
	defer thief.Close()
	bounce := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer bounce.Close()
	fixed := cred
	fixed.Resource = bounce.URL
	free := cred
	free.Resource = ""
	for name, tc := range map[string]struct {
		cred client.Credential
		url  string
		want error
	}{
		"other port":            {cred, thief.URL, client.ErrOrigin},
		"redirect":              {fixed, bounce.URL, client.ErrOrigin},
		"redirect, no resource": {free, bounce.URL, client.ErrOrigin},
		"other scheme":          {cred, strings.Replace(home.URL, "http:", "https:", 1), client.ErrOrigin},
		"plain http":            {client.Credential{Type: "DPoP", Resource: "http://orders.test"}, "http://orders.test", client.ErrPlain},
	} {
		resp, err := (&http.Client{Transport: s.Transport(tc.cred, nil)}).Get(tc.url)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, tc.want) || err != nil && strings.Contains(err.Error(), "ACCESS") {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestTransportBearer(t *testing.T) {
	t.Parallel()
	_, _, s, cred := newResource(t)
	cred.Type, cred.Resource = "Bearer", ""
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != "Bearer ACCESS" || r.Header.Get("DPoP") != "" {
			t.Errorf("headers %v", r.Header)
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	})
	resp, err := (&http.Client{Transport: s.Transport(cred, rt)}).Get("https://orders.test/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestTransportConcurrent(t *testing.T) {
	t.Parallel()
	rs, srv, s, cred := newResource(t)
	rs.nonce = "n1"
	hc := &http.Client{Transport: s.Transport(cred, nil)}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			resp, err := hc.Get(srv.URL)
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("%v", err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
}
