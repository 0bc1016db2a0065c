package egress_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"testing"

	"ebb/broker/brokertest"
	"ebb/scopes"
)

// TestRefusalByHTTP2: a refusal ends nothing else of its connection: it arrives, streams go on, and the next
// request goes by the same connection.
func TestRefusalByHTTP2(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	x := b.box(t)
	c := x.client(t, true)
	stream := x.streamBy(t, c, x.placeholder(t, "stripe:charges:read"))
	conns := map[net.Conn]bool{}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conns[i.Conn] = true }})
	for range 3 {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://"+b.host+"/other", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized || res.ProtoMajor != 2 || res.Close {
			t.Errorf("%s by %s", res.Status, res.Proto)
		}
		if line, err := stream.ReadString('\n'); err != nil {
			t.Fatalf("the stream beside it: %q, %v", line, err)
		}
	}
	if len(conns) != 1 {
		t.Errorf("by %d connections", len(conns))
	}
}

// TestRetryAfter: a refusal that may be over soon says when (RFC 6585 section 4).
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBedOn(t, echo, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 2 })
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:*")
	x := b.boxOf(t, b.Open(t, spec))
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		for range 4 {
			res, _ := send(t, x.client(t, h2), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
			after := res.Header.Get("Retry-After")
			if n, err := strconv.Atoi(after); (res.StatusCode == http.StatusTooManyRequests) != (err == nil && n >= 1 && n <= 60) {
				t.Errorf("%s: Retry-After %q", res.Status, after)
			}
		}
	}
}
