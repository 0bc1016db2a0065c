package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"ebb/cmd/ebb/internal/load"
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
