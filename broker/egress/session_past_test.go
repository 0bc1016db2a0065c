package egress_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A session may set a password of its role that the sandbox knows. With that password the sandbox
// can bypass the proxy, until the lease ends.
func TestSessionWithAPasswordOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDBBed(t, func(c *brokertest.Config) { c.Run = true })
	d.Broker.Cut(sure{d.sandboxes})
	x := d.dbBox(t)
	conn, tok := x.session(t, d)
	var role string
	if err := conn.QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER PASSWORD 'mine-now'"); err != nil {
		t.Fatal(err)
	}
	if _, err := x.connect(t, d, tok.Token.Reveal()); stateOf(err) != "28P01" {
		t.Errorf("by the proxy, which has another password: %v", err)
	}
	u, err := url.Parse(d.admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "mine-now")
	past, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = past.Close(context.Background()) }()
	if _, err := d.Broker.RevokeLease(t.Context(), d.Principals[brokertest.Operator], tok.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	until(t, "its session is over", func() bool { return past.Ping(t.Context()) != nil })
	until(t, "its role is gone", func() bool {
		again, err := pgx.Connect(t.Context(), u.String())
		if err == nil {
			_ = again.Close(t.Context())
		}
		return stateOf(err) == "28P01"
	})
}
