package sqlstore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// refused opens a store that must not open, and returns the error text.
func refused(t *testing.T, c sqlstore.Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := sqlstore.Open(ctx, c)
	if err == nil {
		_ = s.Close()
		t.Fatalf("opened %+v", c)
	}
	return err.Error()
}

func TestOpenRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]sqlstore.Config{
		"nothing":         {},
		"relative":        {URL: "sqlite://ebb.db"},
		"opaque":          {URL: "sqlite:ebb.db"},
		"parameters":      {URL: "sqlite:///tmp/x.db?_pragma=synchronous(OFF)"},
		"other kind":      {URL: "mysql://root:hunter2@db/ebb"},
		"broken":          {URL: "postgres://u:hunter2@[::1/ebb"},
		"broken parts":    {URL: "postgres://u:hunter2@db:port/ebb"},
		"one connection":  {URL: "sqlite:///tmp/x.db", MaxConns: 1},
		"no queue":        {URL: "sqlite:///tmp/x.db", Queue: -1},
		"writer with NUL": {URL: "sqlite://" + filepath.Join(t.TempDir(), "x.db"), Writer: "\x00"},
	} {
		if msg := refused(t, c); strings.Contains(msg, "hunter2") {
			t.Errorf("%s: the password is in %q", name, msg)
		}
	}
}

func TestOpenSQLiteLeavesForeignFilesAlone(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "whole.db")
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + whole})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(whole); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want only the owner to read it", info.Mode(), err)
	}
	for name, bytes := range map[string][]byte{
		"text":        []byte("dear diary, this is no database at all, and it is longer than a page header ever is"),
		"short":       []byte("SQLite"),
		"half a page": content[:700],
		"damaged":     append([]byte("SQLite format 3\x00"), []byte(strings.Repeat("x", 8000))...),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			if err := os.WriteFile(path, bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			if msg := refused(t, sqlstore.Config{URL: "sqlite://" + path}); !strings.Contains(msg, "nothing was changed") || !strings.Contains(msg, "backup") {
				t.Errorf("got %q, want what to do", msg)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(bytes) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
	if msg := refused(t, sqlstore.Config{URL: "sqlite://" + filepath.Join(t.TempDir(), "none", "x.db")}); !strings.Contains(msg, "directory") {
		t.Errorf("got %q, want what to do about the directory", msg)
	}
	if msg := refused(t, sqlstore.Config{URL: "sqlite://" + t.TempDir()}); !strings.Contains(msg, "SQLite file") {
		t.Errorf("got %q", msg)
	}
}

func TestOpenNeedsAFreshWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		c := sqlstore.Config{URL: empty(t), Writer: "ebb-1"}
		s, err := sqlstore.Open(t.Context(), c)
		if err != nil || s.Writer() != "ebb-1" {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if msg := refused(t, c); !strings.Contains(msg, "earlier run") {
			t.Errorf("got %q", msg)
		}
	})
}

func TestManualMigration(t *testing.T) {
	t.Parallel()
	eachOf(t, bare(), func(t *testing.T, empty func(testing.TB) string) {
		c := sqlstore.Config{URL: empty(t), Manual: true}
		before, err := sqlstore.MigrationStatus(t.Context(), c)
		if err != nil || len(before.Applied) != 0 || len(before.Pending) == 0 {
			t.Fatalf("got %+v, %v", before, err)
		}
		if msg := refused(t, c); !strings.Contains(msg, "ebb migrate") {
			t.Errorf("got %q", msg)
		}
		done, err := sqlstore.Migrate(t.Context(), c)
		if err != nil || len(done) != len(before.Pending) {
			t.Fatalf("applied %d, %v", len(done), err)
		}
		after, err := sqlstore.MigrationStatus(t.Context(), c)
		if err != nil || len(after.Pending) != 0 {
			t.Fatalf("got %+v, %v", after, err)
		}
		s, err := sqlstore.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		// As if a newer release had used the database.
		if err := s.Say(t.Context(), "INSERT INTO meta (version, name, checksum, applied_at) VALUES (9999, '9999_later.sql', 'x', 0)"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: c.URL}); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("got %v", err)
		}
	})
}

func TestStatusCreatesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if s, err := sqlstore.MigrationStatus(t.Context(), sqlstore.Config{URL: "sqlite://" + path}); err != nil || len(s.Pending) == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

func TestOpenPostgresSaysWhatToDo(t *testing.T) {
	t.Parallel()
	good, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(*url.URL)
		want  string
	}{
		"password":    {func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "hunter2") }, "password was refused"},
		"user":        {func(u *url.URL) { u.User = url.UserPassword("nobody_here", "hunter2") }, "password was refused"},
		"database":    {func(u *url.URL) { u.Path = "/ebb_none" }, "does not exist"},
		"server down": {func(u *url.URL) { u.Host = "127.0.0.1:1" }, "the server cannot be reached"},
	} {
		u := *good
		tt.spoil(&u)
		if msg := refused(t, sqlstore.Config{URL: u.String()}); !strings.Contains(msg, tt.want) || strings.Contains(msg, "hunter2") {
			t.Errorf("%s: got %q, want %q and no password", name, msg, tt.want)
		}
	}
	// A schema of another application is not changed.
	storetest.PostgresExec(t, good.String(), "CREATE TABLE tasks (x TEXT)")
	if msg := refused(t, sqlstore.Config{URL: good.String()}); !strings.Contains(msg, "another application") {
		t.Errorf("got %q", msg)
	}
	if s, err := sqlstore.MigrationStatus(t.Context(), sqlstore.Config{URL: good.String()}); err != nil || len(s.Applied) != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestIsolationIsEbbs: after a wait for a lock, a transaction sees the commits in between, also
// when the database or the URL sets another isolation level. Otherwise one person with two names
// could begin two break-glass periods at once.
//
//ebb:invariant I6 A person cannot have two open break-glass periods at once, whatever isolation level the database uses by default
func TestIsolationIsEbbs(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	storetest.PostgresExec(t, u.String(), "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET default_transaction_isolation = 'serializable'")
	for name, asked := range map[string]string{"by the database": "", "by the URL": "repeatable read"} {
		at, q := *u, u.Query()
		if asked != "" {
			q.Set("default_transaction_isolation", asked)
		}
		at.RawQuery = q.Encode()
		s := mustOpenOne(t, open(t, at.String()))
		got, err := s.Isolations(t.Context())
		if err != nil || strings.Join(slices.Compact(got), ",") != "read committed" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	c := sqlstore.Config{URL: databases()["sqlite"](t)}
	if err := mustOpenOne(t, open(t, c.URL)).Close(); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.OpenLimited(t.Context(), c, 60)
	if err != nil {
		t.Fatal(err)
	}
	acked := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				r := mint("tsk_1")
				err := s.Append(t.Context(), r)
				mu.Lock()
				acked[r.IssueLease.ID] = err == nil
				mu.Unlock()
				if err != nil && !strings.Contains(err.Error(), "disk is full") {
					t.Errorf("got %v, want what to do", err)
				}
			}
		})
	}
	wg.Wait()
	got := read(t, s)
	for id, ok := range acked {
		if ok != (got[id] == 1) {
			t.Errorf("lease %s: acknowledged %v, there %v", id, ok, got[id])
		}
	}
	if len(got) == 0 || len(got) == len(acked) {
		t.Errorf("%d of %d units fitted: the limit is wrong", len(got), len(acked))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, c.URL) // as if space was freed
	if err := s.Append(t.Context(), mint("tsk_1")); err != nil {
		t.Error(err)
	}
	proven(t, s)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: databases()["sqlite"](t), Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(openOne(t.Context(), s), s.Append(t.Context(), mint("tsk_1"))); err != nil {
		t.Fatal(err)
	}
	got, err := r.Gather()
	if err != nil || len(got) != 6 {
		t.Errorf("got %d metrics, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// A full queue makes callers wait, and a caller that stops waiting leaves no data behind.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: databases()["sqlite"](t), Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	mustOpenOne(t, s)
	held, release := make(chan struct{}), make(chan struct{})
	go func() { _ = s.Hold(held, release) }()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 20)
	for range 20 {
		r := mint("tsk_1")
		go func() { errs <- s.Append(ctx, r) }()
	}
	cancel()
	for range 20 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	close(release)
	if err := s.Append(t.Context(), mint("tsk_1")); err != nil {
		t.Fatal(err)
	}
	if n := len(read(t, s)); n != 1 {
		t.Errorf("%d units are there, want the one that was waited for", n)
	}
	proven(t, s)
}

// read returns the ids of all leases with an issue entry in the audit log, after checking
// that each lease exists.
func read(t *testing.T, s *sqlstore.Store) map[string]int {
	t.Helper()
	out := map[string]int{}
	for e, err := range s.Entries(context.WithoutCancel(t.Context()), broker.EntryFilter{Kind: audit.LeaseIssued}) {
		if err != nil {
			t.Fatal(err)
		}
		out[e.LeaseID]++
	}
	f := broker.LeaseFilter{Now: storetest.Epoch, Page: broker.Page{Limit: 1000}}
	n := 0
	for {
		ls, err := s.Leases(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			n++
			if out[l.ID] != 1 {
				t.Errorf("lease %s has %d entries, want 1", l.ID, out[l.ID])
			}
			f.Page.After = l.ID
		}
		if len(ls) < 1000 {
			break
		}
	}
	if n != len(out) {
		t.Errorf("%d leases and %d entries about them", n, len(out))
	}
	return out
}
