package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
	"github.com/ebb-broker/ebb/scopes"
)

// TestEndpoint: egress opens sessions only to a server with a host name that TLS verifies, or to one on this machine.
//
//ebb:invariant I8 Egress opens no PostgreSQL sessions if the server's host name cannot be verified, unless TLS is disabled and the server is on this machine
func TestEndpoint(t *testing.T) {
	const remote, here = "postgres://ebb@db.internal:5432/postgres?sslmode=verify-full", "postgres://ebb@127.0.0.1:5432/postgres?sslmode=disable"
	for _, tt := range []struct{ url, address, mode, want string }{
		{remote, "", "", "db.internal:5432"},
		{remote, "db.example.com:6432", "", "db.example.com:6432"},
		{remote, "DB.example.com:6432", "verify-full", "db.example.com:6432"},
		{remote, "db.example.com:6432", "verify-ca", ""},
		{remote, "db.example.com:6432", "require", ""},
		{remote, "db.example.com:6432", "disable", ""},
		{remote, "192.0.2.1:5432", "", ""},
		{remote, "db:5432", "", ""},
		{here, "", "disable", ""},
		{here, "db.example.com:5432", "disable", "db.example.com:5432"},
		{here, "db.example.com:5432", "", "db.example.com:5432"},
		{"postgres://ebb@x/postgres?sslmode=disable&host=/run/postgresql", "db.example.com:5432", "disable", "db.example.com:5432"},
	} {
		d, err := postgres.New(postgres.Config{URL: tt.url, Address: tt.address, SSLMode: tt.mode, Databases: map[string]map[string]string{"orders": {"read": "orders_ro"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		at, is := d.Endpoint(scopes.MustParseSet("db:orders:read"))
		if is != (tt.want != "") || is && (at.Host.String() != tt.want || at.Database != "orders" || at.Protocol != provider.PostgreSQL) {
			t.Errorf("%+v: %v, %v", tt, at, is)
		}
		for _, database := range []string{"orders", "items"} {
			at.Database = database
			got := d.ScopesAt("db", at)
			if want := is && database == "orders"; (len(got) == 1 && got[0].String() == "db:orders:read") != want || len(got) > 1 {
				t.Errorf("%+v: for %s: %v", tt, database, got)
			}
		}
		if _, is := d.Endpoint(scopes.MustParseSet("db:orders:drop")); is {
			t.Errorf("%+v: a scope that is not configured leads somewhere", tt)
		}
	}
}

// named is a driver whose sessions are of a name that leads to the bed's server, which is at u.
func (b bed) named(t *testing.T) (d *postgres.Driver, u *url.URL) {
	t.Helper()
	u, err := url.Parse(b.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Address = "db.example.com:" + u.Port()
	return b.driver(t), u
}

// TestConnect: a credential that stays in ebb is kept in the handle. Connect opens sessions
// with it and with the sandbox's session settings. Its role is revoked, and found by its name,
// like any other.
//
//ebb:invariant I8 Without TLS, egress opens a PostgreSQL session only to a server on loopback
//ebb:invariant I8 The password of a PostgreSQL role is stored in the revocation handle only if its delivery is egress
func TestConnect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d, u := b.named(t)
	opening := provider.Opening{
		Dial: func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
			if at.IsValid() && at.String() != u.Host {
				return nil, fmt.Errorf("%s is dialled", at)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		},
		Parameters: map[string]string{"application_name": "box"},
	}
	handed, hc, _ := b.mint(t, d, "read")
	if strings.Contains(hc.Handle.Reveal(), "password") {
		t.Error("what is handed out is kept")
	}
	if _, err := d.Connect(t.Context(), targetOf(handed, hc.Handle), opening); !errors.Is(err, provider.ErrElsewhere) {
		t.Errorf("with what was handed out: %v", err)
	}
	g := b.grant("read")
	g.Injected = true
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Connect(t.Context(), targetOf(g, c.Handle), opening)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Conn.Close() }()
	if s.Parameters["application_name"] != "box" || s.Parameters["server_version"] == "" || s.Parameters["is_superuser"] != "off" || s.ProcessID == 0 {
		t.Errorf("%+v", s)
	}
	if err := s.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel = %v", err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Connect(t.Context(), targetOf(g, c.Handle), opening); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("with a role that is gone: %v", err)
	}
	away := opening
	away.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
		here, there := net.Pipe() // its other end is on no loopback
		_ = there.Close()
		return here, nil
	}
	if _, err := d.Connect(t.Context(), targetOf(g, c.Handle), away); err == nil || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("in the clear to another machine: %v", err)
	}
}

// late is a connection whose writes are long in coming back, as on a machine with much else to do.
type late struct{ net.Conn }

func (c late) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(100 * time.Millisecond)
	return n, err
}

// TestConnectLate: the first message of the server in a session reaches the caller of Connect,
// even if writing the login took long.
func TestConnectLate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d, u := b.named(t)
	g := b.grant("read")
	g.Injected = true
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Connect(t.Context(), targetOf(g, c.Handle), provider.Opening{Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		return late{conn}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Conn.Close() }()
	_ = s.Conn.SetDeadline(time.Now().Add(time.Minute))
	f := pgproto3.NewFrontend(s.Conn, s.Conn)
	f.Send(&pgproto3.Query{String: "SELECT 42"})
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := f.Receive(); err != nil {
		t.Errorf("%T, %v", m, err)
	} else if _, is := m.(*pgproto3.RowDescription); !is {
		t.Errorf("the first message is a %T", m)
	}
}
