package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
)

// TestApprovalDemands tests every path to an approval at every risk, with every set of proofs that
// a surface can bring: none (API), a typed name (API), presence (console), and both (console).
//
//ebb:invariant I7 Every path to an approval requires the proofs that the risk of the request demands
//ebb:invariant I11 The audit log entry of an approval names the proofs that the approver gave, such as the typed target and the presence check
func TestApprovalDemands(t *testing.T) {
	t.Parallel()
	target, presence := broker.MissingTarget, broker.MissingPresence
	strict := []string{target, presence}
	type cell struct {
		level, from risk.Level // from: Config.PresenceFrom
		path        string
		want        []string // missing without any proof
	}
	var cells []cell
	for _, path := range []string{"as asked", "shorter", "part", "alone"} {
		cells = append(cells,
			cell{risk.Low, "", path, nil}, cell{risk.Medium, "", path, nil}, cell{risk.High, "", path, strict},
			cell{risk.Low, risk.Medium, path, nil}, cell{risk.Medium, risk.Medium, path, []string{presence}}, cell{risk.High, risk.Medium, path, strict},
			cell{risk.Low, risk.Low, path, []string{presence}}, cell{risk.High, "odd", path, strict})
	}
	for _, c := range cells {
		if c.path == "alone" {
			c.want = strict // at every risk
		}
		t.Run(fmt.Sprintf("%s, %s, from %q", c.path, c.level, c.from), func(t *testing.T) {
			t.Parallel()
			b, r, v := demanded(t, c.level, c.from, c.path)
			who := b.Principals["gil"]
			for _, with := range [][]string{nil, {target}, {presence}, {target, presence}} {
				v.Target, v.Present = r.Target()+"x", slices.Contains(with, presence)
				v.Presence = broker.Presence{By: approval.PresenceByPasskey, ProvedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
				if slices.Contains(with, target) {
					v.Target = r.Target()
				}
				want := slices.DeleteFunc(slices.Clone(c.want), func(m string) bool { return slices.Contains(with, m) })
				if got := b.Broker.MissingProofs(r, v); !slices.Equal(got, want) {
					t.Fatalf("with %q: missing %q, want %q", with, got, want)
				}
				if len(want) == 0 && len(with) < 2 {
					continue // it would be approved
				}
				out, err := b.Broker.Decide(t.Context(), who, r.ID, v)
				if len(want) == 0 && (err != nil || out.State != broker.RequestApproved) {
					t.Fatalf("with %q: %s %v", with, out.State, err)
				}
				if len(want) == 0 {
					if e := b.voted(t, r.ID); !strings.Contains(string(e.Data), `"proofs":{"presence":{"by":"passkey","proved_at":"2026-01-02T03:04:05Z"},"target":"`+r.Target()+`"}`) {
						t.Errorf("the entry of the approval lacks its proofs: %s", e.Data)
					}
				}
				if len(want) > 0 {
					if e := kindOf(t, err, broker.StepUpRequired); !slices.Equal(e.Missing, want) {
						t.Errorf("with %q: missing %q, want %q", with, e.Missing, want)
					}
				}
			}
		})
	}
}

type demandedEnv struct {
	*brokertest.Env
	sandbox *brokertest.Sandbox
}

// voted returns the entry of the only vote on a request.
func (e demandedEnv) voted(t *testing.T, requestID string) audit.Entry {
	t.Helper()
	var out []audit.Entry
	for entry, err := range e.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.RequestVoted, RequestID: requestID}) {
		if out = append(out, entry); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) != 1 {
		t.Fatalf("%d entries of the answer", len(out))
	}
	return out[0]
}

// demanded returns a broker with a pending request of this risk, and an approval of it by this
// path.
func demanded(t *testing.T, level, from risk.Level, path string) (demandedEnv, broker.Request, broker.Verdict) {
	t.Helper()
	b := brokertest.New(t, brokertest.Config{
		Policies:   map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @max_ttl("15m") permit (principal, action, resource);`)},
		Words:      provider.Words{Reversible: []string{"note"}},
		BreakGlass: approval.BreakGlassConfig{People: []string{"gil"}, Decisions: 2, PerDay: 2},
		People:     []broker.Principal{{ID: "gil", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}},
	})
	cfg := b.Config
	cfg.PresenceFrom, cfg.Registerer = from, nil
	var err error
	if b.Broker, err = core.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	action := map[risk.Level]string{risk.Low: "read", risk.Medium: "note", risk.High: "write"}[level]
	s := b.Open(t, brokertest.Spec())
	r := waits(t, b, s, fmt.Sprintf("orders:eu/1:%[1]s orders:eu/2:%[1]s", action))
	if r.Level() != level {
		t.Fatalf("the risk of %s is %s, want %s", r.Scopes, r.Level(), level)
	}
	v := broker.Verdict{Approve: true, Digest: r.Digest}
	switch path {
	case "shorter":
		v.TTL = r.TTL - 1
	case "part":
		v.Scopes = scopes.MustParseSet("orders:eu/1:" + action)
	case "alone":
		v.BreakGlass = begun(t, b, "gil").ID
	}
	return demandedEnv{b, s}, r, v
}

// TestBatchApprovalDemands: a batch decision brings the proofs that each of its requests
// demands.
//
//ebb:invariant I7 A batch decision also requires the proofs that the risk of each of its requests demands
func TestBatchApprovalDemands(t *testing.T) {
	t.Parallel()
	for from, want := range map[risk.Level]broker.Kind{"": "", risk.Medium: broker.StepUpRequired} {
		b, first, _ := demanded(t, risk.Medium, from, "as asked")
		if _, err := b.sandbox.AskDeferred(t, "orders:eu/3:note orders:eu/4:note"); kind(err) != broker.Pending {
			t.Fatal(err)
		}
		rs, err := b.Broker.Requests(t.Context(), b.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: first.TaskID})
		if err != nil || len(rs) != 2 {
			t.Fatal(len(rs), err)
		}
		items := []approval.Shown{{ID: rs[0].ID, Digest: rs[0].Digest}, {ID: rs[1].ID, Digest: rs[1].Digest}}
		out, err := b.Broker.DecideBatch(t.Context(), b.Principals["gil"], items, broker.Verdict{Approve: true})
		if err != nil || kind(out[0].Err) != want || kind(out[1].Err) != want {
			t.Errorf("from %q: %v, %v", from, out, err)
		}
		if want == "" {
			continue
		}
		if out, err := b.Broker.DecideBatch(t.Context(), b.Principals["gil"], items, broker.Verdict{Approve: true, Present: true}); err != nil || out[0].Err != nil || out[1].Err != nil {
			t.Errorf("from %q, at the console: %v, %v", from, out, err)
		}
	}
}

// TestUnreadRiskIsHigh: a request whose facts name no known risk demands the proofs of high risk.
//
//ebb:invariant I7 A request without a known risk is treated as high risk
func TestUnreadRiskIsHigh(t *testing.T) {
	t.Parallel()
	b, r, v := demanded(t, risk.Low, "", "as asked")
	for _, facts := range []string{"", "{", "{}", `{"risk":{}}`, `{"risk":{"level":"odd"}}`} {
		r.Facts = []byte(facts)
		if got := b.Broker.MissingProofs(r, v); len(got) != 2 {
			t.Errorf("facts %q: missing %q", facts, got)
		}
	}
}
