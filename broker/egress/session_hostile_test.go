package egress_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// starts returns a startup packet of version 3 with parameters.
func starts(parameters ...string) string {
	body := "\x00\x03\x00\x00" + strings.Join(parameters, "\x00") + "\x00\x00"
	return string(be32(uint32(4+len(body)))) + body
}

// passwords returns a password message.
func passwords(text string) string { return "p" + string(be32(uint32(5+len(text)))) + text + "\x00" }

// says sends parts as a client, each after a response to the one before, and returns the last
// response.
func (x *sandbox) says(t *testing.T, host string, parts ...string) string {
	t.Helper()
	c, in := x.tunnel(t, host)
	last, answer := "", make([]byte, 4096)
	for _, p := range parts {
		_, _ = io.WriteString(c, p) // after a refusal nothing is read
		n, err := in.Read(answer)
		if err != nil {
			break
		}
		last = string(answer[:n])
	}
	return last
}

// E122: a startup that servers could read differently, or that asks for more than a session, is
// refused without a connection to the database. Its valid twin opens a session.
//
//ebb:invariant I2 The egress proxy adds a credential for database sessions to no HTTP request
//ebb:invariant I2 The egress proxy opens no database session with a credential for HTTP requests
//ebb:invariant I6 A database session opens only at the host, port and database of its lease
//ebb:invariant I6 The startup packet of a database session can set only parameters from a fixed list
func TestHostileSessions(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x, other := d.dbBox(t), d.dbBox(t)
	mine, theirs, stripe := x.placeholder(t, d.scope()), other.placeholder(t, d.scope()), x.placeholder(t, "stripe:charges:read")
	const ssl, gss = "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00\x00\x00\x08\x04\xd2\x16\x30"
	well := starts("user", "postgres", "database", d.name)
	for name, tt := range map[string]struct {
		host  string // "" = the database
		says  []string
		state string // "" = the session is open
	}{
		"well":                       {says: []string{well, passwords(mine)}},
		"TLS is offered":             {says: []string{ssl, well, passwords(mine)}},
		"GSS is offered":             {says: []string{gss, ssl, well, passwords(mine)}},
		"bytes behind TLS":           {says: []string{ssl + well, passwords(mine)}, state: "08P01"},
		"bytes behind GSS":           {says: []string{gss + well, passwords(mine)}, state: "08P01"},
		"options":                    {says: []string{starts("user", "u", "database", d.name, "options", "-c role=postgres"), passwords(mine)}, state: "0A000"},
		"replication":                {says: []string{starts("user", "u", "database", d.name, "replication", "true"), passwords(mine)}, state: "0A000"},
		"64 KiB":                     {says: []string{starts("user", "u", "application_name", strings.Repeat("x", 64<<10))}, state: "08P01"},
		"a length of 16 MiB":         {says: []string{"\x00\xff\xff\xff\x00\x03\x00\x00"}, state: "08P01"},
		"a password of 2 GiB":        {says: []string{well, "p\x7f\xff\xff\xff"}, state: "08P01"},
		"a password in advance":      {says: []string{well + passwords(mine)}, state: "08P01"},
		"a query behind it":          {says: []string{well, passwords(mine) + "Q\x00\x00\x00\x0dSELECT 1\x00"}, state: "08P01"},
		"a query instead":            {says: []string{well, "Q\x00\x00\x00\x0dSELECT 1\x00"}, state: "08P01"},
		"another database":           {says: []string{starts("user", "u", "database", "postgres"), passwords(mine)}, state: "3D000"},
		"no database":                {says: []string{starts("user", "u"), passwords(mine)}, state: "3D000"},
		"a password of its own":      {says: []string{well, passwords("secret")}, state: "28P01"},
		"no password":                {says: []string{well, passwords("")}, state: "28P01"},
		"a placeholder of nothing":   {says: []string{well, passwords(egress.Prefix)}, state: "28P01"},
		"of another task":            {says: []string{well, passwords(theirs)}, state: "28P01"},
		"with something behind":      {says: []string{well, passwords(mine + "x")}, state: "28P01"},
		"that is for requests":       {says: []string{well, passwords(stripe)}, state: "28000"},
		"at a host that it is not's": {host: d.bed.host, says: []string{well, passwords(mine)}, state: "28000"},
		"at another port":            {host: "db.example.com:1", says: []string{well, passwords(mine)}, state: "28000"},
	} {
		if tt.host == "" {
			tt.host = d.host
		}
		came := d.front.came.Load()
		got := x.says(t, tt.host, tt.says...)
		if tt.state == "" && !strings.HasPrefix(got, "R\x00\x00\x00\x08\x00\x00\x00\x00") || tt.state != "" && !strings.Contains(got, "\x00C"+tt.state+"\x00M") {
			t.Errorf("%s: %q, want %q", name, got, tt.state)
		}
		if n := d.front.came.Load() - came; tt.state != "" && n != 0 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
	if n := len(d.arrived()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	if res, body := send(t, x.client(t, false), "GET", "https://"+d.bed.host+"/v1/x", "", "Authorization", "Bearer "+mine); res.StatusCode != 403 || !strings.Contains(body, "not_allowed") {
		t.Errorf("a request with what opens sessions: %s %q", res.Status, body)
	}
}

// An incomplete startup times out.
//
//ebb:invariant I12 The time for the start of a PostgreSQL session is limited
func TestSilentSessions(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	for name, says := range map[string]string{"a length": "\x00\x00", "half a start": "\x00\x00\x00\x50\x00\x03\x00\x00user", "no password": starts("user", "u")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, in := x.tunnel(t, d.host)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(c, says); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(in); err != nil || !strings.Contains(string(got), "C08P01") || !strings.Contains(string(got), "bad_startup") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// E122: a server with another identity, or one that requests the password itself, gets nothing.
//
//ebb:invariant I8 Egress sends no role's password to a PostgreSQL server: it permits only SCRAM-SHA-256, in which the server must prove that it knows the password
//ebb:invariant I8 Egress opens a PostgreSQL session over TLS only to a server with a valid certificate for its host name
func TestSessionsAtAnotherServer(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	tok, err := x.s.Ask(t, d.scope())
	if err != nil {
		t.Fatal(err)
	}
	password := d.secret(t, x, tok.LeaseID)
	asking := func(method string) func(net.Conn) {
		return func(c net.Conn) {
			heard := make([]byte, 4096)
			if _, err := io.ReadFull(c, heard[:8]); err != nil {
				return
			}
			_, _ = c.Write([]byte{'S'})
			conn := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{d.front.cert}})
			n, _ := conn.Read(heard)
			_, _ = io.WriteString(conn, method)
			m, _ := conn.Read(heard[n:])
			if strings.Contains(string(heard[:n+m]), password) {
				t.Error("the server gets the password")
			}
			if m > 0 {
				t.Errorf("asked with %q it gets %q", method, heard[n:n+m])
			}
		}
	}
	ca, err := egress.NewCA("tsk_other", time.Now().Add(time.Hour), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	strange, err := ca.Leaf("db.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]func(net.Conn){
		"asks in the clear": asking("R\x00\x00\x00\x08\x00\x00\x00\x03"),
		"asks with MD5":     asking("R\x00\x00\x00\x0c\x00\x00\x00\x05salt"),
		"asks for nothing":  asking("R\x00\x00\x00\x08\x00\x00\x00\x00"),
		"speaks no TLS": func(c net.Conn) {
			heard := make([]byte, 64)
			_, _ = io.ReadFull(c, heard[:8])
			_, _ = c.Write([]byte{'N'})
			if n, _ := c.Read(heard); n > 0 {
				t.Errorf("in the clear it gets %q", heard[:n])
			}
		},
		"is another's": func(c net.Conn) {
			heard := make([]byte, 8)
			_, _ = io.ReadFull(c, heard)
			_, _ = c.Write([]byte{'S'})
			if err := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*strange}}).Handshake(); err == nil {
				t.Error("a certificate of another server is accepted")
			}
		},
	} {
		d.front.instead.Store(&serve)
		_, err := x.connect(t, d, tok.Token.Reveal())
		if stateOf(err) != "08001" {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.front.instead.Store(nil)
	if _, err := x.connect(t, d, tok.Token.Reveal()); err != nil {
		t.Errorf("the one that is meant: %v", err)
	}
	failed := func(e audit.Entry) bool {
		return e.Kind == audit.EgressCompleted && (strings.Contains(string(e.Data), `"reason":"bad_answer"`) || strings.Contains(string(e.Data), `"reason":"upstream_unreachable"`))
	}
	until(t, "all failures are in the audit log", func() bool {
		return len(slices.DeleteFunc(d.uses(t, x.s.Task.ID), func(e audit.Entry) bool { return !failed(e) })) == 5
	})
	if strings.Contains(d.log.String(), password) {
		t.Error("the log holds the password")
	}
}

// Sessions are subject to the rules of requests: no private address, nothing without an audit log
// entry, and the same limit per minute.
//
//ebb:invariant I11 A database session through egress is recorded in the audit log before ebb connects to the database
func TestSessionsByTheRules(t *testing.T) {
	t.Parallel()
	d := newDBBed(t, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 3 })
	private := d.proxy
	d.with(t, func(c *egress.Config) { c.Dialer = &egress.Dialer{Resolver: d.names} })
	x := d.dbBox(t)
	d.proxy = private
	_, err := x.connect(t, d, x.placeholder(t, d.scope()))
	if stateOf(err) != "08001" || !strings.Contains(detailOf(err), "self") || d.front.came.Load() != 0 {
		t.Errorf("an address of this machine: %v", err)
	}
	x = d.dbBox(t)
	for i := 0; ; i++ { // one more is allowed every 20 seconds
		if _, err := x.connect(t, d, x.placeholder(t, d.scope())); stateOf(err) == "53400" && i >= 3 {
			break
		} else if err != nil || i == 20 {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	x = d.dbBox(t)
	p := x.placeholder(t, d.scope())
	if _, err := x.connect(t, d, p); err != nil {
		t.Fatal(err)
	}
	came := d.front.came.Load()
	if err := d.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.connect(t, d, p); stateOf(err) != "57P03" || d.front.came.Load() != came {
		t.Errorf("without a record: %v", err)
	}
}

// The database limits how many sessions a lease may have. A lease whose credential was returned to
// the caller opens no session in egress.
func TestSessionsOfALease(t *testing.T) {
	t.Parallel()
	d := newDBBed(t, func(c *brokertest.Config) {
		c.Policies = map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource);`)}
	})
	x := d.dbBox(t)
	p := x.placeholder(t, d.scope())
	for range 4 {
		if _, err := x.connect(t, d, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.connect(t, d, p); stateOf(err) != "53300" {
		t.Errorf("a fifth: %v", err)
	}
	r := d.dbBox(t).s.Request(t, d.scope())
	r.Delivery = policy.DeliveryToken
	tok, err := d.Broker.Token(t.Context(), r)
	if err != nil || !strings.Contains(tok.Token.Reveal(), "postgres://") {
		t.Fatal(tok.Token, err)
	}
	if _, err := x.connect(t, d, egress.Prefix+tok.LeaseID); stateOf(err) != "28P01" {
		t.Errorf("a lease whose credential the sandbox has: %v", err)
	}
}

func detailOf(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Detail
	}
	return ""
}
