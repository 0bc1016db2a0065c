package crashtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
)

// childTime is more than any child needs, also on a busy machine.
const childTime = 4 * time.Minute

// rig is a party and the directory that successive brokers share.
type rig struct {
	t       *testing.T
	party   Party
	order   order
	killed  bool                // the last child was killed
	started func(p *os.Process) // called when a child runs; may be nil
	orphans int                 // number of orphans that a search is expected to have found
}

func newRig(t *testing.T, party func(t *testing.T) Party) *rig {
	t.Helper()
	p := party(t)
	raw, err := json.Marshal(p.Driver)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if p.Store == "" {
		p.Store = sqlstoretest.SQLite(t)
	}
	return &rig{t: t, party: p, order: order{
		Dir: dir, Store: p.Store, Issuer: "https://" + strings.ToLower(rand.Text()) + ".test", Scope: p.Scope, Redis: p.Redis, Prefix: p.Prefix,
		Driver: raw, Fast: p.Fast,
	}}
}

// run runs a child and returns the steps that it began. It fails the test if the child
// fails by itself.
func (r *rig) run(o order) []string {
	t := r.t
	t.Helper()
	o.Dir, o.Store, o.Redis, o.Prefix = r.order.Dir, r.order.Store, r.order.Redis, r.order.Prefix
	o.Issuer, o.Scope, o.Driver, o.Fast = r.order.Issuer, r.order.Scope, r.order.Driver, r.order.Fast
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashChild$", "-test.count=1", "-test.v=false") //nolint:gosec // this very program
	temp := filepath.Join(o.Dir, "tmp")                                                                         // removed with the test, also when a child is killed
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), variable+"="+string(raw), "TMPDIR="+temp)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Start()
	if err == nil {
		if r.started != nil {
			r.started(cmd.Process)
		}
		err = cmd.Wait()
	}
	r.killed = false
	if exit, is := errors.AsType[*exec.ExitError](err); is && ctx.Err() == nil {
		status, known := exit.Sys().(syscall.WaitStatus)
		r.killed = known && status.Signal() == syscall.SIGKILL
	}
	if err != nil && !r.killed {
		t.Fatalf("the child failed: %v\n%s", err, said.String())
	}
	text, err := os.ReadFile(filepath.Join(o.Dir, stepsFile)) //nolint:gosec // the test's own directory
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// check checks the result after all leases are said to be settled.
func (r *rig) check(t *testing.T) string {
	t.Helper()
	alive := r.party.Alive(t)
	if len(alive) != 0 {
		t.Errorf("alive at the third party: %v", alive)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: r.order.Store})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	entries := r.chains(t, s)
	ls, err := s.Leases(t.Context(), broker.LeaseFilter{Now: time.Now(), Upstream: true, Page: broker.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d", len(alive))
	for _, l := range ls {
		text += fmt.Sprintf(", %s, %s", l.State, l.Upstream.Proof)
		switch l.State {
		case broker.LeaseRevoked, broker.LeaseExpired:
			if l.Upstream.Proof == "" || l.Upstream.DeadAt.IsZero() {
				t.Errorf("lease %s is %s, and nothing says why: %+v", l.ID, l.State, l.Upstream)
			}
		case broker.LeaseUnconfirmed:
		default:
			t.Errorf("lease %s is still %s", l.ID, l.State)
		}
		if kinds := entries[l.ID]; count(kinds, audit.LeaseIntended) != 1 || count(kinds, audit.LeaseDead)+count(kinds, audit.LeaseUnconfirmed) != 1 {
			t.Errorf("on the record of lease %s: %v", l.ID, kinds)
		}
	}
	r.recorded(t, entries)
	orphans := 0
	for _, kinds := range entries {
		orphans += count(kinds, audit.OrphanRevoked)
	}
	if orphans != r.orphans {
		t.Errorf("%d orphans on the record, want %d", orphans, r.orphans)
	}
	return text
}

// recorded fails if an issued credential is missing from the audit log.
func (r *rig) recorded(t *testing.T, entries map[string][]string) {
	t.Helper()
	handed, err := os.ReadFile(filepath.Join(r.order.Dir, handedFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, id := range strings.Fields(string(handed)) {
		if count(entries[id], audit.LeaseIssued) != 1 {
			t.Errorf("credential %s left the broker; on its record: %v", id, entries[id])
		}
	}
}

func count(kinds []string, kind string) (n int) {
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// chains verifies the audit log and returns the kinds of entries of each lease.
func (r *rig) chains(t *testing.T, s *sqlstore.Store) map[string][]string {
	t.Helper()
	var export bytes.Buffer
	enc, out := json.NewEncoder(&export), map[string][]string{}
	for e, err := range s.Entries(t.Context(), broker.EntryFilter{}) {
		if err == nil {
			err = enc.Encode(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		out[e.LeaseID] = append(out[e.LeaseID], e.Kind)
	}
	cs, err := s.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs {
		if err := enc.Encode(map[string]any{"checkpoint": c}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := keys.Open(keys.Config{Dir: filepath.Join(r.order.Dir, "keys")})
	if err != nil {
		t.Fatal(err)
	}
	set, err := jose.ParseJWKS(d.Ring().JWKS(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(&export, set)
	if err != nil || report.Partial {
		t.Errorf("the record does not verify: %+v, %v", report, err)
	}
	return out
}
