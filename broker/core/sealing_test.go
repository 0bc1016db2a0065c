package core_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/provider"
	web "github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const answered = "at_canary_answered_0123456789"

// sealer is a broker with a provider whose responses make credentials.
type sealer struct {
	*third
	driver *web.Driver
}

func sealing(t *testing.T) *sealer {
	t.Helper()
	d, err := web.New("web", web.Config{
		Allow:        []string{"api.example.com/oauth/**:write", "api.example.com/v1/**:read"},
		SealResponse: []provider.SealRoute{{Method: "POST", Host: "api.example.com", Path: "/oauth/token", Members: []string{"access_token"}, Use: []string{"api.example.com/v1/**:read"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	x := &sealer{driver: d}
	x.third = &third{target: attacked(t, brokertest.Config{Egress: true, Policies: allowing(`@deliver("egress")`), Providers: map[string]broker.Provider{
		"web": {Driver: d, Kind: "http", Resource: "https://web.test/"},
	}})}
	x.janitor(t, x.Broker)
	return x
}

// parent returns a lease of a new task for logins; the task may hold the given number of live
// leases.
func (x *sealer) parent(t *testing.T, leases int) (*brokertest.Sandbox, string) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Caps.Leases = leases
	spec.Ceiling = scopes.MustParseSet("web:**:*")
	s := x.Open(t, spec)
	return s, minted(t, s, "web:api.example.com/oauth/**:write web:api.example.com/v1/**:read").LeaseID
}

// login returns the credential that one login of a task may make, as egress requests it.
func (x *sealer) login(t *testing.T, taskID, parentID string) *issuance.Sealing {
	t.Helper()
	c := broker.Caller{TaskID: taskID}
	use, err := x.Broker.Use(t.Context(), c, parentID)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", "https://api.example.com/oauth/token", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := x.Broker.Seal(t.Context(), c, use, *x.driver.Seals(r, use.Target))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func made() map[string]secret.Secret {
	return map[string]secret.Secret{"access_token": secret.New(answered)}
}

// TestUnreadAnswersAreNeverProvenDead: the expiry of a credential in an unread response is unknown.
// It does not count as expired when the assumed time is over, for any way of losing the response; a
// credential that was read ends by its own expiry.
//
//ebb:invariant I3 A credential that an unread upstream response may have created is never reported as confirmed revoked or expired
func TestUnreadAnswersAreNeverProvenDead(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for name, c := range map[string]struct {
		lost func(t *testing.T, x *sealer, s *issuance.Sealing)
		read bool
	}{
		"withheld": {func(_ *testing.T, _ *sealer, s *issuance.Sealing) { s.Close() }, false},
		"the process has died": {func(t *testing.T, x *sealer, s *issuance.Sealing) {
			x.Clock.Add(time.Minute)
			eventually(t, "pending_revocations", func() bool { return x.lease(t, s.Leases()[0]).State == broker.LeaseRevoking })
		}, false},
		"read when its intent was given up": {func(t *testing.T, x *sealer, s *issuance.Sealing) {
			x.Clock.Add(time.Minute)
			eventually(t, "pending_revocations", func() bool { return x.lease(t, s.Leases()[0]).State == broker.LeaseRevoking })
			if err := s.Keep(made(), month); err == nil {
				t.Error("it is kept")
			}
			es := entries(t, x.target, broker.EntryFilter{LeaseID: s.Leases()[0], Kind: audit.LeaseUndelivered})
			if len(es) != 1 || !strings.Contains(string(es[0].Data), `"dies_at":"`) || x.Broker.KeptHandles() != 0 {
				t.Errorf("on the record: %v", es)
			}
		}, false},
		"kept": {func(t *testing.T, _ *sealer, s *issuance.Sealing) {
			if err := s.Keep(made(), 2*time.Hour); err != nil {
				t.Error(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := sealing(t)
			s, parent := x.parent(t, 10)
			login := x.login(t, s.Task.ID, parent)
			id := login.Leases()[0]
			c.lost(t, x, login)
			x.closed(t, s.Task.ID)
			x.turn(t, 10*time.Minute, "settled", func() bool {
				l := x.lease(t, id)
				return l.State != broker.LeaseRevoking && l.State != broker.LeaseIntent
			})
			l := x.lease(t, id)
			if c.read {
				if l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofExpired || l.Upstream.DeadAt.Sub(l.IssuedAt) < 2*time.Hour {
					t.Errorf("%s %+v", l.State, l.Upstream)
				}
				return
			}
			if l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofNone || !l.Upstream.DeadAt.IsZero() || !strings.Contains(l.Upstream.LastError, "its expiry is unknown") {
				t.Errorf("%s %+v", l.State, l.Upstream)
			}
			for _, e := range entries(t, x.target, broker.EntryFilter{LeaseID: id}) {
				if e.Kind == audit.LeaseDead || e.Kind == audit.OrphanRevoked || strings.Contains(string(e.Data), "dead_at") {
					t.Errorf("on the record: %s %s", e.Kind, e.Data)
				}
			}
			if r, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil || r.Complete {
				t.Errorf("the receipt says that everything is known to be dead: %v", err)
			}
		})
	}
}

// TestPartsAreBounded: with any number of logins, also concurrent ones, only the newest parts of a
// lease live, and the task's limit is not used up.
//
//ebb:invariant I12 The number of live credentials that responses create under one lease is limited: the oldest ones are revoked
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	x := sealing(t)
	s, parent := x.parent(t, 100)
	var all []string
	for range 2 {
		var mu sync.Mutex
		var racing sync.WaitGroup
		for range 40 {
			login := x.login(t, s.Task.ID, parent)
			racing.Go(func() {
				if err := login.Keep(made(), 0); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, login.Leases()...)
			})
		}
		racing.Wait()
	}
	slices.Sort(all)
	for i, id := range all {
		l := x.lease(t, id)
		_, err := x.Broker.Use(t.Context(), broker.Caller{TaskID: s.Task.ID}, id)
		if lives := i >= len(all)-32; lives != (l.State == broker.LeaseLive) || lives != (err == nil) {
			t.Errorf("of %d, number %d is %s: %v", len(all), i, l.State, err)
		}
	}
	if got := x.lease(t, parent); got.State != broker.LeaseLive {
		t.Errorf("the parent lease is %s", got.State)
	}
}
