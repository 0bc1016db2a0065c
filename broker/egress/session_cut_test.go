package egress_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// E100: revocation, pause, completion and expiry disconnect a session in every state, and the role
// ends with the lease.
//
//ebb:invariant I2 The end of a lease or task, or a pause of the task, disconnects its database sessions on the sandbox side and the server side
func TestSessionIsCut(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	ops := d.Principals[brokertest.Operator]
	open := func(x *sandbox, busy bool) (tok broker.Token, over chan error) {
		conn, tok := x.session(t, d)
		over = make(chan error, 1)
		go func() {
			if busy {
				_, err := conn.Exec(context.Background(), "SELECT pg_sleep(600)")
				over <- err
				return
			}
			_, err := conn.WaitForNotification(context.Background())
			over <- err
		}()
		return tok, over
	}
	cut := func(what string, over chan error) {
		t.Helper()
		select {
		case err := <-over:
			if err == nil {
				t.Errorf("%s: it came to its end", what)
			}
		case <-time.After(patience):
			t.Errorf("%s: it goes on", what)
		}
	}
	x := d.dbBox(t)
	for _, busy := range []bool{false, true} {
		tok, over := open(x, busy)
		if _, err := d.Broker.RevokeLease(t.Context(), ops, tok.LeaseID, "test"); err != nil {
			t.Fatal(err)
		}
		cut("revoked", over)
		if _, err := x.connect(t, d, tok.Token.Reveal()); stateOf(err) != "28P01" {
			t.Errorf("after it is revoked: %v", err)
		}
	}
	tok, over := open(x, false)
	if _, err := d.Broker.PauseTask(t.Context(), ops, x.s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	cut("paused", over)
	if _, err := x.connect(t, d, tok.Token.Reveal()); stateOf(err) != "28P01" {
		t.Errorf("while it is paused: %v", err)
	}
	if _, err := d.Broker.ResumeTask(t.Context(), ops, x.s.Task.ID); err != nil {
		t.Fatal(err)
	}
	var conn *pgx.Conn
	x.brief(t, d.scope(), func(tok broker.Token) (err error) {
		conn, err = x.connect(t, d, tok.Token.Reveal())
		return err
	})
	go func() { _, err := conn.Exec(context.Background(), "SELECT pg_sleep(600)"); over <- err }()
	cut("expired", over)
	_, over = open(x, true)
	if _, err := d.Broker.CompleteTask(t.Context(), d.Principals[brokertest.Runner], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	cut("completed", over)
}

// E101: sessions that are opened while their lease is revoked are closed when the revocation has
// returned.
//
//ebb:invariant I2
func TestSessionAgainstRevoke(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	for range 3 {
		tok, err := x.s.Ask(t, d.scope())
		if err != nil {
			t.Fatal(err)
		}
		revoked := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					conn, err := x.connect(t, d, tok.Token.Reveal())
					select {
					case <-revoked:
						if err == nil && conn.Ping(context.Background()) == nil {
							t.Error("a session of a lease that is over answers")
						}
						return
					default:
					}
					if err == nil {
						_ = conn.Close(context.Background())
					}
				}
			})
		}
		until(t, "sessions are opened", func() bool { return d.front.came.Load() > 0 })
		d.front.came.Store(0)
		if _, err := d.Broker.RevokeLease(t.Context(), d.Principals[brokertest.Operator], tok.LeaseID, "test"); err != nil {
			t.Fatal(err)
		}
		close(revoked)
		wg.Wait()
	}
}
