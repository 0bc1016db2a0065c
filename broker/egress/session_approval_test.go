package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress/content"
)

// peopleForTexts grants every scope at once, and asks people about one text.
const peopleForTexts = `
@id("all") @why("all") permit (principal, action, resource) unless { context.content.kind == "pgsql" };
@id("text") @why("text") @ask("approvers") permit (principal, action, resource) when { context.content.kind == "pgsql" };`

// newApprovalBed returns a bed with the actions read and write, and other, whose sessions egress does
// not read.
func newApprovalBed(t *testing.T, policy string) *dbBed {
	t.Helper()
	d := newStatementsBed(t, map[string][]string{"read": {"read"}, "write": {"read", "insert"}}, func(c *brokertest.Config) {
		c.Policies = map[string][]byte{"p.cedar": []byte(policy)}
	})
	return d
}

func (d *dbBed) scopeOf(action string) string { return "db:" + d.name + ":" + action }

// denial sends a text in the simple protocol, and returns the error of the denial.
func denial(t *testing.T, conn *pgx.Conn, sql string) *pgconn.PgError {
	t.Helper()
	_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	e, is := errors.AsType[*pgconn.PgError](err)
	if !is || e.Code != "42501" || !strings.HasPrefix(e.Message, "ebb denied the statement: ") {
		t.Fatalf("%.100q: %v", sql, err)
	}
	return e
}

var advised = regexp.MustCompile(`ebb token --scope '([^']+)' --content (cnt_[0-9a-f]{32}) `)

// ask requests a credential for one content, and returns the request that waits for people; nil =
// none waits.
func (x *sandbox) ask(t *testing.T, scope, id string) (broker.Token, *broker.PendingInfo, error) {
	t.Helper()
	r := x.s.Request(t, scope)
	r.Content, r.Deferred = id, true
	tok, err := x.b.Broker.Token(t.Context(), r)
	if err != nil {
		return tok, broker.AsError(err).Pending, err
	}
	return tok, nil, nil
}

// approvedText has people approve a text that a session denies, as its hint says, and returns the
// placeholder.
func (x *sandbox) approvedText(t *testing.T, d *dbBed, conn *pgx.Conn, sql string) (placeholder, id string) {
	t.Helper()
	m := advised.FindStringSubmatch(denial(t, conn, sql).Hint)
	if m == nil {
		t.Fatalf("%q: no hint", sql)
	}
	return x.approve(t, m[1], m[2], sql).Token.Reveal(), m[2]
}

// approve has a person approve a content, and checks that the person sees the text.
func (x *sandbox) approve(t *testing.T, scope, id, sql string) broker.Token {
	t.Helper()
	_, pending, err := x.ask(t, scope, id)
	if pending == nil {
		t.Fatalf("no person is asked: %v", err)
	}
	who := x.b.Principals[brokertest.Approver]
	req, err := x.b.Broker.Request(t.Context(), who, pending.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := req.Sheet(); err != nil || f.Content == nil || !strings.Contains(f.Content.Text, sql) {
		t.Fatalf("the person sees %+v, %v", f.Content, err)
	}
	if _, err := x.b.Broker.Decide(t.Context(), who, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	tok, err := x.s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// opens opens a session with a placeholder.
func (x *sandbox) opens(t *testing.T, d *dbBed, placeholder string, change ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	conn, err := x.connect(t, d, placeholder, change...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func (d *dbBed) value(t *testing.T, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// An approved text is allowed once, in the simple protocol, and every other text is judged as before.
//
//ebb:invariant I7 An approval of one SQL text is for no other text, and for one use of it
func TestApprovedText(t *testing.T) {
	t.Parallel()
	d := newApprovalBed(t, peopleForTexts)
	x := d.dbBox(t)
	const text = "DELETE FROM t -- all\n"
	placeholder, id := x.approvedText(t, d, x.opens(t, d, x.placeholder(t, d.scopeOf("write"))), text)
	conn := x.opens(t, d, placeholder)
	for _, other := range []string{
		"DELETE FROM t", "DELETE FROM t -- all", text + " ", " " + text, "DELETE FROM t -- all\n\n", "DELETE FROM t -- all\r\n", "DELETE FROM t -- All\n", "DELETE  FROM t -- all\n",
		"delete from t -- all\n", "DELETE FROM t /* all */", text + ";", text + "; DELETE FROM t", "SELECT 1; " + text, text + text, "DELETE FROM t WHERE true -- all\n", "TRUNCATE t",
		"DELETE FROM public.t -- all\n", "WITH x AS (" + text + ") SELECT 1", "EXPLAIN " + text, "PREPARE p AS " + text, "DO 'DELETE FROM t -- all\n'",
	} {
		denial(t, conn, other)
	}
	// Through the extended protocol the server could execute the text many times.
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheStatement} {
		err := conn.QueryRow(t.Context(), text, mode).Scan() // Exec without arguments uses the simple protocol
		if e, is := errors.AsType[*pgconn.PgError](err); !is || e.Code != "42501" || !strings.Contains(e.Hint, "simple query") || strings.Contains(e.Hint, "cnt_") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := conn.Prepare(t.Context(), "p", text); stateOf(err) != "42501" {
		t.Errorf("prepared: %v", err)
	}
	if left := d.value(t, "SELECT count(*)::text FROM t"); left != "1" {
		t.Fatalf("%s rows are left before the text was sent", left)
	}
	for _, sql := range []string{"BEGIN", "INSERT INTO t VALUES (1)", "SELECT count(*) FROM t", text, "COMMIT"} {
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if left := d.value(t, "SELECT count(*)::text FROM t"); left != "0" {
		t.Errorf("%s rows are left", left)
	}
	for name, again := range map[string]*pgx.Conn{"the same session": conn, "another session": x.opens(t, d, placeholder)} {
		if e := denial(t, again, text); !strings.Contains(e.Message, "has been sent") || !strings.Contains(e.Hint, id) {
			t.Errorf("%s: %v, %s", name, e, e.Hint)
		}
	}
	// The approval gives no second credential after its use: people are asked again.
	if _, pending, err := x.ask(t, d.scopeOf("write"), id); pending == nil {
		t.Errorf("the same content again: %v", err)
	}
	texts := 0
	for _, e := range x.b.uses(t, x.s.Task.ID) {
		if e.Kind == audit.EgressStatement && strings.Contains(string(e.Data), `"text"`) {
			t.Errorf("an allowed text is in the audit log: %s", e.Data)
		}
		if e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), `"text":"DELETE FROM t -- all\n"`) {
			texts++
		}
	}
	if texts != 3 {
		t.Errorf("%d denied texts are in the audit log", texts)
	}
}

// Many sessions, with two credentials from one approval, send the text at the same moment: one succeeds.
//
//ebb:invariant I10 Of sessions that send an approved SQL text at the same moment, one wins
func TestApprovedTextOnce(t *testing.T) {
	t.Parallel()
	d := newApprovalBed(t, peopleForTexts)
	x := d.dbBox(t)
	const text = "UPDATE t SET id = id + 1"
	placeholder, id := x.approvedText(t, d, x.opens(t, d, x.placeholder(t, d.scopeOf("write"))), text)
	second, pending, err := x.ask(t, d.scopeOf("write"), id) // the answer with the first one may have been lost
	if err != nil {
		t.Fatal(pending, err)
	}
	const n = 16
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		conns[i] = x.opens(t, d, []string{placeholder, second.Token.Reveal()}[i%2])
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for _, conn := range conns {
		wg.Go(func() {
			<-begin
			switch _, err := conn.PgConn().Exec(context.Background(), text).ReadAll(); {
			case err == nil:
				won.Add(1)
			case stateOf(err) != "42501":
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if got := d.value(t, "SELECT id::text FROM t"); won.Load() != 1 || got != "43" {
		t.Errorf("%d sessions won, the value is %s", won.Load(), got)
	}
}

// Only people who see a text can allow it. A policy does not allow it, nor does an approval without the
// text, an id that the sandbox computes, or a text that people do not see whole.
//
//ebb:invariant I7 No SQL text is allowed beyond its scope unless people saw all of it
func TestTextsNeedPeople(t *testing.T) {
	t.Parallel()
	d := newApprovalBed(t, `
@id("reads") @why("reads") permit (principal, action == Ebb::Action::"read", resource);
@id("writes") @why("writes") @ask("approvers") permit (principal, action == Ebb::Action::"write", resource);`)
	x := d.dbBox(t)
	reads := x.opens(t, d, x.placeholder(t, d.scopeOf("read")))
	m := advised.FindStringSubmatch(denial(t, reads, "DELETE FROM t").Hint)
	if m == nil || m[1] != d.scopeOf("write") {
		t.Fatalf("a session that only reads is advised %q", m)
	}
	call := advised.FindStringSubmatch(denial(t, reads, "SELECT pg_sleep(0)").Hint)
	if call == nil || call[1] != d.scopeOf("read") {
		t.Fatalf("a call in a session that only reads is advised %q", call)
	}
	for _, content := range []string{m[2], call[2]} {
		if _, pending, err := x.ask(t, d.scopeOf("read"), content); pending != nil || broker.AsError(err).Kind != broker.Denied {
			t.Errorf("a policy that permits without people: %v, %v", pending, err)
		}
	}
	// An approval of the scope without the text covers no text, and its lease denies the text.
	_, pending, err := x.ask(t, d.scopeOf("write"), "")
	if pending == nil {
		t.Fatal(err)
	}
	who := d.Principals[brokertest.Approver]
	req, err := d.Broker.Request(t.Context(), who, pending.RequestID)
	if err == nil {
		_, err = d.Broker.Decide(t.Context(), who, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := x.s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if _, pending, err := x.ask(t, d.scopeOf("write"), m[2]); pending == nil {
		t.Errorf("an approval without the text serves it: %v", err)
	}
	conn := x.opens(t, d, all.Token.Reveal())
	denial(t, conn, "DELETE FROM t")
	// Facts without a text, of a statement that the sandbox prepared.
	if _, err := conn.Exec(t.Context(), "DELETE FROM t WHERE id = $1", pgx.QueryExecModeExec, 42); stateOf(err) != "42501" {
		t.Fatal(err)
	}
	forged := broker.ContentID(content.Facts{Kind: "pgsql", Operations: []content.Operation{{Action: "read", Object: "?.t"}, {Action: "delete", Object: "?.t"}}})
	if _, pending, err := x.ask(t, d.scopeOf("write"), forged); pending != nil || broker.AsError(err).Kind != broker.Invalid {
		t.Errorf("facts without a text: %v, %v", pending, err)
	}
	for _, tt := range []struct{ sql, why string }{
		{"DELETE FROM t --" + strings.Repeat("x", content.MaxText), "longer than 4096 bytes"},
		{"TRUNCATE t; COPY t FROM STDIN", "its rows are not in the text"},
		{"DELETE FROM t; COPY t FROM stdout", "its rows are not in the text"},
		{"ALTER ROLE CURRENT_USER PASSWORD 'x'", "PASSWORD"},
	} {
		if e := denial(t, conn, tt.sql); !strings.Contains(e.Hint, tt.why) || advised.MatchString(e.Hint) {
			t.Errorf("%.50s: %s", tt.sql, e.Hint)
		}
	}
	for _, e := range x.b.uses(t, x.s.Task.ID) {
		if strings.Contains(string(e.Data), "PASSWORD") || strings.Contains(string(e.Data), "xxxx") {
			t.Errorf("the audit log has %s", e.Data)
		}
	}
}

// An approval is for the text as the server reads it. In an encoding in which the bytes mean other
// letters, it is another text.
func TestApprovedTextInOtherEncodings(t *testing.T) {
	t.Parallel()
	d := newApprovalBed(t, peopleForTexts)
	x := d.dbBox(t)
	const text = "UPDATE t SET id = length('é')"
	placeholder, _ := x.approvedText(t, d, x.opens(t, d, x.placeholder(t, d.scopeOf("write"))), text)
	latin := x.opens(t, d, placeholder, func(c *pgx.ConnConfig) { c.RuntimeParams["client_encoding"] = "LATIN1" })
	for _, sql := range []string{text, strings.ReplaceAll(text, "é", "\xe9")} {
		if _, err := latin.PgConn().Exec(t.Context(), sql).ReadAll(); stateOf(err) != "42501" {
			t.Errorf("%q in LATIN1: %v", sql, err)
		}
	}
	conn := x.opens(t, d, placeholder)
	denial(t, conn, "UPDATE t SET id = length('e\u0301')")
	if _, err := conn.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Error(err)
	}
	if got := d.value(t, "SELECT id::text FROM t"); got != "1" {
		t.Errorf("the value is %s", got)
	}
}

// A definition that people approved can change how the server reads later texts, so that ebb refuses
// those whose meaning depends on it.
func TestApprovedDefinition(t *testing.T) {
	t.Parallel()
	d := newApprovalBed(t, peopleForTexts)
	x := d.dbBox(t)
	const text = "CREATE TABLE work.x (a text DEFAULT set_config('standard_conforming_strings', 'off', false))"
	placeholder, _ := x.approvedText(t, d, x.opens(t, d, x.placeholder(t, d.scopeOf("write"))), text)
	conn := x.opens(t, d, placeholder)
	for _, sql := range []string{`SELECT 'a\'`, text, "INSERT INTO work.x DEFAULT VALUES"} {
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	denial(t, conn, `SELECT 'a\''; DELETE FROM t --'`)
}

// tunnelled is a connection after CONNECT. rest begins with the bytes that were read with the response.
type tunnelled struct {
	net.Conn
	rest io.Reader
}

func (c tunnelled) Read(p []byte) (int, error) { return c.rest.Read(p) }

// psql shows the command that asks people, and sends the approved text.
func TestPsqlSendsAnApprovedText(t *testing.T) {
	t.Parallel()
	psql := counterpart.Program(t, "psql")
	d := newApprovalBed(t, peopleForTexts)
	x := d.dbBox(t)
	host, port, _ := net.SplitHostPort(onTCP(t, func() (net.Conn, error) {
		up, rest, err := x.through(d.host)
		return tunnelled{up, rest}, err
	}))
	run := func(placeholder, script string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), psql, append([]string{"-XAtq", "-v", "ON_ERROR_STOP=1"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PGHOST=" + host, "PGPORT=" + port, "PGDATABASE=" + d.name, "PGUSER=x", "PGPASSWORD=" + placeholder, "PGSSLMODE=disable"}
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const script = "-- clean up\nDELETE FROM t\n  WHERE 1 = 1;\n"
	out, err := run(x.placeholder(t, d.scopeOf("write")), script)
	m := advised.FindStringSubmatch(out)
	if err == nil || m == nil || !strings.Contains(out, "HINT:  People can approve exactly this text") {
		t.Fatalf("%v\n%s", err, out)
	}
	placeholder := x.approve(t, m[1], m[2], "DELETE FROM t\n  WHERE 1 = 1;").Token.Reveal()
	if out, err := run(placeholder, "SELECT 1;\n"+script+script); err == nil || strings.Count(out, "has been sent") != 1 {
		t.Errorf("twice: %v\n%s", err, out)
	}
	if left := d.value(t, "SELECT count(*)::text FROM t"); left != "0" {
		t.Errorf("%s rows are left", left)
	}
}
