package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/scopes"
)

// patience is how long a test waits for an expected event.
const patience = 2 * time.Minute

// dbBed is a bed whose broker issues roles in a database of a real PostgreSQL. Sandboxes reach the
// database as db.example.com, over TLS.
type dbBed struct {
	*bed
	admin string // URL of a superuser of the database
	name  string // of the database
	host  string // with the port
	front *front
}

// front terminates TLS for a server without TLS, as pgbouncer and cloud providers do.
type front struct {
	l       net.Listener
	to      string
	cert    tls.Certificate
	came    atomic.Int32                   // number of connections
	instead atomic.Pointer[func(net.Conn)] // serves the connections; nil = PostgreSQL does
	deaf    atomic.Bool                    // it reads no more, and closes no connection
	over    chan struct{}                  // closed at the end of the test
}

// ears is the reader of a front.
type ears struct {
	net.Conn
	f *front
}

func (e ears) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	e.f.listen()
	return n, err
}

// listen returns when the front is not deaf.
func (f *front) listen() {
	if f.deaf.Load() {
		<-f.over
	}
}

func newDBBed(t *testing.T, change ...func(*brokertest.Config)) *dbBed {
	t.Helper()
	return newDBBedOf(t, func(*dbBed, *postgres.Config) {}, change...)
}

// newDBBedOf is newDBBed with a provider whose configuration of adjusts.
func newDBBedOf(t *testing.T, of func(*dbBed, *postgres.Config), change ...func(*brokertest.Config)) *dbBed {
	t.Helper()
	d := &dbBed{admin: storetest.Postgres(t)}
	u, err := url.Parse(d.admin)
	if err != nil {
		t.Fatal(err)
	}
	d.name = strings.TrimPrefix(u.Path, "/")
	group := "ro_" + d.name
	for _, s := range []string{"CREATE ROLE " + group + " NOLOGIN", "CREATE TABLE t (id int)", "INSERT INTO t VALUES (42)", "GRANT SELECT ON t TO " + group} {
		storetest.PostgresExec(t, d.admin, s)
	}
	t.Cleanup(func() {
		storetest.PostgresExec(t, d.admin, "DROP OWNED BY "+group)
		storetest.PostgresExec(t, d.admin, "DROP ROLE "+group)
	})
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for *.example.com, like the upstream of the bed
	t.Cleanup(certified.Close)
	d.front = newFront(t, u.Host, certified.TLS.Certificates[0])
	d.host = "db.example.com:" + strconv.Itoa(d.front.l.Addr().(*net.TCPAddr).Port)
	password, _ := u.User.Password()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.User = url.User(u.User.Username())
	config := postgres.Config{URL: u.String(), PasswordFile: file, Address: d.host, Databases: map[string]map[string]string{d.name: {"read": group}}}
	of(d, &config)
	driver, err := postgres.New(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.bed = newBedOn(t, echo, func(c *brokertest.Config) {
		c.Providers["db"] = broker.Provider{Driver: driver, Kind: "postgres", Resource: "https://db.example.com/"}
		for _, f := range change {
			f(c)
		}
	})
	d.names.answers["db.example.com."] = [][]string{{"127.0.0.1"}}
	d.cfg.Dialer.Private["db.example.com"] = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	return d
}

func newFront(t *testing.T, to string, cert tls.Certificate) *front {
	t.Helper()
	f := &front{to: to, cert: cert, over: make(chan struct{})}
	t.Cleanup(func() { close(f.over) })
	var err error
	if f.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.l.Close() })
	go func() {
		for {
			c, err := f.l.Accept()
			if err != nil {
				return
			}
			f.came.Add(1)
			go f.serve(c)
		}
	}()
	return f
}

func (f *front) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if instead := f.instead.Load(); instead != nil {
		(*instead)(c)
		return
	}
	var ask [8]byte
	if _, err := io.ReadFull(c, ask[:]); err != nil || binary.BigEndian.Uint32(ask[4:]) != 80877103 {
		return // an unencrypted connection is not served
	}
	_, _ = c.Write([]byte{'S'})
	t := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{f.cert}})
	up, err := net.Dial("tcp", f.to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(up, ears{t, f})
		_ = up.Close()
	}()
	_, _ = io.Copy(t, up)
	f.listen()
}

// dbBox returns a sandbox whose task may use the database.
func (d *dbBed) dbBox(t *testing.T) *sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("db:**:* stripe:**:*")
	return d.boxOf(t, d.Open(t, spec))
}

func (d *dbBed) scope() string { return "db:" + d.name + ":read" }

// tunnel opens a tunnel from a sandbox to a host, and returns a reader for it.
func (x *sandbox) tunnel(t *testing.T, host string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, in, err := x.through(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c, in
}

// through opens a tunnel to a host.
func (x *sandbox) through(host string) (net.Conn, *bufio.Reader, error) {
	c, err := x.dial()
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(c)
	var res *http.Response
	if _, err = io.WriteString(c, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err == nil {
		res, err = http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	}
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, in, nil
}

// connect is a PostgreSQL client in the sandbox, similar to libpq.
func (x *sandbox) connect(t *testing.T, d *dbBed, password string, change ...func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	t.Helper()
	c, err := pgx.ParseConfig("postgres://sandbox@" + d.host + "/" + d.name + "?sslmode=prefer&application_name=psql")
	if err != nil {
		t.Fatal(err)
	}
	c.Password = password
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		conn, _, err := x.through(d.host)
		return conn, err
	}
	for _, f := range change {
		f(c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, c)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
	return conn, err
}

// session opens a session, and returns it with its lease.
func (x *sandbox) session(t *testing.T, d *dbBed) (*pgx.Conn, broker.Token) {
	t.Helper()
	tok, err := x.s.Ask(t, d.scope())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := x.connect(t, d, tok.Token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return conn, tok
}

// secret returns the password of a lease, which is stored in ebb.
func (d *dbBed) secret(t *testing.T, x *sandbox, lease string) string {
	t.Helper()
	use, err := d.Broker.Use(t.Context(), broker.Caller{TaskID: x.s.Task.ID}, lease)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(use.Target.Handle.Reveal(), `"password":"`)
	password, _, is := strings.Cut(rest, `"`)
	if !is || len(password) < 40 {
		t.Fatal("the lease keeps no password")
	}
	return password
}
