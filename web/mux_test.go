package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

func newMux(t testing.TB, c web.Config) *web.Mux {
	t.Helper()
	if c.PublicURL == "" {
		c.PublicURL = "https://ebb.test"
	}
	m, err := web.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// A101: plain http is allowed on loopback only.
func TestRFC_A101_PublicURL(t *testing.T) {
	t.Parallel()
	for raw, ok := range map[string]bool{
		"https://ebb.example.com":         true,
		"https://ebb.example.com:8443/b":  true,
		"http://127.0.0.1:8420":           true,
		"http://localhost:8420":           true,
		"http://[::1]:8420":               true,
		"http://ebb.example.com":          false,
		"http://127.0.0.1.example.com":    false,
		"https://ebb.example.com/":        false,
		"https://ebb.example.com/a//b":    false,
		"https://EBB.example.com":         false,
		"https://ebb.example.com?x=1":     false,
		"https://ebb.example.com?":        false,
		"https://ebb.example.com#f":       false,
		"https://user@ebb.example.com":    false,
		"https://ebb.example.com/a%2fb":   false,
		"ftp://ebb.example.com":           false,
		"ebb.example.com":                 false,
		"":                                false,
		"https://":                        false,
		"https://ebb.example.com/\nfoo":   false,
		"http://localhost.example.com:80": false,
	} {
		_, err := web.CheckPublicURL(raw)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", raw, err, ok)
		}
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{})
	m.Add(http.MethodGet, "/ok", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	m.Add(http.MethodGet, "/panic", func(echo.Context) error { panic("boom") })
	ids := map[string]bool{}
	for _, path := range []string{"/ok", "/nothing", "/panic"} {
		h := get(m, path).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Strict-Transport-Security": "max-age=31536000",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
			}
		}
		id := h.Get("X-Request-Id")
		if len(id) < 26 || ids[id] {
			t.Errorf("%s: request id %q is short or repeated", path, id)
		}
		ids[id] = true
	}
	if get(newMux(t, web.Config{PublicURL: "http://127.0.0.1:1"}), "/").Header().Get("Strict-Transport-Security") != "" {
		t.Error("a plain http server sent Strict-Transport-Security")
	}
}

// A102: the status of the document is the HTTP status, its type is stable, and
// it contains nothing internal.
func TestRFC_A102_Problem(t *testing.T) {
	t.Parallel()
	log := &attesttest.Log{}
	m := newMux(t, web.Config{Logger: slog.New(slog.NewJSONHandler(log, nil))})
	cause := errors.New("dial tcp 10.0.0.5:5432: sql: connection refused (store.go:42)")
	m.Add(http.MethodGet, "/down", func(echo.Context) error {
		return &broker.Error{Kind: broker.Unavailable, Public: "Try again.", Cause: cause, RetryAfter: 1500 * time.Millisecond}
	})
	m.Add(http.MethodGet, "/denied", func(echo.Context) error {
		return &broker.Error{Kind: broker.Denied, Public: "No.", Advice: &broker.Advice{Decision: "denied", Code: broker.TooBroad, DoNotRetrySame: true}}
	})
	m.Add(http.MethodGet, "/raw", func(echo.Context) error { return cause })
	m.Add(http.MethodGet, "/panic", func(echo.Context) error { panic(cause) })
	m.Add(http.MethodGet, "/unknown", func(echo.Context) error { return broker.E("../../evil", "Odd.", nil) })
	for path, want := range map[string]struct {
		status int
		kind   string
		retry  string
	}{
		"/down":    {503, "temporarily_unavailable", "2"},
		"/denied":  {403, "access_denied", ""},
		"/raw":     {500, "internal", ""},
		"/panic":   {500, "internal", ""},
		"/unknown": {500, "internal", ""},
		"/nothing": {404, "not_found", ""},
	} {
		w := get(m, path)
		var p wire.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if w.Code != want.status || p.Status != want.status || p.Type != "https://ebb.test/problems/"+want.kind || p.Title == "" || p.Instance != w.Header().Get("X-Request-Id") {
			t.Errorf("%s: got %d %+v", path, w.Code, p)
		}
		if w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") != want.retry || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
		for _, leak := range []string{".go", "sql", "dial", "10.0.0.5", "goroutine", "evil"} {
			if strings.Contains(w.Body.String(), leak) {
				t.Errorf("%s: the body holds %q: %s", path, leak, w.Body)
			}
		}
		if path == "/denied" && (p.Advice == nil || p.Advice.Code != wire.DenyTooBroad) {
			t.Errorf("/denied: no advice in %s", w.Body)
		}
	}
	if !strings.Contains(log.String(), "10.0.0.5:5432") {
		t.Error("the cause is not in the log either")
	}
}

// A82a: every 503 and 429 has Retry-After, because a client would otherwise
// retry at once.
func TestRFC_A82a_RetryAfter(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{})
	for _, prefix := range []string{"/v1/", "/oauth2/"} {
		for kind, want := range map[broker.Kind]string{broker.Unavailable: "2", broker.TooMany: "2", broker.Denied: "", broker.Internal: ""} {
			path := prefix + string(kind)
			m.Add(http.MethodGet, path, func(echo.Context) error { return broker.E(kind, "Wait.", nil) })
			if got := get(m, path).Header().Get("Retry-After"); got != want {
				t.Errorf("%s: Retry-After %q, want %q", path, got, want)
			}
		}
	}
}

func TestMethodNotAllowed(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{})
	for _, path := range []string{"/oauth2/x", "/v1/x"} {
		m.Add(http.MethodPost, path, func(c echo.Context) error { return nil })
		w := get(m, path)
		if w.Code != 405 || !strings.Contains(w.Header().Get("Allow"), "POST") {
			t.Errorf("%s: got %d, Allow %q", path, w.Code, w.Header().Get("Allow"))
		}
		want := "application/problem+json"
		if strings.HasPrefix(path, "/oauth2/") {
			want = "application/json"
		}
		if w.Header().Get("Content-Type") != want {
			t.Errorf("%s: content type %q, want %q", path, w.Header().Get("Content-Type"), want)
		}
	}
}

// Client input never reaches log, metrics or spans.
//
//ebb:invariant I8
func TestNothingSentIsLogged(t *testing.T) {
	t.Parallel()
	const canary = "hunter2-canary"
	log, reg, spans := &attesttest.Log{}, prometheus.NewRegistry(), tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	m := newMux(t, web.Config{Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: reg, Tracer: tp})
	m.Add(http.MethodPost, "/v1/x/:id", web.Handle(m, 200, func(echo.Context) (web.None, error) { return web.None{}, nil },
		func(_ echo.Context, _ web.None, s sample) (sample, error) { return s, nil }))
	m.Add(http.MethodPost, "/v1/panic", func(echo.Context) error { panic("on purpose") })
	for _, path := range []string{"/v1/x/1", "/v1/panic", "/v1/nothing", "/oauth2/nothing"} {
		r := httptest.NewRequest(http.MethodPost, path+"?token="+canary, strings.NewReader(`{"name":"`+canary+`"}`))
		for _, name := range []string{"Authorization", "DPoP", "Cookie", "X-Request-Id", "X-Forwarded-For", "Referer"} {
			r.Header.Set(name, canary)
		}
		r.Header.Set("Content-Type", "application/json")
		m.ServeHTTP(httptest.NewRecorder(), r)
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(canary, "/"+canary, nil))
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log holds the canary:\n%s", log)
	}
	if strings.Count(log.String(), `"msg":"request"`) != 5 {
		t.Errorf("want one line a request:\n%s", log)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(families); strings.Contains(text, canary) || !strings.Contains(text, "/v1/x/:id") || !strings.Contains(text, "unmatched") {
		t.Errorf("metrics: %s", text)
	}
	for _, s := range spans.GetSpans() {
		text := fmt.Sprint(s.Name, s.Attributes, s.Events, s.Status)
		if strings.Contains(s.Name, canary) || strings.Contains(strings.ReplaceAll(text, "/"+canary, ""), canary+" ") {
			t.Errorf("span: %s", text)
		}
		if strings.Contains(text, "token=") {
			t.Errorf("span holds a query: %s", text)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{Limits: web.Limits{URL: 100, Body: 10}})
	m.Add(http.MethodPost, "/echo", web.Handle(m, 200, func(echo.Context) (web.None, error) { return web.None{}, nil },
		func(_ echo.Context, _ web.None, s sample) (sample, error) { return s, nil }))
	m.Add(http.MethodPost, "/raw", func(c echo.Context) error {
		_, err := io.ReadAll(c.Request().Body)
		if err == nil {
			t.Error("a handler that reads by itself got the whole body")
		}
		return c.NoContent(http.StatusNoContent)
	})
	if w := get(m, "/"+strings.Repeat("a", 100)); w.Code != 414 {
		t.Errorf("a long URL: got %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodPost, "/echo", strings.NewReader(`{"name":"aaaaaaa"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if m.ServeHTTP(w, r); w.Code != 413 {
		t.Errorf("a long body: got %d", w.Code)
	}
	m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/raw", strings.NewReader(strings.Repeat("a", 100))))
}

// The server refuses headers over the limit and closes slow connections.
func TestNewServer(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{})
	m.Add(http.MethodGet, "/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	serve := func(l web.Limits) string {
		s := web.NewServer(m, l, nil)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(ln) }()
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		return ln.Addr().String()
	}
	url := "http://" + serve(web.Limits{}) + "/"
	for size, want := range map[int]int{1 << 10: 204, 15 << 10: 204, 32 << 10: 431} {
		req, _ := http.NewRequest(http.MethodGet, url, nil)
		req.Header.Set("X-Big", strings.Repeat("a", size))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes of header: got %d, want %d", size, resp.StatusCode, want)
		}
	}
	conn, err := net.Dial("tcp", serve(web.Limits{ReadHeader: 50 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := bufio.NewReader(conn).ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("unfinished headers: the connection is still open: %v", err)
	}
}

// A panic in the middle of a response must not look like a complete response.
func TestPanicMidAnswer(t *testing.T) {
	t.Parallel()
	m := newMux(t, web.Config{})
	m.Add(http.MethodGet, "/", func(c echo.Context) error {
		c.Response().WriteHeader(200)
		_, _ = c.Response().Write([]byte("half"))
		c.Response().Flush()
		panic("boom")
	})
	srv := httptest.NewServer(m)
	defer srv.Close()
	resp, err := http.Get(srv.URL)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the client took %q for a whole answer", body)
	}
}

func BenchmarkPipeline(b *testing.B) {
	m := newMux(b, web.Config{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	m.Add(http.MethodGet, "/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		m.ServeHTTP(httptest.NewRecorder(), r)
	}
}
