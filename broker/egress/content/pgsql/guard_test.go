package pgsql_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
)

// readOnly denies everything but reads.
func readOnly(t pgsql.Text) *pgsql.Denial {
	for _, o := range t.Facts.Operations {
		if !pgsql.Reads(o) {
			return &pgsql.Denial{Why: "the credential covers reads only"}
		}
	}
	return nil
}

// message returns a message of a client.
func message(kind byte, body string) string {
	return string(kind) + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
}

// guarded opens a session behind a Guard to a real server.
func guarded(t *testing.T, url string, decide func(pgsql.Text) *pgsql.Denial) *pgx.Conn {
	t.Helper()
	up, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	server, err := up.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		b := pgproto3.NewBackend(client, client)
		if _, err = b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		for k, v := range server.ParameterStatuses {
			b.Send(&pgproto3.ParameterStatus{Name: k, Value: v})
		}
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
		g := pgsql.NewGuard(known, decide)
		wg.Go(func() {
			_, _ = io.Copy(g.Server(client), server.Conn)
			_ = client.Close()
		})
		_, _ = io.Copy(g.Client(server.Conn), client)
		_ = server.Conn.Close()
	})
	t.Cleanup(func() { _, _ = l.Close(), server.Conn.Close(); wg.Wait() })
	conn, err := pgx.Connect(t.Context(), "postgres://x@"+l.Addr().String()+"/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// denied reports whether an error is one of the Guard.
func denied(err error) bool {
	pe, is := errors.AsType[*pgconn.PgError](err)
	return is && pe.Code == "42501" && strings.HasPrefix(pe.Message, "ebb denied the statement: ")
}

// TestGuardedSession: a denied statement gets an error in its place, in every form of the
// protocol, and the session goes on as after any other error.
//
//ebb:invariant I6 A denied SQL statement does not reach the server, and the session stays usable
func TestGuardedSession(t *testing.T) {
	t.Parallel()
	url := database(t)
	conn := guarded(t, url, readOnly)
	ctx := t.Context()
	usable := func(after string) {
		t.Helper()
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM t WHERE a > $1", 0).Scan(&n); err != nil || n != 20 {
			t.Fatalf("after %s: %d, %v", after, n, err)
		}
	}
	usable("nothing")
	for name, do := range map[string]func() error{
		"the simple protocol": func() error { _, err := conn.PgConn().Exec(ctx, "DELETE FROM u").ReadAll(); return err },
		"several statements": func() error {
			_, err := conn.PgConn().Exec(ctx, "SELECT 1; DELETE FROM u; SELECT 2").ReadAll()
			return err
		},
		"the extended protocol": func() error { _, err := conn.Exec(ctx, "DELETE FROM u WHERE a = $1", 1); return err },
		"a prepared statement":  func() error { _, err := conn.Prepare(ctx, "name", "DELETE FROM u"); return err },
		"a query":               func() error { return conn.QueryRow(ctx, "SELECT nextval('s')").Scan(new(int)) },
		"an ambiguous text":     func() error { _, err := conn.PgConn().Exec(ctx, "SELECT 1_000").ReadAll(); return err },
		"a text of 2 MiB": func() error {
			_, err := conn.PgConn().Exec(ctx, "SELECT '"+strings.Repeat("x", 2<<20)+"'").ReadAll()
			return err
		},
		"COPY FROM STDIN": func() error {
			_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader("x\n"), "COPY logged FROM STDIN")
			return err
		},
		"the second of a batch": func() error {
			b := &pgx.Batch{}
			for _, sql := range []string{"SELECT 1", "DELETE FROM u", "SELECT 2"} {
				b.Queue(sql)
			}
			r := conn.SendBatch(ctx, b)
			defer r.Close()
			_, first := r.Exec()
			_, second := r.Exec()
			return errors.Join(first, second)
		},
	} {
		if err := do(); !denied(err) {
			t.Errorf("%s: %v", name, err)
		}
		usable(name)
	}
	// In a transaction, the statement aborts it.
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "UPDATE t SET b = 'x'"); !denied(err) || conn.PgConn().TxStatus() != 'E' {
		t.Errorf("in a transaction: %v, status %c", err, conn.PgConn().TxStatus())
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Error(err)
	}
	// A function call of the protocol.
	f := conn.PgConn().Frontend()
	conn.PgConn().Conn().Write([]byte(message('F', "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00")))
	for _, want := range []string{"42501", ""} {
		m, err := f.Receive()
		e, is := m.(*pgproto3.ErrorResponse)
		if err != nil || is != (want != "") || is && e.Code != want {
			t.Errorf("a function call: %#v, %v", m, err)
		}
	}
	usable("a function call")
	if d := newDetectorAt(t, url); d.must("SELECT (SELECT count(*) FROM u) || ' ' || (SELECT last_value FROM s)") != "10 1" {
		t.Error("a denied statement has changed something")
	}
}

// TestGuardPassesData: data of COPY, parameters and results of any size pass unjudged.
func TestGuardPassesData(t *testing.T) {
	t.Parallel()
	decided := 0
	conn := guarded(t, database(t), func(pgsql.Text) *pgsql.Denial { decided++; return nil })
	ctx := t.Context()
	large := strings.Repeat("x", 3<<20)
	var n int
	if err := conn.QueryRow(ctx, "SELECT length($1::text), $1::text", large).Scan(&n, &large); err != nil || n != 3<<20 || len(large) != n {
		t.Errorf("a large parameter: %d, %v", n, err)
	}
	rows := strings.Repeat(strings.ReplaceAll(message('Q', "DELETE FROM t"), "\x00", "")+"\n", 10_000)
	if tag, err := conn.PgConn().CopyFrom(ctx, strings.NewReader(rows), "COPY logged FROM STDIN"); err != nil || tag.RowsAffected() != 10_000 {
		t.Errorf("COPY FROM: %v, %v", tag, err)
	}
	var out bytes.Buffer
	if _, err := conn.PgConn().CopyTo(ctx, &out, "COPY logged TO STDOUT"); err != nil || out.String() != rows {
		t.Errorf("COPY TO: %d bytes, %v", out.Len(), err)
	}
	if err := conn.Ping(ctx); err != nil || decided != 3 {
		t.Errorf("%d decisions, %v", decided, err)
	}
}

// TestGuardForgetsSettings: after a statement that may change a setting, texts that depend on it
// are refused.
func TestGuardForgetsSettings(t *testing.T) {
	t.Parallel()
	var seen []string
	g := pgsql.NewGuard(known, func(t pgsql.Text) *pgsql.Denial {
		for _, o := range t.Facts.Operations {
			seen = append(seen, o.Object)
		}
		return nil
	})
	var out bytes.Buffer
	w := g.Client(&out)
	for _, sql := range []string{"TABLE t", `SELECT '\' FROM t`, "SET standard_conforming_strings = off", "TABLE t", `SELECT '\' FROM t`} {
		if _, err := io.WriteString(w, message('Q', sql+"\x00")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"?.t", "?.t", "standard_conforming_strings", "?.t"}; !slices.Equal(seen, want) || strings.Count(out.String(), `'\'`) != 1 {
		t.Errorf("%q, %q", seen, out.String())
	}
}

// TestGuardRefusesMalformedMessages: the session ends at the first message that has no place in it.
//
//ebb:invariant I6 A message of a database session that the protocol does not allow ends the session
func TestGuardRefusesMalformedMessages(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"a length below 4":          "Q\x00\x00\x00\x03",
		"a negative length":         "B\xff\xff\xff\xff",
		"a password":                message('p', "x\x00"),
		"an unknown kind":           message('z', ""),
		"a query without an end":    message('Q', "SELECT 1"),
		"a query of two texts":      message('Q', "SELECT 1\x00SELECT 2\x00"),
		"an empty query message":    message('Q', ""),
		"a Parse without types":     message('P', "\x00SELECT 1\x00"),
		"a Parse with a short list": message('P', "\x00SELECT 1\x00\x00\x02\x00\x00\x00\x00"),
		"a Parse with more":         message('P', "\x00SELECT 1\x00\x00\x00x"),
		"a Parse without a text":    message('P', "SELECT 1\x00"),
	} {
		var out bytes.Buffer
		g := pgsql.NewGuard(known, func(pgsql.Text) *pgsql.Denial { return nil })
		if n, err := io.WriteString(g.Client(&out), in+message('S', "")); err == nil || n != 0 || out.Len() > 0 {
			t.Errorf("%s: %d, %v, %q", name, n, err, out.String())
		}
	}
}

// FuzzGuard: a client's data gives the same result in any pieces, and no statement passes without a
// decision.
func FuzzGuard(f *testing.F) {
	f.Add([]byte(message('Q', "SELECT 1\x00") + message('S', "") + message('P', "a\x00DELETE FROM t\x00\x00\x01\x00\x00\x00\x17") + message('B', strings.Repeat("x", 100)) + message('F', "xyz")))
	f.Add([]byte(message('d', "x") + message('c', "") + message('X', "") + "Q\x00\x20\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		run := func(r io.Reader) (out string, failed bool) {
			var b bytes.Buffer
			w := pgsql.NewGuard(known, readOnly).Client(&b)
			_, err := io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{r})
			return b.String(), err != nil
		}
		whole, failed := run(bytes.NewReader(in))
		bytewise, failedToo := run(iotest.OneByteReader(bytes.NewReader(in)))
		mask := func(s string) string { // the marks are random
			if i := strings.Index(s, "'ebb_"); i >= 0 {
				s = s[:i]
			}
			return s
		}
		if failed != failedToo || !failed && mask(whole) != mask(bytewise) {
			t.Errorf("%q, %v or %q, %v", whole, failed, bytewise, failedToo)
		}
		for rest := []byte(whole); len(rest) >= 5; {
			size := int(binary.BigEndian.Uint32(rest[1:])) + 1
			if size > len(rest) {
				break
			}
			if body := rest[5:size]; rest[0] == 'Q' && !bytes.HasPrefix(body, []byte("'ebb_")) && !reads(string(bytes.TrimSuffix(body, []byte{0})), known) {
				t.Errorf("%q passed", body)
			}
			rest = rest[size:]
		}
	})
}

// FuzzGuardServer: a server's data passes unchanged in any pieces.
func FuzzGuardServer(f *testing.F) {
	f.Add([]byte(message('E', "SERROR\x00C42601\x00Mx\x00\x00") + message('Z', "I")))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b bytes.Buffer
		w := pgsql.NewGuard(known, readOnly).Server(&b)
		_, err := io.Copy(struct{ io.Writer }{w}, iotest.OneByteReader(bytes.NewReader(in)))
		if err == nil && !bytes.HasPrefix(in, b.Bytes()) {
			t.Errorf("%q became %q", in, b.String())
		}
	})
}

// TestTextsForPeople: the Guard offers a text for approval only if a person can see everything that
// it does, and the server runs it once. Nothing else of a client has its text in the facts.
//
//ebb:invariant I7 An SQL text whose effect a person cannot see whole is not offered for approval
func TestTextsForPeople(t *testing.T) {
	t.Parallel()
	parse := func(sql string) string { return message('P', "\x00"+sql+"\x00\x00\x00") }
	query := func(sql string) string { return message('Q', sql+"\x00") }
	long := "DELETE FROM t --" + strings.Repeat("x", content.MaxText)
	for _, tt := range []struct{ message, unapprovable string }{
		{query("DELETE FROM t"), ""},
		{query(long[:content.MaxText]), ""},
		{query("DELETE FROM t; DELETE FROM u"), ""},
		{query("DELETE FROM t WHERE a = 'é'"), ""},
		{query(long[:content.MaxText+1]), "longer than 4096 bytes"},
		{parse("DELETE FROM t"), "simple query"},
		{parse("DELETE FROM t WHERE a = $1"), "simple query"},
		{parse(long), "simple query"},
		{query("COPY t FROM STDIN"), "its rows"},
		{query("COPY t FROM stdOUT"), "its rows"},
		{query("BEGIN; COPY t FROM\nSTDIN"), "its rows"},
		{query("ALTER ROLE r pAsSwOrD 'x'"), "PASSWORD"},
		{query("DO $$BEGIN EXECUTE 'ALTER ROLE r PASSWORD ''x'''; END$$"), "PASSWORD"},
		{query("PREPARE p AS DELETE FROM t"), "again by a name"},
		{query("DELETE FROM t; pRePaRe/**/p AS DELETE FROM t"), "again by a name"},
		{query("DO $$BEGIN EXECUTE 'PREPARE p AS DELETE FROM t'; END$$"), "again by a name"},
		{query("DO $$DECLARE c refcursor; BEGIN OPEN c FOR SELECT f(a) FROM t; END$$"), "again by a name"},
		{query("DECLARE c SCROLL CURSOR FOR SELECT f(a) FROM t"), "again by a name"},
		{query("DECLARE c/**/CURSOR WITH HOLD FOR SELECT f(a) FROM t"), "again by a name"},
		{query("DELETE FROM t WHERE prepared_at < now() AND cursors = 1"), ""},
		{query("/*"), "error"},
		{message('F', ""), "error"},
	} {
		var got []pgsql.Text
		var out bytes.Buffer
		g := pgsql.NewGuard(known, func(t pgsql.Text) *pgsql.Denial {
			got = append(got, t)
			return &pgsql.Denial{Why: "no", Hint: "ask"}
		})
		if _, err := io.WriteString(g.Client(&out), tt.message); err != nil || len(got) != 1 {
			t.Errorf("%.60q: %v, %d decisions", tt.message, err, len(got))
			continue
		}
		sql := strings.TrimSuffix(tt.message[5:], "\x00")
		switch x := got[0]; {
		case tt.unapprovable == "error":
			if x.Err == nil || x.Facts.Text != "" {
				t.Errorf("%.60q: %+v", tt.message, x)
			}
		case tt.unapprovable == "" && (x.Unapprovable != "" || x.Facts.Text != sql), tt.unapprovable != "" && (x.Facts.Text != "" || !strings.Contains(x.Unapprovable, tt.unapprovable)):
			t.Errorf("%.60q: %.60q, %q", tt.message, x.Facts.Text, x.Unapprovable)
		}
		// The error of the server, which quotes the statement, becomes the Guard's, with its hint.
		mark, _, _ := strings.Cut(out.String()[strings.Index(out.String(), "'ebb_"):], "\x00")
		var answer bytes.Buffer
		_, _ = io.WriteString(g.Server(&answer), message('E', "SERROR\x00C42601\x00Msyntax error at or near \""+mark+"\"\x00\x00"))
		if a := answer.String(); tt.unapprovable != "error" && !strings.HasSuffix(a, "Mebb denied the statement: no\x00Hask\x00\x00") || !strings.Contains(a, "C42501\x00") {
			t.Errorf("%.60q: %q", tt.message, a)
		}
	}
}
