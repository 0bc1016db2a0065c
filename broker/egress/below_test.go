package egress_test

import (
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/scopes"
)

// liveStore connects to a Redis that several replicas share.
func liveStore(t *testing.T, addr, prefix string) broker.LiveStore {
	t.Helper()
	s, err := redisstore.New(t.Context(), redisstore.Config{Addrs: []string{addr}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// delegating opens a task that may delegate, and the endpoint of a delegate of it.
func (b *bed) delegating(t *testing.T) (*brokertest.Sandbox, *sandbox) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling, spec.Delegation = scopes.MustParseSet("stripe:**:*"), &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
	top := b.Open(t, spec)
	return top, b.below(t, top)
}

func (b *bed) below(t *testing.T, top *brokertest.Sandbox) *sandbox {
	t.Helper()
	s := top.Delegate(t, broker.DelegationSpec{Ceiling: scopes.MustParseSet("stripe:**:*")})
	got, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	return &sandbox{b: b, s: s, pem: got.CA, socket: got.Socket}
}

// A pause or end of a task above disconnects the requests of a delegate at every replica. The pause
// lasts until the task is resumed. The end takes effect, also on the endpoint, before the delegate
// itself is closed.
//
//ebb:invariant I2 The end or the pause of a task disconnects the egress streams of the tasks delegated below it
//ebb:invariant I2 The end of a task closes its egress endpoints and those of tasks delegated below it, including endpoints that are just being opened
func TestCutBelow(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t)
	prefix := "below-" + rand.Text()
	b := newBedOn(t, ticks, func(c *brokertest.Config) { c.LiveStore, c.Run = liveStore(t, server.Addr, prefix), true })
	there := b.Config
	there.LiveStore, there.Registerer = liveStore(t, server.Addr, prefix), nil
	replica, err := core.New(t.Context(), there)
	if err != nil {
		t.Fatal(err)
	}
	ops := b.Principals[brokertest.Operator]
	top, x := b.delegating(t)
	p := x.placeholder(t, "stripe:charges:read")
	for name, at := range map[string]*core.Broker{"here": b.Broker, "at another replica": replica} {
		events := x.stream(t, p)
		if _, err := at.PauseTask(t.Context(), ops, top.Task.ID, "look"); err != nil {
			t.Fatal(err)
		}
		cut(t, "paused above "+name, events)
		until(t, "it is refused while the task above is paused, "+name, func() bool { // it may be disconnected first, when the feed repeats the pause
			r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+b.host+"/v1/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+p)
			res, err := x.client(t, false).Do(r)
			return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusUnauthorized
		})
		if _, err := at.ResumeTask(t.Context(), ops, top.Task.ID); err != nil {
			t.Fatal(err)
		}
	}
	events := x.stream(t, p)
	if n := b.proxy.End(top.Task.ID); n != 2 {
		t.Errorf("%d were disconnected; want the endpoint and the stream", n)
	}
	cut(t, "over above", events)
	until(t, "its endpoint is closed", func() bool { c, err := x.dial(); _ = err == nil && c.Close() == nil; return err != nil })
}

// A task counts as ended as soon as a task above it has ended, so that no endpoint starts between
// the two ends.
//
//ebb:invariant I2 No egress endpoint opens for a task whose ancestor task has ended
func TestOverAbove(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	top, x := b.delegating(t)
	if b.Broker.TaskOver(x.s.Task.ID, x.s.Task.Ancestors...) {
		t.Error("it has ended too early")
	}
	if _, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], top.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if !b.Broker.TaskOver("tsk_other", top.Task.ID) {
		t.Error("the task is open after the end of the task above it")
	}
}

// The bytes that a root task may send are counted over all of its delegates.
//
//ebb:invariant I12 The bytes that a task sends through egress are limited, including those of tasks that it delegated
func TestBytesBelow(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	b.with(t, func(c *egress.Config) { c.TaskBytes = 1 << 10 })
	sandboxes := b.openEndpoints(t, broker.EndpointBySocket)
	b.sandboxes = sandboxes
	top, one := b.delegating(t)
	two := b.below(t, top)
	for i, x := range []*sandbox{one, two} {
		p := x.placeholder(t, "stripe:charges:write")
		res, body := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", string(make([]byte, 600)), "Authorization", "Bearer "+p)
		if want := []int{200, 413}[i]; res.StatusCode != want {
			t.Errorf("%d: %s %q", i, res.Status, body)
		}
	}
}
