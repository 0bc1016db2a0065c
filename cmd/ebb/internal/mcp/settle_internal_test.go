package mcp

import (
	"testing"
	"testing/synctest"

	"github.com/ebb-broker/ebb/web/client"
)

// TestSettle: a stop waits for the revocation of unused credentials, and not
// for approvals.
//
//ebb:invariant I2 The MCP server stops only after unused credentials are revoked; it does not wait for pending approvals
func TestSettle(t *testing.T) {
	t.Parallel()
	h := &held{token: make(chan struct{}), revoke: make(chan struct{}), revoking: make(chan struct{}, 1)}
	d := newDesk(t.Context(), h, "")
	f, err := d.ask(client.TokenRequest{Scope: "stripe:charges:read"})
	if err != nil {
		t.Fatal(err)
	}
	d.left(f, false)
	waits := &flight{told: make(chan struct{}), done: make(chan struct{})}
	close(waits.told)
	d.mu.Lock()
	d.flying[waits] = true
	d.mu.Unlock()
	over := make(chan struct{})
	go func() {
		d.settled(t.Context())
		close(over)
	}()
	h.token <- struct{}{}
	<-h.revoking
	select {
	case <-over:
		t.Error("it did not wait for the end")
	default:
	}
	close(h.revoke)
	<-over
}

// TestSettleWhoIsNotTold: a stop waits for the revocation of a credential whose
// caller leaves without the outcome, before or during the stop.
//
//ebb:invariant I2 The MCP server waits at its stop for the revocation of unused credentials, whether their callers leave before or during the stop
func TestSettleWhoIsNotTold(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"left before": true, "leaves meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &held{token: make(chan struct{}, 1), revoke: make(chan struct{}), revoking: make(chan struct{}, 2)}
				d := newDesk(t.Context(), h, "")
				f, err := d.ask(client.TokenRequest{Scope: "stripe:charges:read"})
				if err != nil {
					t.Fatal(err)
				}
				h.token <- struct{}{}
				<-f.done
				over := make(chan struct{})
				settle := func() {
					d.settled(t.Context())
					close(over)
				}
				waits := func(what string) {
					t.Helper()
					synctest.Wait()
					select {
					case <-over:
						t.Fatalf("it did not wait for %s", what)
					default:
					}
				}
				if !before {
					go settle()
					waits("who has not left")
				}
				d.left(f, false)
				<-h.revoking
				if before {
					go settle()
				}
				waits("the end")
				close(h.revoke)
				<-over
				if len(h.revoking) != 0 || len(d.flying) != 0 {
					t.Error("ended twice, or still under way")
				}
			})
		})
	}
}
