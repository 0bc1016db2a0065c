package egress_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
)

// E92: errors of net/http quote what they cannot parse. If an upstream sends a response that is not
// HTTP and repeats the request in it, neither the log nor the response to the sandbox has the
// quote.
//
//ebb:invariant I8 An error about an upstream's response does not quote that response
func TestWhatIsNoAnswerIsNotQuoted(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/v1/line":    "echo %s\r\n\r\n",
		"/v1/status":  "HTTP/1.1 %s\r\n\r\n",
		"/v1/header":  "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
		"/v1/length":  "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"/v1/coding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"/v1/chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
		"/v1/trailer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n%s\r\n\r\n",
	}
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = fmt.Fprintf(conn, answers[r.URL.Path], strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		_ = conn.Close()
	}, http1Only)
	x := b.sandbox(t)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, false)
	for path := range answers {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := c.Do(r)
		if err != nil {
			continue // disconnected
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if strings.Contains(fmt.Sprint(res.Status, res.Header, res.Trailer, string(body)), "canary") {
			t.Errorf("%s: %v %q", path, res.Header, body)
		}
	}
	if n := len(b.arrived()); n != len(answers) {
		t.Errorf("%d of %d requests arrived", n, len(answers))
	}
}

// E78: a placeholder in a query is found however it is escaped, and none reaches the upstream
// beside the credential.
//
//ebb:invariant I8 The egress proxy removes placeholders from the query before it sends the request, however they are escaped
func TestEscapedPlaceholdersStay(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, false)
	escaped := "%65bb" + p[len("ebb"):]
	for _, query := range []string{"api_key=" + p, "api_key=" + escaped, "api%5Fkey=" + escaped, "a=1&api_key=" + escaped + "&b=2"} {
		res, body := send(t, c, "GET", "https://"+b.host+"/v1/x?"+query, "")
		if res.StatusCode != 200 || strings.Contains(body, "placeholder") {
			t.Errorf("%s: %s %q", query, res.Status, body)
		}
	}
}

// Trailers are headers that arrive late. Trailers of a request are dropped, and those of a response
// are cleaned as headers are. Alt-Svc, which leads clients around the proxy (E26), is in neither.
//
//ebb:invariant I8 A secret in the headers or trailers of a response is replaced by a mark
//ebb:invariant I8 The egress proxy does not forward the trailers of a request to the upstream
func TestTrailersAreNoWayRound(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		got = append(got, fmt.Sprint(r.Trailer, r.Header["Trailer"]))
		mu.Unlock()
		w.Header().Set("Trailer", "Set-Cookie, X-Last")
		w.Header().Set("Proxy-Authentication-Info", `nextnonce="1"`)
		w.Header().Set("Alt-Svc", `h3=":443"`)
		_, _ = io.WriteString(w, "hi")
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Last", "1")
		w.Header().Set(http.TrailerPrefix+"Alt-Svc", `h3=":443"`)
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+b.host+"/v1/charges", io.MultiReader(strings.NewReader("amount=1")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		r.Trailer = http.Header{"X-Api-Key": {"mine"}, "Cookie": {"mine=1"}}
		res, err := x.client(t, h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if all := fmt.Sprint(res.Header, res.Trailer); res.StatusCode != 200 || res.Trailer.Get("X-Last") != "1" || strings.Contains(all, "Set-Cookie") || strings.Contains(all, "Alt-Svc") || strings.Contains(all, "Authentication") {
			t.Errorf("h2 %t: %s %s", h2, res.Status, all)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, g := range got {
		if g != "map[] []" {
			t.Errorf("arrived with trailers %s", g)
		}
	}
}

// A secret is not in the name of a header or trailer either, although names arrive in another case.
//
//ebb:invariant I8 The redactor finds a secret in the names of response headers and trailers, regardless of case
func TestEchoesInNames(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"as it is": canary, "base64": base64.RawURLEncoding.EncodeToString([]byte("user:" + canary + ":tail")), "hex": hex.EncodeToString([]byte(canary)), "percent": strings.ReplaceAll(canary, "_", "%5F"),
	}
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		for _, form := range forms {
			w.Header()["X-"+form] = []string{"1"}
		}
		_, _ = io.WriteString(w, "hi")
		_ = http.NewResponseController(w).Flush() // before the end: HTTP/1.1 has no trailers after a Content-Length
		for _, form := range forms {
			w.Header()[http.TrailerPrefix+"Y-"+form] = []string{"1"}
		}
		w.Header()[http.TrailerPrefix+"Y-Other"] = []string{"1"}
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		res, _ := send(t, x.client(t, h2), "GET", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+p)
		all := strings.ToLower(fmt.Sprint(res.Header, res.Trailer))
		for name, form := range forms {
			if strings.Contains(all, strings.ToLower(form)[8:]) {
				t.Errorf("h2 %t: it is in a name, %s: %s", h2, name, all)
			}
		}
		if res.Trailer.Get("Y-Other") != "1" {
			t.Errorf("h2 %t: another trailer is gone: %s", h2, all)
		}
	}
}

// E101: no task sends a request after its end was acknowledged, in any order of events. Pooled
// connections, cached entries and disconnections make no difference.
//
//ebb:invariant I2
func TestUseAgainstEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	for round := range 6 {
		x := b.sandbox(t)
		p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, round%2 == 0)
		ask := func(path string) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+path, nil)
			if err != nil {
				return 0
			}
			r.Header.Set("Authorization", "Bearer "+p)
			res, err := c.Do(r)
			if err != nil {
				return 0
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return res.StatusCode
		}
		ended := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 200 {
					path, over := "/v1/before", false
					select {
					case <-ended:
						path, over = fmt.Sprintf("/v1/after/%d", round), true
					default:
					}
					ask(path)
					if over {
						return
					}
				}
			})
		}
		if ask("/v1/first") != http.StatusOK {
			t.Fatal("the first request did not come through")
		}
		if _, err := b.Broker.CompleteTask(context.WithoutCancel(t.Context()), b.Principals["ci"], x.s.Task.ID, 0); err != nil {
			t.Fatal(err)
		}
		close(ended)
		if round > 2 {
			b.proxy.End(x.s.Task.ID)
		}
		wg.Wait()
		if _, err := b.Broker.Use(t.Context(), broker.Caller{TaskID: x.s.Task.ID}, strings.TrimPrefix(p, egress.Prefix)); err == nil {
			t.Error("a task that is complete uses a credential")
		}
	}
	for _, r := range b.arrived() {
		if strings.Contains(r.URL.Path, "after") {
			t.Errorf("%s arrived after the end of its task", r.URL.Path)
		}
	}
}
