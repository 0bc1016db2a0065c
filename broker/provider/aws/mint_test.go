package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const instance = "0a1b2c3d"

// grants makes grants with their own lease ids, and remembers what was saved.
type grants struct {
	n     atomic.Int64
	set   string
	ttl   time.Duration
	now   func() time.Time
	mu    sync.Mutex
	saved map[string]secret.Secret
}

func newGrants(now func() time.Time) *grants {
	return &grants{set: "s3:data/in/**:read s3:data/out/task1/**:write", ttl: 5 * time.Minute, now: now, saved: map[string]secret.Secret{}}
}

func (g *grants) next() provider.Grant {
	id, now := fmt.Sprintf("lse_0192f0c1a2b37c3d%016x", g.n.Add(1)), g.now().Truncate(time.Second)
	return provider.Grant{
		LeaseID: id, Instance: instance, TaskID: "tsk_1", Sandbox: "sbx_1~é", Subject: "bo@example.com", Scopes: scopes.MustParseSet(g.set),
		IssuedAt: now, ExpiresAt: now.Add(g.ttl),
		Save: func(_ context.Context, h secret.Secret) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.saved[id] = h
			return nil
		},
	}
}

func (g *grants) handleOf(lease string) secret.Secret {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.saved[lease]
}

// target is what the broker remembers.
func (g *grants) target(gr provider.Grant, c provider.Credential) provider.Target {
	h := c.Handle
	if h.Empty() {
		h = g.handleOf(gr.LeaseID)
	}
	return provider.Target{LeaseID: gr.LeaseID, Instance: gr.Instance, TaskID: gr.TaskID, Scopes: gr.Scopes, Handle: h,
		IssuedAt: gr.IssuedAt, ExpiresAt: gr.ExpiresAt, DiesAt: c.DiesAt, Now: g.now()}
}

func documentOf(t testing.TB, c provider.Credential) process {
	t.Helper()
	var p process
	if err := json.Unmarshal([]byte(c.Token.Reveal()), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// reads uses a credential for what its scopes allow.
func (c *cloud) reads(t testing.TB, cr provider.Credential) bool {
	return c.may(documentOf(t, cr).SessionToken, "s3:GetObject", "arn:aws:s3:::data/in/a.csv", nil)
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"by source identity": func(*Config) {},
		"by session name":    func(c *Config) { c.SourceIdentity, c.SessionTags = new(bool), new(bool) },
		"by time alone":      func(c *Config) { c.Revoke = "none" },
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCloud(t)
			cfg := cl.config()
			change(&cfg)
			d, gs := driver(t, cfg), newGrants(cl.now)
			providertest.Run(t, providertest.Subject{Driver: d, Grant: gs.next, Unsupported: "s3:data/*:read", Alive: func(_ context.Context, c provider.Credential) (bool, error) {
				return cl.reads(t, c), nil
			}})
		})
	}
}

func TestSessionIsWhatWasAskedFor(t *testing.T) {
	cl := newCloud(t)
	cl.roles["data-1"].external = "ebb-42"
	cfg := cl.config()
	cfg.ExternalID = "ebb-42"
	d, gs := driver(t, cfg), newGrants(cl.now)
	gs.ttl = 90 * time.Second
	g := gs.next()
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	p := documentOf(t, c)
	s := cl.sessions[p.SessionToken]
	want := provider.Name(instance, g.LeaseID)
	if s.name != want || s.identity != want || s.tags["ebb-task"] != "tsk_1" || s.tags["ebb-sandbox"] != "sbx_1__" || s.tags["ebb-lease"] != g.LeaseID {
		t.Errorf("session %+v", s)
	}
	if s.expires.Sub(s.issued) != 900*time.Second {
		t.Errorf("the session was asked for %s", s.expires.Sub(s.issued))
	}
	if p.Version != 1 || p.AccessKeyId == "" || p.SecretAccessKey == "" || p.Expiration != g.ExpiresAt.UTC().Format(time.RFC3339) || c.Type != "N_A" || c.Format != format {
		t.Errorf("credential %s %s, Expiration %s", c.Type, c.Format, p.Expiration)
	}
	if !c.ExpiresAt.Equal(g.ExpiresAt) || !c.DiesAt.Equal(g.ExpiresAt) {
		t.Errorf("expires %s dies %s, granted until %s", c.ExpiresAt, c.DiesAt, g.ExpiresAt)
	}
	for _, secret := range []string{p.SecretAccessKey, p.SessionToken} {
		if strings.Contains(c.Handle.Reveal(), secret) {
			t.Error("the handle holds the credential")
		}
	}
	for _, tt := range []struct {
		action, resource string
		want             bool
	}{
		{"s3:GetObject", "data/in/x", true}, {"s3:PutObject", "data/out/task1/x", true}, {"s3:PutObject", "data/in/x", false}, {"s3:GetObject", "data/out/task1/x", false},
		{"s3:GetObject", "other/in/x", false}, {"s3:DeleteObject", "data/out/task1/x", false}, {"sts:AssumeRole", "x", false}, {"iam:CreateUser", "x", false},
	} {
		if got := cl.may(p.SessionToken, tt.action, "arn:aws:s3:::"+tt.resource, nil); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	cl.pass(89 * time.Second)
	if !cl.reads(t, c) {
		t.Error("dead before its end")
	}
	cl.pass(2 * time.Second)
	if cl.reads(t, c) {
		t.Error("alive after its end, far below the 900 s of STS")
	}
}

func TestHandleIsDurableBeforeTheCall(t *testing.T) {
	cl := newCloud(t)
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	g := gs.next()
	g.Save = func(_ context.Context, h secret.Secret) error {
		if got, err := readHandle(h); err != nil || got.Role != cloudRoleA || cl.count("AssumeRole") != 0 {
			t.Errorf("saved %+v %v after %d calls", got, err, cl.count("AssumeRole"))
		}
		return errors.New("the database is down")
	}
	if _, err := d.Mint(t.Context(), g); err == nil || cl.count("AssumeRole") != 0 {
		t.Errorf("minted without a record: %v", err)
	}
	g.Save = nil
	if _, err := d.Mint(t.Context(), g); err == nil || cl.count("AssumeRole") != 0 {
		t.Errorf("minted with nobody to record it: %v", err)
	}
}

func TestMaxSessionShortens(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	cfg.Roles[0].MaxSession = "20m"
	d, gs := driver(t, cfg), newGrants(cl.now)
	gs.ttl = 2 * time.Hour
	c, err := d.Mint(t.Context(), gs.next())
	if err != nil {
		t.Fatal(err)
	}
	if left := c.ExpiresAt.Sub(cl.now()); left > 20*time.Minute || left < 19*time.Minute {
		t.Errorf("expires in %s", left)
	}
	cl.pass(20*time.Minute + time.Second)
	if cl.reads(t, c) {
		t.Error("alive after the longest session")
	}
}

func TestLeasesAreSpreadOverAPool(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	cfg.Roles[0].ARNs = append(cfg.Roles[0].ARNs, cloudRoleB)
	d, gs := driver(t, cfg), newGrants(cl.now)
	used := map[string]int{}
	for range 40 {
		c, err := d.Mint(t.Context(), gs.next())
		if err != nil {
			t.Fatal(err)
		}
		used[cl.sessions[documentOf(t, c).SessionToken].role]++
	}
	if used["data-1"] < 5 || used["data-2"] < 5 {
		t.Errorf("roles used: %v", used)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*cloud)
		says  string
	}{
		"trust without tags":     {func(c *cloud) { c.roles["data-1"].noTags = true }, "sts:TagSession"},
		"trust without identity": {func(c *cloud) { c.roles["data-1"].noIdentity = true }, "sts:SetSourceIdentity"},
		"another external id":    {func(c *cloud) { c.roles["data-1"].external = "x2" }, "trust policy"},
		"role deleted":           {func(c *cloud) { delete(c.roles, "data-1") }, "trust policy"},
		"role too short":         {func(c *cloud) { c.roles["data-1"].maxSession = 600 }, "max_session"},
		"denied":                 {func(c *cloud) { c.faults["AssumeRole"] = []fault{forbid} }, "providers check"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCloud(t)
			c.spoil(cl)
			d, gs := driver(t, cl.config()), newGrants(cl.now)
			_, err := d.Mint(t.Context(), gs.next())
			r, ok := errors.AsType[*provider.RefusedError](err)
			if !ok || !errors.Is(err, provider.ErrRefused) || !strings.Contains(r.Public, c.says) {
				t.Fatalf("%v", err)
			}
			for i := range len(r.Public) {
				if r.Public[i] < 0x20 || r.Public[i] > 0x7e {
					t.Errorf("the sentence is not ASCII: %q", r.Public)
				}
			}
			if len(cl.sessions) != 0 {
				t.Error("refused, but a session was made")
			}
		})
	}
}

// TestUnknownOutcomesAreRevoked: the error of a mint with an unknown outcome is neither a refusal
// nor busy. The broker revokes the lease by the saved handle, which invalidates every session
// that AWS may have made.
func TestUnknownOutcomesAreRevoked(t *testing.T) {
	all := func(f fault) []fault { return slices.Repeat([]fault{f}, 9) }
	for name, c := range map[string]struct {
		faults []fault
		made   bool
	}{
		"hang":                        {all(hang), false},
		"always cut":                  {all(cut), true},
		"500 and nothing done":        {all(broken), false},
		"500 but done":                {all(doneFails), true},
		"nonsense":                    {all(garbage), true},
		"endless":                     {all(endless), true},
		"no credentials":              {all(hollow), false},
		"a session of a day":          {all(lasting), true},
		"cut, then a limit":           {[]fault{cut, throttle, throttle, throttle}, true},
		"done with an error, refused": {[]fault{doneFails, forbid, forbid}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCloud(t)
			cl.fail("AssumeRole", c.faults...)
			cfg := cl.config()
			if name == "hang" {
				cfg.Timeout = "3s"
			}
			d, gs := driver(t, cfg), newGrants(cl.now)
			g := gs.next()
			cr, err := d.Mint(t.Context(), g)
			_, isBusy := errors.AsType[*provider.BusyError](err)
			if err == nil || errors.Is(err, provider.ErrRefused) || isBusy || !cr.Token.Empty() {
				t.Fatalf("%v", err)
			}
			cl.mu.Lock()
			made := len(cl.sessions) > 0
			cl.mu.Unlock()
			if made != c.made {
				t.Errorf("sessions were made: %v", made)
			}
			if cr.Handle.Empty() || gs.handleOf(g.LeaseID).Empty() {
				t.Fatal("there is no handle to revoke by")
			}
			if err := d.Revoke(t.Context(), gs.target(g, cr)); err != nil {
				t.Fatal(err)
			}
			for token := range cl.sessions {
				if cl.may(token, "s3:GetObject", "arn:aws:s3:::data/in/a.csv", nil) {
					t.Error("a session that nobody knows of is alive")
				}
			}
		})
	}
}

func TestOneCutAnswerIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{cut, broken, throttle, doneFails} {
		cl := newCloud(t)
		cl.fail("AssumeRole", f)
		d, gs := driver(t, cl.config()), newGrants(cl.now)
		g := gs.next()
		c, err := d.Mint(t.Context(), g)
		if err != nil || !cl.reads(t, c) {
			t.Fatalf("fault %d: %v", f, err)
		}
		if err := d.Revoke(t.Context(), gs.target(g, c)); err != nil {
			t.Fatal(err)
		}
		for token := range cl.sessions { // both of them, when two were made
			if cl.may(token, "s3:GetObject", "arn:aws:s3:::data/in/a.csv", nil) {
				t.Errorf("fault %d: a twin of the session is alive", f)
			}
		}
	}
}

func TestLimitOfTheRateIsBusy(t *testing.T) {
	t.Parallel()
	cl := newCloud(t)
	cl.fail("AssumeRole", slices.Repeat([]fault{throttle}, 9)...)
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	_, err := d.Mint(t.Context(), gs.next())
	if b, ok := errors.AsType[*provider.BusyError](err); !ok || b.After <= 0 {
		t.Errorf("%v", err)
	}
	if n := cl.count("AssumeRole"); n != 3 || len(cl.sessions) != 0 {
		t.Errorf("%d calls, %d sessions", n, len(cl.sessions))
	}
}

func TestCallerWhoLeavesIsNotWaitedFor(t *testing.T) {
	cl := newCloud(t)
	cl.fail("AssumeRole", slices.Repeat([]fault{hang}, 9)...)
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := d.Mint(ctx, gs.next()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 25*time.Second {
		t.Errorf("waited %s beyond the deadline", took)
	}
}
