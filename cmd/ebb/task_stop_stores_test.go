package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// storesBed is two replicas of ebb on a PostgreSQL and a Redis of the test's
// own. Clients use the first one.
type storesBed struct {
	t     *testing.T // the running test
	here  *embedded
	there *embedded
	at    string // address of the first replica
	keys  map[string]jose.Signer
	pg    *sqlstoretest.Server
	redis *redistest.Server
	disk  string // file system of the database
}

// endTime is much longer than the completion of a task on an idle machine while
// a store does not respond: three seconds.
const endTime = 8 * time.Second

// diskSize is enough for an empty database and little more.
const diskSize = "size=96m"

func newStoresBed(t *testing.T) *storesBed {
	t.Helper()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "run as root: the test mounts a small file system for the database")
	}
	b := &storesBed{t: t, disk: t.TempDir()}
	if err := syscall.Mount("tmpfs", b.disk, "tmpfs", 0, diskSize); err != nil {
		counterpart.Missing(t, "root", "let root mount a tmpfs: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(b.disk, syscall.MNT_DETACH) })
	b.pg, b.redis = sqlstoretest.NewServer(t, b.disk), redistest.New(t)
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}, {ID: "ops", Roles: []broker.Role{broker.RoleOperator}}})
	if err != nil {
		t.Fatal(err)
	}
	b.keys = keys
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.at = l.Addr().String()
	_ = l.Close()
	shared := []string{"EBB_DATABASE=" + b.pg.URL, "EBB_REDIS_ADDRS=" + b.redis.Addr, "EBB_PUBLIC_URL=http://" + b.at, "EBB_SIGNING_KEYS_DIR=" + filepath.Join(t.TempDir(), "keys")}
	for replica, listen := range map[**embedded]string{&b.here: b.at, &b.there: "127.0.0.1:0"} {
		*replica, err = embed(t.Context(), embedding{Environ: append([]string{"EBB_LISTEN=" + listen}, shared...), People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*replica).end() })
	}
	return b
}

func (b *storesBed) operator(id string) *client.Operator {
	b.t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: "http://" + b.at}, ClientID: id, Key: b.keys[id]})
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// opened opens a task with one credential. It tries again for as long as patience: the previous case
// may have just restarted the database, so that pooled connections fail one by one.
func (b *storesBed) opened() (task wire.Task, token string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		task, token, err := b.open()
		switch {
		case err == nil:
			return task, token
		case !client.IsKind(err, wire.KindUnavailable) || time.Now().After(end):
			b.t.Fatal(err)
		}
	}
}

func (b *storesBed) open() (task wire.Task, token string, err error) {
	task, ticket, err := b.operator("runner").Tasks.Open(b.t.Context(), wire.TaskSpec{Name: "t", Kind: "k", TTL: 3600, Ceiling: "local:**:*", Expect: wire.Expect{Attestor: "enroll"}, Ticket: true})
	if err != nil {
		return task, "", err
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return task, "", err
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: "http://" + b.at}, Key: key})
	if err == nil {
		_, err = s.Enrol(b.t.Context(), ticket.Ticket)
	}
	if err != nil {
		return task, "", err
	}
	cred, err := s.Token(b.t.Context(), client.TokenRequest{Scope: "local:a:read"})
	if err != nil {
		return task, "", err
	}
	return task, cred.Token.Reveal(), nil
}

// active reports whether a replica accepts the token. A replica that cannot
// decide does not.
func (b *storesBed) active(replica *embedded, token string) bool {
	i, err := replica.node.broker.Introspect(b.t.Context(), broker.Principal{ID: "ops", Roles: []broker.Role{broker.RoleOperator}}, token)
	return err == nil && i.Active
}

// fill leaves no space for another entry on the file system of the database.
func (b *storesBed) fill() {
	b.t.Helper()
	f, err := os.Create(filepath.Join(b.disk, "full"))
	if err != nil {
		b.t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if _ = f.Close(); !errors.Is(err, syscall.ENOSPC) {
		b.t.Fatal(err)
	}
	big, _ := json.Marshal(map[string]string{"x": strings.Repeat("x", 4096)})
	for n := 0; b.here.node.store.Append(b.t.Context(), broker.Record{Entries: []audit.Entry{{At: time.Now(), Kind: audit.RecordExported, Actor: "test", Data: big}}}) == nil; n++ {
		if n > 20000 {
			b.t.Fatal("the database takes writes on a full disk")
		}
	}
}

// command runs a Redis command.
func (b *storesBed) command(line string) {
	b.t.Helper()
	if got := b.redis.Do(line); got != "+OK\r\n" {
		b.t.Fatalf("%s: %q", line, got)
	}
}

// browsing is the browser of a person who is signed in to the first replica's
// console.
type browsing struct {
	b       *storesBed
	console string // URL of the console
	cookies map[string]string
}

// browser signs a person in, with the retries of opened.
func (b *storesBed) browser() *browsing {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		w, status, text := b.signIn()
		switch {
		case status == http.StatusSeeOther:
			return w
		case status != http.StatusServiceUnavailable || time.Now().After(end):
			b.t.Fatalf("signing in: %d %s", status, text)
		}
	}
}

func (b *storesBed) signIn() (w *browsing, status int, text string) {
	b.t.Helper()
	link, _, err := b.operator("ops").SignInLink(b.t.Context(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	u, err := url.Parse(link.Reveal())
	if err != nil {
		b.t.Fatal(err)
	}
	w = &browsing{b: b, console: "http://" + u.Host, cookies: map[string]string{}}
	status, text = w.post("/signin/link", w.form(u.RequestURI(), "/signin/link"))
	return w, status, text
}

var (
	formAt = regexp.MustCompile(`(?s)<form[^>]* action="([^"]*)".*?</form>`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// form returns the hidden fields of a page's form.
func (w *browsing) form(page, action string) url.Values {
	w.b.t.Helper()
	status, text := w.do(http.MethodGet, page, nil)
	for end := time.Now().Add(patience); status == http.StatusServiceUnavailable && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		status, text = w.do(http.MethodGet, page, nil)
	}
	for _, f := range formAt.FindAllStringSubmatch(text, -1) {
		if html.UnescapeString(f[1]) != action {
			continue
		}
		out := url.Values{}
		for _, in := range hidden.FindAllStringSubmatch(f[0], -1) {
			out.Add(html.UnescapeString(in[1]), html.UnescapeString(in[2]))
		}
		return out
	}
	w.b.t.Fatalf("%s has no form for %s: %d %s", page, action, status, text)
	return nil
}

func (w *browsing) post(path string, form url.Values) (int, string) {
	w.b.t.Helper()
	return w.do(http.MethodPost, path, form)
}

func (w *browsing) do(method, path string, form url.Values) (int, string) {
	w.b.t.Helper()
	req, err := http.NewRequestWithContext(w.b.t.Context(), method, w.console+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.b.t.Fatal(err)
	}
	req.Header = http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	if method == http.MethodPost {
		req.Header.Set("Origin", w.console)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range w.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, w.b.at) // the console's name resolves to this machine
	}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		w.b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		w.cookies[c.Name] = c.Value
	}
	return resp.StatusCode, string(text)
}

// ends are the interfaces that complete a task; each returns its response. A
// form is loaded before the fault.
func (b *storesBed) ends(tasks map[string]wire.Task) map[string]func(t *testing.T) string {
	w, console := b.browser(), "/tasks/"+tasks["console"].ID
	form := w.form(console, console+"/stop")
	form.Set("reason", "leaked")
	key := filepath.Join(b.t.TempDir(), "runner.key")
	if err := keyfile.Write(key, keyfile.File{ClientID: "runner", Key: b.keys["runner"]}); err != nil {
		b.t.Fatal(err)
	}
	return map[string]func(t *testing.T) string{
		"CLI": func(t *testing.T) string {
			var said bytes.Buffer
			c := &cli{stdin: strings.NewReader(""), stdout: &said, stderr: &said, format: out.Table}
			if code := c.run(t.Context(), []string{"task", "complete", tasks["CLI"].ID, "--url", "http://" + b.at, "--key", key}); code != exitUnavailable {
				t.Errorf("exit code %d", code)
			}
			return said.String()
		},
		"API": func(t *testing.T) string {
			_, err := b.operator("runner").Tasks.Complete(t.Context(), tasks["API"].ID)
			if !client.IsKind(err, wire.KindUnavailable) {
				t.Fatalf("%v", err)
			}
			return err.Error()
		},
		"console": func(t *testing.T) string {
			status, text := w.post(console+"/stop", form)
			if status != http.StatusServiceUnavailable {
				t.Errorf("status %d", status)
			}
			return text
		},
	}
}

// TestTaskEndsWithoutStores: a real database or Redis is killed, frozen or
// filled while tasks are open. A task can then be completed by the command
// line, the API and the console with a new login. The response reports the
// progress, both replicas refuse the task at once, and the completion is
// recorded once the store is back.
//
//ebb:invariant I6 The CLI, the API and the console complete a task while a real store fails, and every replica refuses the task at once
//ebb:invariant I6 The login of a runner that completes its task does not wait for a database commit that hangs
func TestTaskEndsWithoutStores(t *testing.T) {
	t.Parallel()
	b := newStoresBed(t)
	restart := func() { b.pg.Kill(); b.pg.Start() }
	for _, fault := range []struct {
		name     string
		on, off  func()
		database bool
	}{
		{name: "database dead", on: b.pg.Kill, off: b.pg.Start, database: true},
		{name: "database frozen", on: func() { b.pg.Signal(syscall.SIGSTOP) }, off: func() { b.pg.Signal(syscall.SIGCONT) }, database: true},
		{name: "database full", on: b.fill, off: func() { _ = os.Remove(filepath.Join(b.disk, "full")); restart() }, database: true},
		{name: "Redis dead", on: b.redis.Kill, off: b.redis.Start},
		{name: "Redis frozen", on: func() { b.redis.Signal(syscall.SIGSTOP) }, off: func() { b.redis.Signal(syscall.SIGCONT) }},
		{name: "Redis full", on: func() { b.command("CONFIG SET maxmemory 1") }, off: func() { b.command("CONFIG SET maxmemory 0") }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			b.t = t
			tasks, tokens := map[string]wire.Task{}, map[string]string{}
			for _, surface := range []string{"CLI", "API", "console"} {
				tasks[surface], tokens[surface] = b.opened()
				for _, replica := range []*embedded{b.here, b.there} {
					if !b.active(replica, tokens[surface]) {
						t.Fatal("not active before the fault")
					}
				}
			}
			ends := b.ends(tasks)
			fault.on()
			reached := "Live store: pending. Database: done."
			if fault.database {
				reached = "Live store: done. Database: pending."
			}
			for surface, end := range ends {
				began := time.Now()
				if said := end(t); !strings.Contains(said, "refused here") || !strings.Contains(said, reached) {
					t.Errorf("%s: it says %s", surface, said)
				}
				if took := time.Since(began); took > endTime {
					t.Errorf("%s: the answer took %s", surface, took)
				}
				for name, replica := range map[string]*embedded{"that was asked": b.here, "that was not asked": b.there} {
					if b.active(replica, tokens[surface]) {
						t.Errorf("%s: active at the replica %s", surface, name)
					}
				}
			}
			fault.off()
			for surface, task := range tasks {
				b.recorded(t, surface, task, tokens[surface])
			}
		})
	}
}

// recorded waits until the completion of a task is in the audit log and in
// Redis, through which the other replica learns of it.
func (b *storesBed) recorded(t *testing.T, surface string, task wire.Task, token string) {
	t.Helper()
	actor := map[string]string{"CLI": "runner", "API": "runner", "console": "ops"}[surface]
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var closed []wire.AuditEntry
		for e, err := range b.operator("ops").Audit.Entries(t.Context(), client.EntryFilter{TaskID: task.ID, Kind: audit.TaskClosed}) {
			if err != nil {
				break
			}
			closed = append(closed, e)
		}
		active := b.active(b.there, token)
		if len(closed) == 1 && closed[0].Actor == actor && !active && !b.active(b.here, token) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: the end is not recorded: %+v, active at the other replica: %v", surface, closed, active)
		}
	}
}
