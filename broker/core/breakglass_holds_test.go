package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// endedBy returns the cause of a period's end in the audit log.
func endedBy(t *testing.T, x *brokertest.Env, id string) (said string) {
	t.Helper()
	for e, err := range x.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.BreakGlassEnded}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Data), id) {
			said += string(e.Data)
		}
	}
	return said
}

// restarted returns the same ebb in another process, with a changed configuration.
func restarted(t *testing.T, x *brokertest.Env, change func(*core.Config)) *core.Broker {
	t.Helper()
	cfg := x.Config
	cfg.Registerer = nil
	change(&cfg)
	b, err := core.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBreakGlassClockBack: a clock that goes back, during a run or between two runs, extends no
// period: an ended period does not reopen.
//
//ebb:invariant I4 A clock that is set back does not extend a break-glass period
//ebb:invariant I4 A clock that was set back while ebb was not running does not extend a break-glass period
func TestBreakGlassClockBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*testing.T, *brokertest.Env) *core.Broker{
		"here": func(_ *testing.T, x *brokertest.Env) *core.Broker {
			x.Clock.Add(-8 * time.Minute)
			return x.Broker
		},
		"between two runs": func(t *testing.T, x *brokertest.Env) *core.Broker {
			x.Clock.Add(-8 * time.Minute)
			return restarted(t, x, func(*core.Config) {})
		},
		"before it began": func(t *testing.T, x *brokertest.Env) *core.Broker {
			x.Clock.Add(-time.Hour)
			return restarted(t, x, func(*core.Config) {})
		},
	} {
		x := glassHouse(t)
		gil := x.Principals["gil"]
		g := begun(t, x, "gil")
		x.Clock.Add(10 * time.Minute)
		if err := x.Broker.SignedIn(t.Context(), gil, "link", x.Clock.Now()); err != nil { // the audit log continues
			t.Fatal(err)
		}
		b := back(t, x)
		if _, open, err := b.OpenBreakGlass(t.Context(), gil); open || err != nil {
			t.Errorf("%s: open %v, %v", name, open, err)
		}
		x.Clock.Add(time.Hour)
		x.Clock.Add(-51 * time.Minute)
		if _, open, err := b.OpenBreakGlass(t.Context(), gil); open || err != nil || !strings.Contains(endedBy(t, x, g.ID), `"clock"`) {
			t.Errorf("%s: open %v again, %v, %s", name, open, err, endedBy(t, x, g.ID))
		}
	}
}

// TestBreakGlassOfAGroup: a person named by a group of an identity provider counts as named while
// that group is configured, until a sign-in without that group.
//
//ebb:invariant I4 No credential is minted under a break-glass approval after the break-glass period has ended
//ebb:invariant I6 A break-glass period ends when the configuration no longer names its person for break-glass
//ebb:invariant I6 A break-glass period ends when its person signs in without the group that entitled them to it
func TestBreakGlassOfAGroup(t *testing.T) {
	t.Parallel()
	uma := broker.Principal{ID: "sso:7", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers", "web"}}
	for name, lose := range map[string]func(*testing.T, *brokertest.Env) *core.Broker{
		"the group is not named any more": func(t *testing.T, x *brokertest.Env) *core.Broker {
			return restarted(t, x, func(c *core.Config) { c.BreakGlass.Groups = []string{"others"} })
		},
		"they sign in without it": func(t *testing.T, x *brokertest.Env) *core.Broker {
			without := uma
			without.Groups = []string{"web"}
			if err := x.Broker.SignedIn(t.Context(), without, "oidc", x.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			return x.Broker
		},
		"": func(t *testing.T, x *brokertest.Env) *core.Broker {
			if err := x.Broker.SignedIn(t.Context(), uma, "oidc", x.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			return restarted(t, x, func(*core.Config) {})
		},
	} {
		x := glassHouse(t)
		x.Principals[uma.ID] = uma
		s := x.Open(t, brokertest.Spec())
		r := waits(t, x, s, "orders:eu/**:write")
		g := begun(t, x, uma.ID)
		if _, err := x.Broker.Decide(t.Context(), uma, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID}); err != nil {
			t.Fatal(err)
		}
		b := lose(t, x)
		x.Broker = b
		if _, open, err := b.OpenBreakGlass(t.Context(), uma); err != nil || open && name != "" && !strings.Contains(name, "named") {
			t.Errorf("%s: open %v, %v", name, open, err)
		}
		want := map[bool]broker.Kind{false: broker.AskRequired}[name == ""]
		if _, err := s.Ask(t, "orders:eu/1:write"); kind(err) != want {
			t.Errorf("%s: the request approved alone: %v", name, err)
		}
		if _, err := begin(t, x, "gil"); err != nil { // the next call finds the expired period
			t.Fatal(err)
		}
		if said := endedBy(t, x, g.ID); strings.Contains(said, `"role"`) != (name != "") {
			t.Errorf("%s: the record says %q", name, said)
		}
	}
}

// TestBreakGlassOneName: a person cannot review their own period, or open two, under another of
// their names.
//
//ebb:invariant I7 A person cannot review their own break-glass period under any of their names
//ebb:invariant I10 A person can have only one open break-glass period, whichever of their names they use
func TestBreakGlassOneName(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	roles := []broker.Role{broker.RoleAuditor}
	x.Principals["sso:1"] = broker.Principal{ID: "sso:1", Also: []string{"GIL@example.com"}, Roles: roles, Groups: []string{"approvers"}}
	x.Principals["sso:gil"] = broker.Principal{ID: "sso:2", Also: []string{"sub-2", "gil2@example.com"}, Roles: roles}
	g := begun(t, x, "gil")
	if _, err := begin(t, x, "sso:1"); kind(err) != broker.Conflict {
		t.Errorf("a second one, by another name: %v", err)
	}
	if _, err := x.Broker.EndBreakGlass(t.Context(), x.Principals["gil"], g.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Broker.ReviewBreakGlass(t.Context(), x.Principals["sso:1"], g.ID, "fine"); kind(err) != broker.Forbidden {
		t.Errorf("their own, by another name: %v", err)
	}
	if _, err := x.Broker.ReviewBreakGlass(t.Context(), x.Principals["sso:gil"], g.ID, "fine"); err != nil {
		t.Errorf("a person with a similar name: %v", err)
	}
}

// TestBreakGlassPlanFits: a plan of any content fits into the browser's cookie until it is proved.
//
//ebb:invariant I12 A break-glass plan is refused if it does not fit into a browser cookie
func TestBreakGlassPlanFits(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	for _, letter := range []string{"a", "<", "&", `"`, `\`, "\u00fc", "\U0001f30a"} {
		_, token, err := x.Broker.PlanBreakGlass(x.Principals["gil"], strings.Repeat("I", 64), strings.Repeat(letter, 500))
		if err != nil || len(token) > 3800 {
			t.Errorf("500 times %q are %d bytes: %v", letter, len(token), err)
		}
		if p, err := x.Broker.ReadBreakGlassPlan(x.Principals["gil"], token); err != nil || p.Reason != strings.Repeat(letter, 500) {
			t.Errorf("%q comes back otherwise: %v", letter, err)
		}
	}
	long := x.Principals["gil"]
	long.ID, long.Groups = "sso:"+strings.Repeat("x", 1500), []string{"approvers"}
	if _, _, err := x.Broker.PlanBreakGlass(long, "INC-7", strings.Repeat("\U0001f30a", 500)); kind(err) != broker.Invalid {
		t.Errorf("more than a browser keeps: %v", err)
	}
}
