package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A redactor holds a credential in clear text. It is kept while the credential may be used, and
// removed when that ends, with or without a notification.
//
//ebb:invariant I8 The redactor of a credential, which contains it in clear text, is removed from memory when its lease or task ends
//ebb:invariant I8 The redactor of a credential is removed when its task is paused, or when revocations may have been missed
//ebb:invariant I8 The redactor of a credential is removed when its lease expires, or when no request has used it for one minute
//ebb:invariant I12 Each request returns its redactor when the response ends, so that the redactor's memory can be freed
func TestCredentialsInTheClear(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	ops := b.Principals[brokertest.Operator]
	for what, end := range map[string]func(task, lease string) error{
		"the end of the lease": func(_, lease string) error {
			_, err := b.Broker.RevokeLease(t.Context(), ops, lease, "test")
			return err
		},
		"the end of the task": func(task, _ string) error { _, err := b.Broker.CompleteTask(t.Context(), ops, task, 0); return err },
		"a pause":             func(task, _ string) error { _, err := b.Broker.PauseTask(t.Context(), ops, task, "look"); return err },
		"doubt":               func(string, string) error { b.sandboxes.Doubt(); return nil },
		"its time":            func(string, string) error { return nil },
	} {
		x, _ := b.opened(t, "")
		var lease string
		use := func(tok broker.Token) error {
			lease = tok.LeaseID
			c := x.client(t, false)
			for range 2 {
				if res, body, err := try(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+tok.Token.Reveal()); err != nil || res.StatusCode != http.StatusOK {
					return fmt.Errorf("%s: %q, %w", what, body, err)
				}
			}
			until(t, "its requests are over", func() bool { _, uses, _ := b.proxy.Redactors(); return uses == 0 })
			if n, _, bytes := b.proxy.Redactors(); n != 1 || bytes == 0 {
				return fmt.Errorf("before %s: %d, of %d bytes", what, n, bytes)
			}
			return nil
		}
		if what == "its time" {
			x.brief(t, "stripe:charges:read", use)
		} else if tok, err := x.s.Ask(t, "stripe:charges:read"); err != nil {
			t.Fatal(err)
		} else if err := use(tok); err != nil {
			t.Fatal(err)
		}
		if err := end(x.s.Task.ID, lease); err != nil {
			t.Fatal(err)
		}
		until(t, "after "+what+" there is none", func() bool { n, _, bytes := b.proxy.Redactors(); return n+bytes == 0 })
	}
}

// A client that hangs up in the middle of a response leaves its redactor to the next request.
//
//ebb:invariant I12 A client that hangs up does not cause the redactor of its lease to be discarded
func TestWhoHangsUpKeepsIt(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for range 2 {
		ctx, hangUp := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.host+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := x.client(t, true).Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if n, uses, _ := b.proxy.Redactors(); n != 1 || uses != 1 {
			t.Errorf("%d, in use %d times", n, uses)
		}
		hangUp()
		_ = res.Body.Close()
		until(t, "the request is over", func() bool { _, uses, _ := b.proxy.Redactors(); return uses == 0 })
		if n, _, _ := b.proxy.Redactors(); n != 1 {
			t.Errorf("%d are kept", n)
		}
	}
}
