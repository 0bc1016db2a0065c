package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// third is a broker with a third party, provider "up", whose stores can be attacked.
type third struct {
	*target
	up *brokertest.Upstream
}

type shape struct {
	party  brokertest.Party
	config brokertest.Config
	change func(*broker.Provider)
	idle   bool // the revocation queue does not run
}

func thirdParty(t *testing.T, s shape) *third {
	t.Helper()
	x := &third{}
	var env *brokertest.Env
	now := func() time.Time {
		if env == nil {
			return s.config.Start
		}
		return env.Clock.Now()
	}
	if s.config.Start.IsZero() {
		s.config.Start = time.Now().UTC().Truncate(time.Second)
	}
	x.up = brokertest.NewUpstream(t, now)
	s.party.URL = x.up.URL
	p := broker.Provider{Driver: s.party.Driver(), Kind: "test", Resource: "https://up.test/"}
	if s.change != nil {
		s.change(&p)
	}
	if s.config.Providers == nil {
		s.config.Providers = map[string]broker.Provider{}
	}
	s.config.Providers["up"] = p
	x.target = attacked(t, s.config)
	env = x.Env
	if !s.idle {
		x.janitor(t, x.Broker)
	}
	return x
}

func upSpec() broker.TaskSpec {
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("up:**:* orders:**:read")
	return spec
}

func scopesOf(text string) scopes.Set { return scopes.MustParseSet(text) }

func (x *third) leases(t *testing.T, taskID string) []broker.Lease {
	t.Helper()
	ls, err := x.db.Leases(t.Context(), broker.LeaseFilter{TaskID: taskID, Now: x.Clock.Now(), Page: broker.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

func (x *third) lease(t *testing.T, id string) broker.Lease {
	t.Helper()
	ls, err := x.db.Leases(t.Context(), broker.LeaseFilter{IDs: []string{id}, Now: x.Clock.Now()})
	if err != nil || len(ls) != 1 {
		t.Fatalf("lease %s: %d (%v)", id, len(ls), err)
	}
	return ls[0]
}

// settled waits until no revocation of a task is pending.
func (x *third) settled(t *testing.T, taskID string) {
	t.Helper()
	eventually(t, "every lease in a final state", func() bool {
		for _, l := range x.leases(t, taskID) {
			if l.State == broker.LeaseIntent || l.State == broker.LeaseLive || l.State == broker.LeaseRevoking {
				return false
			}
		}
		return true
	})
}

func (x *third) complete(t *testing.T, taskID string) broker.Completion {
	t.Helper()
	c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), taskID, revocation.MaxWait)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func kindsOf(t *testing.T, x *target, f broker.EntryFilter) []string {
	t.Helper()
	var out []string
	for _, e := range entries(t, x, f) {
		out = append(out, e.Kind)
	}
	return out
}

// I1, I3: the life of one credential, from its intent to its proof.
//
//ebb:invariant I3 The intent to mint a credential is durable in the database before the provider is called
func TestUpstreamFromIntentToProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		party brokertest.Party
		proof broker.Proof
	}{
		"confirmed":       {brokertest.Party{}, broker.ProofConfirmed},
		"probed":          {brokertest.Party{Probes: true}, broker.ProofProbed},
		"by handle":       {brokertest.Party{ByHandle: true}, broker.ProofConfirmed},
		"handle, probing": {brokertest.Party{ByHandle: true, Probes: true}, broker.ProofProbed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: c.party})
			x.store.on(audit.LeaseIntended, func() error {
				if n := x.up.Calls(brokertest.OpMint) + x.up.Calls(brokertest.OpReserve); n > 0 {
					t.Error("the provider was called before the intent was durable")
				}
				return nil
			})
			s := x.Open(t, upSpec())
			tok := minted(t, s, "up:a:read")
			if !x.up.Accepts(tok.Token.Reveal()) || tok.Type != "Bearer" || tok.Class != provider.ClassInstant || tok.ExpiresIn <= 0 {
				t.Errorf("answer %+v", tok)
			}
			if l := x.lease(t, tok.LeaseID); l.State != broker.LeaseLive || l.Upstream == nil {
				t.Errorf("lease %+v", l)
			}
			done := x.complete(t, s.Task.ID)
			if done.PendingRevocations != 0 || len(x.up.Alive()) != 0 || done.Revoked != 1 {
				t.Errorf("completed: pending %d, revoked %d, alive %v", done.PendingRevocations, done.Revoked, x.up.Alive())
			}
			l := done.Credentials[0]
			if l.State != broker.LeaseRevoked || l.Upstream.Proof != c.proof || l.Upstream.DeadAt.IsZero() || l.Upstream.AcceptedAt.IsZero() || l.Cause != broker.CauseCompleted {
				t.Errorf("lease %+v %+v", l, l.Upstream)
			}
			want := []string{audit.LeaseIntended, audit.LeaseIssued, audit.LeaseDead}
			if got := kindsOf(t, x.target, broker.EntryFilter{LeaseID: l.ID}); !slices.Equal(got, want) {
				t.Errorf("record %v, want %v", got, want)
			}
			if again := x.complete(t, s.Task.ID); !again.Already || again.PendingRevocations != 0 {
				t.Errorf("completed again %+v", again)
			}
		})
	}
}

// The ways in which a mint fails: the caller's error, and that no credential remains.
//
//ebb:invariant I3
func TestUpstreamMintFails(t *testing.T) {
	t.Parallel()
	for fault, want := range map[brokertest.Fault]struct {
		kind  broker.Kind
		proof broker.Proof
	}{
		brokertest.Error500:  {broker.Unavailable, broker.ProofConfirmed},
		brokertest.Garbage:   {broker.Unavailable, broker.ProofConfirmed},
		brokertest.DoneError: {broker.Unavailable, broker.ProofConfirmed},
		brokertest.DoneCut:   {broker.Unavailable, broker.ProofConfirmed},
		brokertest.Hang:      {broker.Unavailable, broker.ProofConfirmed},
		brokertest.DoneHang:  {broker.Unavailable, broker.ProofConfirmed},
		brokertest.Busy:      {broker.TooMany, broker.ProofNever},
		brokertest.Refuse:    {broker.Denied, broker.ProofNever},
	} {
		for _, byHandle := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s handle %v", fault, byHandle), func(t *testing.T) {
				t.Parallel()
				x := thirdParty(t, shape{party: brokertest.Party{ByHandle: byHandle, Timeout: hangs}})
				s := x.Open(t, upSpec())
				x.up.On(brokertest.OpMint, fault)
				_, err := s.Ask(t, "up:a:read")
				e := kindOf(t, err, want.kind)
				if strings.Contains(e.Public, "canary") {
					t.Errorf("the provider's words left: %s", e.Public)
				}
				if fault == brokertest.Busy && e.RetryAfter != 7*time.Second {
					t.Errorf("Retry-After %s", e.RetryAfter)
				}
				if fault == brokertest.Refuse && e.Public != "The upstream does not do this." {
					t.Errorf("said %q", e.Public)
				}
				x.settled(t, s.Task.ID)
				ls := x.leases(t, s.Task.ID)
				if len(ls) != 1 || ls[0].State != broker.LeaseRevoked || ls[0].Upstream.Proof != want.proof {
					t.Errorf("on the record: %+v %+v", ls[0], ls[0].Upstream)
				}
				if alive := x.up.Alive(); len(alive) != 0 {
					t.Errorf("alive at the provider: %v", alive)
				}
				if alive, err := x.Config.LiveStore.Status(t.Context(), s.Task.ID, ls[0].ID, x.Clock.Now()); alive || err != nil {
					t.Errorf("alive in the live store: %v %v", alive, err)
				}
				x.up.On(brokertest.OpMint, "")
				x.Clock.Add(8 * time.Second) // the pause that a busy provider asked for
				minted(t, s, "up:a:read")
			})
		}
	}
}

// A driver that returns more than was decided, nothing usable, or panics.
//
//ebb:invariant I3 A third-party credential is revoked if its revocation handle cannot be sealed
//ebb:invariant I3 A third-party credential that differs from the decision is revoked
//ebb:invariant I4 A third-party credential that expires later than its lease is revoked and not issued
func TestUpstreamMintAnswersNonsense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape func(*provider.Credential)
		kind  broker.Kind
	}{
		"too long":        {func(c *provider.Credential) { c.ExpiresAt = c.ExpiresAt.Add(time.Second) }, broker.Internal},
		"no token":        {func(c *provider.Credential) { c.Token = secret.Secret{} }, broker.Unavailable},
		"unknown type":    {func(c *provider.Credential) { c.Type = "MAC" }, broker.Unavailable},
		"over already":    {func(c *provider.Credential) { c.ExpiresAt = c.ExpiresAt.Add(-24 * time.Hour) }, broker.Unavailable},
		"dead already":    {func(c *provider.Credential) { c.DiesAt = c.DiesAt.Add(-24 * time.Hour) }, broker.Unavailable},
		"handle too long": {func(c *provider.Credential) { c.Handle = secret.New(strings.Repeat("x", 4<<20)) }, broker.Unavailable},
		"panic":           {func(*provider.Credential) { panic("canary") }, broker.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Shape: c.shape}})
			s := x.Open(t, upSpec())
			_, err := s.Ask(t, "up:a:read")
			kindOf(t, err, c.kind)
			x.settled(t, s.Task.ID)
			if alive := x.up.Alive(); len(alive) != 0 || x.up.Minted() != 1 {
				t.Errorf("minted %d, alive %v", x.up.Minted(), alive)
			}
		})
	}
}

// A store that fails at any step of a mint: 503, and no credential stays alive.
//
//ebb:invariant I1 A third-party credential is revoked when its outcome cannot be recorded in the database
//ebb:invariant I3 The intent to mint a credential is durable in the database before the provider is called
func TestUpstreamMintWithoutStores(t *testing.T) {
	t.Parallel()
	down := errors.New("dial tcp 10.0.0.9:5432: connection refused")
	for name, c := range map[string]struct {
		breakIt func(*third)
		minted  int
	}{
		"intent not durable": {func(x *third) { x.store.on(audit.LeaseIntended, once(down)) }, 0},
		"intent unknown":     {func(x *third) { x.store.onDone(audit.LeaseIntended, once(down)) }, 0},
		"live store refuses": {func(x *third) { x.liveStore.on("PutLease", once(down)) }, 0},
		"live store unknown": {func(x *third) { x.liveStore.onDone("PutLease", once(down)) }, 0},
		"outcome lost":       {func(x *third) { x.store.on(audit.LeaseIssued, once(down)) }, 1},
		"outcome unknown":    {func(x *third) { x.store.onDone(audit.LeaseIssued, once(down)) }, 1},
		"no last look":       {func(x *third) { x.liveStore.on("Status", once(down)) }, 1},
		"database gone after the mint": {func(x *third) {
			var once sync.Once
			x.up.Before(func(op, _ string) {
				if op == brokertest.OpMint {
					once.Do(func() { x.store.on("Append", func() error { return down }) })
				}
			})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{})
			s := x.Open(t, upSpec())
			c.breakIt(x)
			_, err := s.Ask(t, "up:a:read")
			kindOf(t, err, broker.Unavailable)
			if c.minted > 0 && name == "database gone after the mint" && len(x.up.Alive()) != 0 {
				t.Error("the database was down, and the credential was left alive")
			}
			x.store.on("Append", nil)
			x.liveStore.on("Status", nil)
			x.Clock.Add(time.Minute) // until the queue takes the minter for dead
			x.settled(t, s.Task.ID)
			if alive := x.up.Alive(); len(alive) != 0 || x.up.Minted() != c.minted {
				t.Errorf("minted %d, alive %v", x.up.Minted(), alive)
			}
			minted(t, s, "up:a:read")
		})
	}
}

// I2, I3: after a close that competes with a mint, no credential is alive at the provider.
//
//ebb:invariant I3
func TestUpstreamMintRacingTheEnd(t *testing.T) {
	t.Parallel()
	for _, byHandle := range []bool{false, true} {
		x := thirdParty(t, shape{party: brokertest.Party{ByHandle: byHandle}, config: brokertest.Config{RealTime: true}})
		for range 5 {
			s := x.Open(t, upSpec())
			var requests []broker.TokenRequest
			for range 12 {
				requests = append(requests, s.Request(t, "up:a:read"))
			}
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i, r := range requests {
				wg.Go(func() {
					<-start
					if i == 6 {
						if _, err := x.Broker.CompleteTask(context.Background(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait); err != nil {
							t.Error(err)
						}
						return
					}
					_, _ = x.Broker.Token(context.Background(), r)
				})
			}
			close(start)
			wg.Wait()
			c := x.complete(t, s.Task.ID)
			if alive := x.up.Alive(); c.PendingRevocations != 0 || len(alive) != 0 {
				t.Fatalf("pending %d, alive at the provider %v", c.PendingRevocations, alive)
			}
			x.settled(t, s.Task.ID)
		}
	}
}

// I2: a task that is closed while its provider mints gets no credential: it is revoked by its saved
// handle, and is not issued in between.
//
//ebb:invariant I2 A task that ends while its provider mints a credential does not receive the credential, which is revoked
func TestUpstreamEndedDuringTheMint(t *testing.T) {
	t.Parallel()
	for _, byHandle := range []bool{false, true} {
		x := thirdParty(t, shape{party: brokertest.Party{ByHandle: byHandle}})
		s := x.Open(t, upSpec())
		x.up.Before(func(op, _ string) {
			if op != brokertest.OpMint {
				return
			}
			if _, err := x.Broker.CompleteTask(context.Background(), x.who(brokertest.Runner), s.Task.ID, 0); err != nil {
				t.Error(err)
			}
		})
		_, err := s.Ask(t, "up:a:read")
		kindOf(t, err, broker.InvalidGrant)
		x.settled(t, s.Task.ID)
		if n, alive := x.up.Minted(), x.up.Alive(); n != 1 || len(alive) != 0 {
			t.Errorf("minted %d, alive %v", n, alive)
		}
	}
}

// A client that disconnects after the intent changes nothing.
func TestUpstreamClientHangsUp(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true}})
	s := x.Open(t, upSpec())
	ctx, hangUp := context.WithCancel(t.Context())
	x.up.Before(func(op, _ string) {
		if op == brokertest.OpReserve {
			hangUp()
		}
	})
	tok, err := x.Broker.Token(ctx, s.Request(t, "up:a:read"))
	if err != nil || !x.up.Accepts(tok.Token.Reveal()) {
		t.Fatalf("after a hang-up: %v", err)
	}
	if l := x.lease(t, tok.LeaseID); l.State != broker.LeaseLive {
		t.Errorf("lease %s", l.State)
	}
	if x.complete(t, s.Task.ID); len(x.up.Alive()) != 0 {
		t.Error("alive after the end")
	}
}

// The receipt of a task states the known facts of each credential, verifies without the broker, and
// holds no secret.
func TestUpstreamReceipt(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Probes: true}})
	s := x.Open(t, upSpec())
	minted(t, s, "orders:eu/1:read")
	_, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	kindOf(t, err, broker.Conflict)
	for range 3 {
		minted(t, s, "up:a:read")
	}
	x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
		if n == 0 {
			return brokertest.Error500
		}
		return ""
	})
	c := x.closed(t, s.Task.ID)
	set, err := jose.ParseJWKS(x.Broker.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipt.Verify(c.Receipt, set, x.Issuer, x.Clock.Now())
	if err != nil || r.Complete || r.Total != 3 || r.Live != 4 || r.Task != s.Task.ID || c.PendingRevocations != r.States["revoking"] {
		t.Fatalf("at once: %+v (%v)", r, err)
	}
	x.turn(t, time.Minute, "settled", func() bool {
		r, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Auditor), s.Task.ID)
		return err == nil && r.Complete
	})
	_, jws, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	if err != nil {
		t.Fatal(err)
	}
	r, err = receipt.Verify(jws, set, x.Issuer, x.Clock.Now())
	if err != nil || !r.Complete || r.Live != 4 || r.Rest != nil {
		t.Fatalf("at last: %+v (%v)", r, err)
	}
	failed := 0
	for _, cr := range r.Credentials {
		failed += cr.Attempts
		if cr.Proof != "probed" || cr.DeadAt.Before(cr.RevokedAt) || cr.ProbedAt.IsZero() || cr.Class != "instant" {
			t.Errorf("credential %+v", cr)
		}
	}
	if failed != 1 {
		t.Errorf("%d attempts failed", failed)
	}
	p, err := jose.Parse(jws, jose.Limits{Size: 1 << 20, Members: 10000})
	if err != nil || strings.Contains(string(p.Claims().Payload()), "canary") {
		t.Errorf("the receipt holds a secret (%v)", err)
	}
	_, _, err = x.Broker.Receipt(t.Context(), x.who(brokertest.Runner2), s.Task.ID)
	kindOf(t, err, broker.NotFound)
	own := x.Open(t, upSpec())
	minted(t, own, "orders:eu/1:read")
	if c := x.complete(t, own.Task.ID); c.Receipt != "" || c.PendingRevocations != 0 {
		t.Errorf("a task without third parties has a receipt: %q", c.Receipt)
	}
}
