package egress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress"
)

// places is the number of connections in these tests. One task may take a quarter of the free ones,
// which is part of them when no other task has any.
const places, part = 40, 8

// fill opens n connections of a sandbox, which wait for their next request, and checks that two
// more are refused with the reason.
func (x *sandbox) fill(t *testing.T, n int) (all []net.Conn) {
	t.Helper()
	for range n + 2 {
		c, err := x.dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		res, body := whatItIs(t, c)
		if len(all) < n {
			if res.StatusCode != http.StatusOK || res.Close {
				t.Fatalf("%s %q", res.Status, body)
			}
			all = append(all, c)
			continue
		}
		_ = c.Close() // the listener waits for the rejected client
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !res.Close || !strings.Contains(body, `"too_many_connections"`) {
			t.Fatalf("%s %v %q", res.Status, res.Header, body)
		}
	}
	return all
}

// whatItIs requests the description of the endpoint in a connection that stays open.
func whatItIs(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// E110: a task that takes every connection that it can, in several sandboxes, gets a refusal and
// leaves room for others. It can reuse what it gives back.
//
//ebb:invariant I12 The connections of a task, including those to upstreams, are limited to a share of the total, so that no task uses all
func TestConnectionsOfATask(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	b.with(t, func(c *egress.Config) { c.Places = places })
	x, other := b.sandbox(t), b.sandbox(t)
	p, theirs := x.placeholder(t, "stripe:charges:read"), other.placeholder(t, "stripe:charges:read")
	held := x.fill(t, part)
	b.boxOf(t, x.s).fill(t, 0)
	if res, body := send(t, other.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+theirs); res.StatusCode != http.StatusOK {
		t.Errorf("another task: %s %q", res.Status, body)
	}
	if !slices.ContainsFunc(b.uses(t, x.s.Task.ID), func(e audit.Entry) bool {
		return e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), `"too_many_connections"`)
	}) {
		t.Error("it is not in the audit log")
	}
	for i, c := range held {
		if i > 1 {
			_ = c.Close()
			continue
		}
		if res, body := whatItIs(t, c); res.StatusCode != http.StatusOK {
			t.Fatalf("one that has its place: %s %q", res.Status, body)
		}
	}
	until(t, "it can reuse the returned slots", func() bool {
		res, _, err := try(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		return err == nil && res.StatusCode == http.StatusOK
	})
}

// E110: connections to upstreams count together with those of sandboxes. If a task has its share,
// its unused upstream connections are closed first. If there are none, nothing is dialled, and the
// sandbox gets the reason.
//
//ebb:invariant I12 The connection limit of a task is checked before an upstream is dialled
func TestConnectionsOfATaskToUpstreams(t *testing.T) {
	t.Parallel()
	var over = make(chan struct{})
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/long" {
			w.(http.Flusher).Flush()
			<-over
		}
	})
	t.Cleanup(func() { close(over) })
	b.with(t, func(c *egress.Config) { c.Places = places })
	x := b.sandbox(t)
	first, second := x.placeholder(t, "stripe:charges:read"), x.placeholder(t, "stripe:charges:read stripe:charges:write")
	c := x.client(t, true) // its one connection to the endpoint carries all of them
	ask := func(path, p string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if path == "/v1/long" {
			return res.StatusCode, ""
		}
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	if status, body := ask("/v1/x", first); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	held := x.fill(t, part-1) // plus one to the endpoint; the unused one to the upstream has given way
	_ = held[0].Close()
	until(t, "it can reuse the returned slot", func() bool {
		status, _ := ask("/v1/x", first)
		return status == http.StatusOK
	})
	until(t, "in the slot of the unused connection", func() bool { // from the complete end of its request on
		status, _ := ask("/v1/long", second)
		return status == http.StatusOK
	})
	arrived := len(b.arrived())
	if status, body := ask("/v1/x", first); status != http.StatusServiceUnavailable || !strings.Contains(body, `"too_many_connections"`) || len(b.arrived()) != arrived {
		t.Errorf("beyond its part: %d %s", status, body)
	}
}
