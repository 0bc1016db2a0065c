package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

func target(t *testing.T, h http.Handler) load.Target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return load.Target{URL: u}
}

func TestRun(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	tgt := target(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := seen.Add(1)
		if r.Method != http.MethodPost || r.FormValue("a") == "" || r.Header.Get("X-Y") != "z" {
			t.Errorf("got %s %v", r.Method, r.Form)
		}
		if n%10 == 0 {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "ok")
	}))
	var requests [][]byte
	for i := range 100 {
		requests = append(requests, tgt.Form("/x", url.Values{"a": {fmt.Sprint(i)}}, load.Header{Name: "X-Y", Value: "z"}))
	}
	r, err := load.Run(context.Background(), tgt, load.Job{Op: "x", Clients: 4, Window: time.Minute, Requests: requests, Check: func(_, status int, body []byte) error {
		if status != http.StatusOK || string(body) != "ok" {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if seen.Load() != 100 || r.Ops != 90 || r.Errors != 10 || r.First != "status 418" || r.Rate <= 0 || r.P50 > r.P99 {
		t.Errorf("%d seen, %+v", seen.Load(), r)
	}
}

func TestNothingAnswers(t *testing.T) {
	t.Parallel()
	refuse := func(_, status int, _ []byte) error { return fmt.Errorf("status %d", status) }
	tgt := target(t, http.NotFoundHandler())
	if _, err := load.Run(context.Background(), tgt, load.Job{Clients: 1, Window: time.Second, Requests: [][]byte{tgt.Build("/", "", nil)}, Check: refuse}); err == nil {
		t.Error("a run without a good answer is a result")
	}
	closed := load.Target{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}
	if _, err := load.Run(context.Background(), closed, load.Job{Clients: 1, Window: time.Second, Requests: [][]byte{nil}, Check: refuse}); err == nil {
		t.Error("a run without a server is a result")
	}
}

// TestWindowThatPassesBy: if one response takes longer than warm-up and window,
// one request is still measured.
func TestWindowThatPassesBy(t *testing.T) {
	t.Parallel()
	tgt := target(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(30 * time.Millisecond) }))
	good := func(int, int, []byte) error { return nil }
	r, err := load.Run(t.Context(), tgt, load.Job{Clients: 2, WarmUp: time.Millisecond, Window: time.Millisecond, Repeat: true, Requests: [][]byte{tgt.Build("/", "", nil)}, Check: good})
	if err != nil || r.Ops != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWarmUp: responses of the warm-up are checked and not measured.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	// Both are longer than a busy machine stalls a process.
	const warmUp, window = 5 * time.Second, time.Second
	var seen atomic.Int64
	tgt := target(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(5 * time.Millisecond)
		if seen.Add(1) == 1 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	r, err := load.Run(context.Background(), tgt, load.Job{
		Clients: 2, WarmUp: warmUp, Window: window, Requests: [][]byte{tgt.Build("/", "", nil)}, Repeat: true,
		Check: func(_, status int, _ []byte) error {
			if status != http.StatusOK {
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
	})
	if err != nil || r.Errors != 1 || r.Ops == 0 || int64(r.Ops) >= seen.Load()-1 || r.Took < window || r.ClientCPU <= 0 {
		t.Errorf("%d seen, got %+v, %v", seen.Load(), r, err)
	}
}

// TestBrokenServer: a broken connection is one error, and the others continue.
func TestBrokenServer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"cut":     "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"nothing": "",
		"closes":  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"another": "+OK POP3 ready\r\n\r\n",
	} {
		var seen atomic.Int64
		tgt := target(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if seen.Add(1) != 50 {
				return
			}
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}))
		r, err := load.Run(context.Background(), tgt, load.Job{
			Clients: 3, Window: time.Minute, Requests: slices.Repeat([][]byte{tgt.Build("/", "", nil)}, 200),
			Check: func(int, int, []byte) error { return nil },
		})
		if err != nil || r.Errors != 1 || r.First == "" || r.Ops != 199 {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	job := load.Job{Clients: 2, Window: time.Minute, Check: func(int, int, []byte) error { return nil }}
	tgt := load.Target{URL: u, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
	job.Requests = slices.Repeat([][]byte{tgt.Build("/", "", nil)}, 20)
	if r, err := load.Run(context.Background(), tgt, job); err != nil || r.Ops != 20 {
		t.Errorf("got %+v, %v", r, err)
	}
	tgt.TLS = nil
	if r, err := load.Run(context.Background(), tgt, job); err == nil {
		t.Errorf("a certificate that nobody signed is trusted: %+v", r)
	}
}

// TestQuiet: undo restores the settings of the process.
func TestQuiet(t *testing.T) {
	procs, limit := runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1)
	load.Quiet()()
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	if runtime.GOMAXPROCS(0) != procs || debug.SetMemoryLimit(-1) != limit || percent < 0 {
		t.Errorf("%d threads, limit %d, %d %%", runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1), percent)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var l []time.Duration
	for i := range 200 {
		l = append(l, time.Duration(200-i))
	}
	r := load.Summary("x", 1, time.Second, l)
	if r.P50 != 100 || r.P99 != 198 || r.Rate != 200 {
		t.Errorf("got %+v", r)
	}
	if load.Percentile(nil, 99) != 0 || load.Percentile([]time.Duration{7}, 1) != 7 {
		t.Error("the edges are wrong")
	}
}
