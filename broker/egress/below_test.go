package egress_test

import (
	"crypto/rand"
	"net/http"
	"testing"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/egress"
	"ebb/broker/redisstore"
	"ebb/broker/redisstore/redistest"
	"ebb/scopes"
)

// ledger is a connection to a Redis that several replicas share.
func ledger(t *testing.T, addr, prefix string) broker.Ledger {
	t.Helper()
	s, err := redisstore.New(t.Context(), redisstore.Config{Addrs: []string{addr}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// delegating opens a task that may delegate, and a box of a delegate of it.
func (b *bed) delegating(t *testing.T) (*brokertest.Sandbox, *box) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling, spec.Delegation = scopes.MustParseSet("stripe:**:*"), &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
	top := b.Open(t, spec)
	return top, b.below(t, top)
}

func (b *bed) below(t *testing.T, top *brokertest.Sandbox) *box {
	t.Helper()
	s := top.Delegate(t, broker.DelegationSpec{Ceiling: scopes.MustParseSet("stripe:**:*")})
	got, err := b.boxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.BoxSpec{})
	if err != nil {
		t.Fatal(err)
	}
	return &box{b: b, s: s, pem: got.CA, socket: got.Socket}
}

// What a task above its own is told cuts what a delegate does, at every replica: a pause
// until it is resumed, an end also before the delegate is closed, with its box.
func TestCutBelow(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t)
	prefix := "below-" + rand.Text()
	b := newBedOn(t, ticks, func(c *brokertest.Config) { c.Ledger, c.Run = ledger(t, server.Addr, prefix), true })
	there := b.Config
	there.Ledger, there.Registerer = ledger(t, server.Addr, prefix), nil
	replica, err := broker.New(t.Context(), there)
	if err != nil {
		t.Fatal(err)
	}
	ops := b.Principals[brokertest.Operator]
	top, x := b.delegating(t)
	p := x.placeholder(t, "stripe:charges:read")
	for name, at := range map[string]*broker.Broker{"here": b.Broker, "at another replica": replica} {
		events := x.stream(t, p)
		if _, err := at.PauseTask(t.Context(), ops, top.Task.ID, "look"); err != nil {
			t.Fatal(err)
		}
		cut(t, "paused above "+name, events)
		until(t, "it is refused while what is above is paused, "+name, func() bool { // it may be cut first, when the feed tells the pause again
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
		t.Errorf("%d were cut; want the box and the stream", n)
	}
	cut(t, "over above", events)
	until(t, "its box is gone", func() bool { c, err := x.dial(); _ = err == nil && c.Close() == nil; return err != nil })
}

// A task is over with one above it, so that no box of it begins between the two ends.
func TestOverAbove(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	top, x := b.delegating(t)
	if b.Broker.TaskOver(x.s.Task.ID, x.s.Task.Ancestors...) {
		t.Error("it is over before its end")
	}
	if _, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], top.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if !b.Broker.TaskOver("tsk_other", top.Task.ID) {
		t.Error("it is not over with what is above it")
	}
}

// What a runner's task may send is counted over all of its delegates.
func TestBytesBelow(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	b.with(t, func(c *egress.Config) { c.TaskBytes = 1 << 10 })
	boxes := b.openBoxes(t, broker.BoxBySocket)
	b.boxes = boxes
	top, one := b.delegating(t)
	two := b.below(t, top)
	for i, x := range []*box{one, two} {
		p := x.placeholder(t, "stripe:charges:write")
		res, body := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", string(make([]byte, 600)), "Authorization", "Bearer "+p)
		if want := []int{200, 413}[i]; res.StatusCode != want {
			t.Errorf("%d: %s %q", i, res.Status, body)
		}
	}
}
