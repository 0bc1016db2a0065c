package egress_test

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// raw returns a session after its login, without a client.
func (x *sandbox) raw(t *testing.T, d *dbBed) (*pgconn.HijackedConn, broker.Token) {
	t.Helper()
	conn, tok := x.session(t, d)
	c, err := conn.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Conn.Close() })
	return c, tok
}

// completed waits for the completion entry of a session, and returns it.
func (d *dbBed) completed(t *testing.T, x *sandbox) (said string) {
	t.Helper()
	until(t, "the end of the session is in the audit log", func() bool {
		uses := d.uses(t, x.s.Task.ID)
		i := slices.IndexFunc(uses, func(e audit.Entry) bool { return e.Kind == audit.EgressCompleted })
		if i >= 0 {
			said = string(uses[i].Data)
		}
		return i >= 0
	})
	return said
}

// asks returns the message of a simple query.
func asks(text string) string { return "Q" + string(be32(uint32(5+len(text)))) + text + "\x00" }

// E100: a disconnection waits neither for a sandbox nor for a server that does not read.
//
//ebb:invariant I2 The disconnection of a database session does not wait for a sandbox that does not read
//ebb:invariant I2 The disconnection of a database session does not wait for a server that does not read
func TestSessionThatIsNotReadIsCut(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]func(t *testing.T, d *dbBed, c net.Conn){
		"by the box": func(t *testing.T, d *dbBed, c net.Conn) {
			if _, err := io.WriteString(c, asks("SELECT repeat('x', 1 << 20) FROM generate_series(1, 1000)")); err != nil {
				t.Fatal(err)
			}
			stuck := 0
			until(t, "the server cannot write", func() bool {
				var n int
				if err := d.query(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND datname = current_database()", &n); err != nil {
					t.Fatal(err)
				}
				stuck = (stuck + n) * n
				return stuck >= 5 // for the fifth time
			})
		},
		"by the server": func(t *testing.T, d *dbBed, c net.Conn) {
			d.front.deaf.Store(true)
			var said atomic.Int64
			go func() {
				part := []byte(strings.Repeat("x", 64<<10))
				for {
					n, err := c.Write(part)
					if said.Add(int64(n)); err != nil {
						return
					}
				}
			}()
			last, stuck := int64(-1), 0
			until(t, "the proxy cannot write", func() bool {
				time.Sleep(20 * time.Millisecond) // a slow machine can only miss an error
				if n := said.Load(); n != last {
					last, stuck = n, 0
				}
				stuck++
				return stuck > 10
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDBBed(t)
			x := d.dbBox(t)
			c, tok := x.raw(t, d)
			block(t, d, c.Conn)
			if _, err := d.Broker.RevokeLease(t.Context(), d.Principals[brokertest.Operator], tok.LeaseID, "test"); err != nil {
				t.Fatal(err)
			}
			d.completed(t, x)
		})
	}
}

// E107: the data of sessions counts for the maximum that a task may send.
//
//ebb:invariant I12 The bytes that a task sends in PostgreSQL sessions count towards its limit
func TestSessionSendsTooMuch(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	d.with(t, func(c *egress.Config) { c.TaskBytes = 64 << 10 })
	x := d.dbBox(t)
	c, _ := x.raw(t, d)
	go func() { _, _ = io.WriteString(c.Conn, asks("SELECT '"+strings.Repeat("x", 128<<10)+"'")) }()
	if said := d.completed(t, x); !strings.Contains(said, `"reason":"`+string(egress.TooMuch)+`"`) {
		t.Errorf("completed: %s", said)
	}
}
