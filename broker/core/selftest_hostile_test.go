package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/scopes"
)

// odd is a driver with behaviour set by the test; otherwise it calls the wrapped driver.
type odd struct {
	provider.Driver
	look   func(context.Context) []provider.Finding
	check  func(scopes.Set) error
	mint   func(context.Context, provider.Grant) (provider.Credential, error)
	probe  func(context.Context, provider.Target) (bool, error)
	sample func() (string, error)
	traits func(provider.Traits) provider.Traits

	describe func(scopes.Scope) (provider.Effect, error)
}

func (d odd) Traits() provider.Traits {
	if d.traits == nil {
		return d.Driver.Traits()
	}
	return d.traits(d.Driver.Traits())
}

func (d odd) CheckSetup(ctx context.Context) []provider.Finding {
	if d.look == nil {
		return nil
	}
	return d.look(ctx)
}

func (d odd) Check(s scopes.Set) error {
	if d.check == nil {
		return d.Driver.Check(s)
	}
	return d.check(s)
}

func (d odd) Describe(s scopes.Scope) (provider.Effect, error) {
	if d.describe == nil {
		return d.Driver.(provider.Describer).Describe(s)
	}
	return d.describe(s)
}

func (d odd) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	if d.mint == nil {
		return d.Driver.Mint(ctx, g)
	}
	return d.mint(ctx, g)
}

func (d odd) Probe(ctx context.Context, t provider.Target) (bool, error) {
	if d.probe == nil {
		return d.Driver.(provider.Prober).Probe(ctx, t)
	}
	return d.probe(ctx, t)
}

func (d odd) SampleKey() (string, error) {
	if d.sample == nil {
		return "", nil
	}
	return d.sample()
}

// tried makes a broker whose provider is d around a driver that works.
func tried(t *testing.T, party brokertest.Party, d *odd) *third {
	t.Helper()
	return thirdParty(t, shape{party: party, change: func(p *broker.Provider) {
		d.Driver = p.Driver
		p.Driver = d
	}})
}

func (x *third) try(t *testing.T, set string) provideradmin.SelfTest {
	t.Helper()
	tr, err := x.Broker.SelfTestProvider(t.Context(), x.who(brokertest.Operator), "up", provideradmin.SelfTestSpec{Scopes: scopesOf(set)})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const canary = "canary-in-a-panic"

// I3: a panic anywhere in a driver is a finding, and leaves nothing behind.
func TestSelfTestOfADriverThatPanics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*odd)
		want   string
	}{
		"looking":  {func(d *odd) { d.look = func(context.Context) []provider.Finding { panic(canary) } }, "setup bad, check ok, mint ok, alive ok, revoke ok"},
		"checking": {func(d *odd) { d.check = func(scopes.Set) error { panic(canary) } }, "setup ok, check bad"},
		"sampling": {func(d *odd) { d.sample = func() (string, error) { panic(canary) } }, "setup ok, check ok, mint bad"},
		"minting": {func(d *odd) {
			d.mint = func(ctx context.Context, g provider.Grant) (provider.Credential, error) {
				_, _ = d.Driver.Mint(ctx, g)
				panic(canary)
			}
		}, "setup ok, check ok, mint bad, revoke ok"},
		"probing": {func(d *odd) {
			var again atomic.Bool
			d.probe = func(ctx context.Context, t provider.Target) (bool, error) {
				if !again.Swap(true) {
					panic(canary)
				}
				return d.Driver.(provider.Prober).Probe(ctx, t)
			}
		}, "setup ok, check ok, mint ok, alive bad, revoke ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &odd{}
			c.change(d)
			x := tried(t, instant(), d)
			tr := x.try(t, "up:a/b:read")
			if tr.OK || !strings.HasPrefix(steps(tr), c.want) || strings.Contains(fmt.Sprint(tr), canary) {
				t.Errorf("%s: %+v", steps(tr), tr)
			}
			if len(x.up.Alive()) > 0 {
				t.Errorf("left alive: %v", x.up.Alive())
			}
		})
	}
}

// A hanging self-test is abandoned by its caller, and can be run again.
func TestSelfTestOfADriverThatHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hangs.Store(true)
	ctx, hangUp := context.WithCancel(t.Context())
	x := tried(t, instant(), &odd{look: func(ctx context.Context) []provider.Finding {
		if hangs.Load() {
			hangUp()
			<-ctx.Done()
		}
		return nil
	}})
	_, err := x.Broker.SelfTestProvider(ctx, x.who(brokertest.Operator), "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a:read")})
	kindOf(t, err, broker.Unavailable)
	if x.up.Minted() != 0 {
		t.Error("minted after the caller left")
	}
	hangs.Store(false)
	if tr := x.try(t, "up:a:read"); !tr.OK {
		t.Errorf("%+v", tr)
	}
}

// settledLater is settled for a machine that is too slow for an attempt's timeout: the attempt is made again at a time
// that the clock has not reached.
func (x *third) settledLater(t *testing.T, taskID string) {
	t.Helper()
	eventually(t, "every lease in a final state", func() bool {
		settled := true
		for _, l := range x.leases(t, taskID) {
			if l.State.Final() {
				continue
			}
			settled = false
			if wait := l.Upstream.NextAt.Sub(x.Clock.Now()); wait > 0 {
				x.Clock.Add(wait)
			}
		}
		return settled
	})
}

// Responses that are truncated or never come: a credential that may exist is revoked.
func TestSelfTestOfAProviderThatAnswersBadly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op   string
		f    brokertest.Fault
		want string
	}{
		{brokertest.OpMint, brokertest.DoneCut, "mint bad, revoke ok"},
		{brokertest.OpMint, brokertest.DoneError, "mint bad, revoke ok"},
		{brokertest.OpMint, brokertest.Garbage, "mint bad, revoke ok"},
		{brokertest.OpMint, brokertest.Hang, "mint bad, revoke ok"},
		{brokertest.OpProbe, brokertest.Hang, "mint ok, alive bad, revoke ok"},
		{brokertest.OpRevoke, brokertest.Hang, "mint ok, alive ok, revoke bad"},
	} {
		t.Run(c.op+" "+string(c.f), func(t *testing.T) {
			t.Parallel()
			party := instant()
			party.Timeout = hangs
			x := thirdParty(t, shape{party: party})
			x.up.OnCall(c.op, func(n int) brokertest.Fault {
				if n > 0 && c.op == brokertest.OpProbe {
					return ""
				}
				return c.f
			})
			tr := x.try(t, "up:a:read")
			if tr.OK || !strings.HasPrefix(steps(tr), "setup ok, check ok, "+c.want) || strings.Contains(fmt.Sprint(tr), "canary") {
				t.Errorf("%s: %+v", steps(tr), tr)
			}
			x.up.On(c.op, "")
			x.Clock.Add(40 * time.Second) // past every back-off
			x.settledLater(t, tr.TaskID)
			if alive := x.up.Alive(); len(alive) != 0 {
				t.Errorf("orphans %v", alive)
			}
		})
	}
}

// A refusal by the provider is reported without the provider's text.
func TestSelfTestThatIsRefused(t *testing.T) {
	t.Parallel()
	x := tried(t, instant(), &odd{check: func(s scopes.Set) error {
		if strings.Contains(s.String(), "odd") {
			return fmt.Errorf("%w: %s", provider.ErrUnsupported, canary)
		}
		return nil
	}})
	if tr := x.try(t, "up:odd:read"); tr.OK || steps(tr) != "setup ok, check bad" || strings.Contains(fmt.Sprint(tr), canary) {
		t.Errorf("%+v", tr)
	}
	x.up.On(brokertest.OpMint, brokertest.Refuse)
	tr := x.try(t, "up:a:read")
	if tr.OK || steps(tr) != "setup ok, check ok, mint bad" {
		t.Errorf("%+v", tr)
	}
	x.settled(t, tr.TaskID)
	if x.up.Minted() != 0 {
		t.Error("minted")
	}
}

// I10: one self-test of a provider at a time.
func TestSelfTestsTakeTurns(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	x := tried(t, instant(), &odd{look: func(context.Context) []provider.Finding {
		close(inside)
		<-leave
		return nil
	}})
	operator := x.who(brokertest.Operator)
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{}); err != nil {
			t.Error(err)
		}
	})
	<-inside
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			_, err := x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{})
			if e := broker.AsError(err); e.Kind != broker.TooMany || e.RetryAfter <= 0 {
				t.Errorf("a second one: %v", err)
			}
		})
	}
	others.Wait()
	close(leave)
	first.Wait()
}

// The result names the proof that the revocability class allows, and no stronger one.
func TestSelfTestSaysWhatTheEndIsWorth(t *testing.T) {
	t.Parallel()
	eventual := provider.Revocability{Class: provider.ClassEventual, Bound: time.Hour}
	for name, c := range map[string]struct {
		class provider.Revocability
		want  string
	}{
		"eventual": {eventual, "takes effect within 1h0m0s"},
		"ttl-only": {provider.Revocability{Class: provider.ClassTTLOnly}, "cannot be revoked: it expires at "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Revocability: c.class}}})
			tr := x.try(t, "up:a:read")
			last := tr.Steps[len(tr.Steps)-1]
			if !tr.OK || last.Step != "revoke" || !last.Notice || !strings.Contains(last.What, c.want) || last.Remedy == "" {
				t.Errorf("%+v", tr)
			}
		})
	}
}

// Findings keep their order, their severity and their remedy; a key to certify is the driver's own;
// a probe without a result yet is no problem.
func TestSelfTestFindings(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	d := &odd{
		look: func(context.Context) []provider.Finding {
			return []provider.Finding{{What: "One.", Remedy: "a"}, {Fatal: true, What: "Two.", Remedy: "b"}}
		},
		sample: func() (string, error) { return "a sample", nil },
		probe:  func(context.Context, provider.Target) (bool, error) { return true, errors.ErrUnsupported },
	}
	d.mint = func(ctx context.Context, g provider.Grant) (provider.Credential, error) {
		got.Store(fmt.Sprint(g.PublicKey, " ", g.ExpiresAt.Sub(g.IssuedAt)))
		return d.Driver.Mint(ctx, g)
	}
	x := tried(t, instant(), d)
	tr, err := x.Broker.SelfTestProvider(t.Context(), x.who(brokertest.Operator), "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a:read"), TTL: 90})
	if err != nil || tr.OK || !strings.HasPrefix(steps(tr), "setup ok, setup bad, check ok, mint ok, alive ok") {
		t.Fatalf("%v %+v", err, tr)
	}
	if one, two := tr.Steps[0], tr.Steps[1]; !one.Notice || one.Remedy != "a" || two.Notice || two.Remedy != "b" {
		t.Errorf("%+v", tr.Steps)
	}
	if got.Load() != "a sample 1m30s" {
		t.Errorf("the driver was asked for %v", got.Load())
	}
}
