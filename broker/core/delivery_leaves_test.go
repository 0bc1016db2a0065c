package core_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// leaving requires approval when a credential is issued that could have stayed in ebb.
const leaving = `when { !context.could_stay }; @id("leaves") @why("leaves") @ask("approvers") permit (principal, action, resource)`

// TestCouldStay: policy and approvers see when a credential leaves ebb that could have stayed,
// because of the requested delivery or because of other scopes in the request.
//
//ebb:invariant I7 Approvers and the policy are informed when a credential is issued to the sandbox although it could have stayed in ebb
func TestCouldStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		egress          bool
		scope, delivery string
		asks            bool
	}{
		"stays":                      {true, "up:a:read", "", false},
		"asked for as a token":       {true, "up:a:read", "token", true},
		"beside what cannot stay":    {true, "up:a:read up:elsewhere:read", "", true},
		"what cannot stay":           {true, "up:elsewhere:read", "token", false},
		"no proxy, so nothing stays": {false, "up:a:read", "token", false},
		"ebb's own":                  {true, "orders:eu:read", "token", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{
				party: brokertest.Party{ByHandle: true},
				config: brokertest.Config{Egress: c.egress, Policies: map[string][]byte{
					"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource) ` + leaving + `;`),
				}},
				change: func(p *broker.Provider) { p.Driver = bearing{p.Driver} },
			})
			spec := upSpec()
			spec.Ceiling = scopesOf("up:**:* orders:**:*")
			s := x.Open(t, spec)
			tok, err := asked(t, s, c.scope, c.delivery)
			if !c.asks {
				if err != nil {
					t.Fatal(err)
				}
				if e := entries(t, x.target, broker.EntryFilter{LeaseID: tok.LeaseID, Kind: audit.LeaseIssued}); len(e) != 1 || strings.Contains(string(e[0].Data), "could_stay") {
					t.Errorf("in the trail: %+v", e)
				}
				return
			}
			p := kindOf(t, err, broker.Pending).Pending
			if _, f := sheetOf(t, x.Env, p.RequestID); !f.CouldStay || f.Delivery != policy.DeliveryToken {
				t.Errorf("people are shown %+v", f)
			}
			approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
			if tok, err = s.Poll(t, p.DeferralCode.Reveal()); err != nil || tok.Type != "Bearer" {
				t.Errorf("%s, %v", tok.Type, err)
			}
		})
	}
}

// TestDeliveryIsReplayed: decisions about delivery are replayed with it, so a draft that opens
// egress shows as wider, and one that closes it as narrower.
//
//ebb:invariant I7 The replay of a policy draft evaluates each recorded decision with the delivery of that time
func TestDeliveryIsReplayed(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{
		party: brokertest.Party{ByHandle: true},
		config: brokertest.Config{Egress: true, Policies: map[string][]byte{"p.cedar": []byte(
			`@id("stays") permit (principal, action == Ebb::Action::"read", resource) when { context.delivery == "egress" && context.tool == "git" };
			@id("leaves") permit (principal, action == Ebb::Action::"read", resource) when { context.could_stay && context.tool == "git" };`)}},
		change: func(p *broker.Provider) { p.Driver = bearing{p.Driver} },
	})
	s := x.Open(t, upSpec())
	for _, q := range []struct{ scope, delivery, tool string }{
		{"up:a:read", "", "git"}, {"up:a:read", "token", "git"}, // allowed
		{"up:a:write", "", "git"}, {"up:a:write", "token", "git"}, {"up:a:read", "", "curl"}, // denied
	} {
		r := s.Request(t, q.scope)
		r.Delivery, r.Tool = q.delivery, q.tool
		_, err := x.Broker.Token(t.Context(), r)
		if yes := q.tool == "git" && strings.HasSuffix(q.scope, "read"); yes != (err == nil) {
			t.Fatalf("%+v: %v", q, err)
		}
	}
	var export strings.Builder
	all := entries(t, x.target, broker.EntryFilter{TaskID: s.Task.ID})
	slices.SortFunc(all, func(a, b audit.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		export.Write(append(line, '\n'))
	}
	past, err := replay.Read(strings.NewReader(export.String()))
	if err != nil || len(past.Decisions) != 5 {
		t.Fatalf("%d decisions, %v", len(past.Decisions), err)
	}
	for i, want := range []string{"egress false git", "token true git", "egress false git", "token true git", "egress false curl"} {
		q := past.Decisions[i].Recorded.Query
		could := map[bool]string{true: "true", false: "false"}[q.CouldStay]
		if got := q.Delivery + " " + could + " " + q.Tool; got != want {
			t.Errorf("decision %d: %s, want %s", i, got, want)
		}
	}
}

// TestTryDelivery: a trial of a policy without a delivery gets the delivery that would apply.
func TestTryDelivery(t *testing.T) {
	t.Parallel()
	x := delivering(t, "", true)
	for name, c := range map[string]struct {
		scope, delivery, want string
		could                 bool
	}{
		"as ebb would":          {"up:a:read", "", policy.DeliveryEgress, false},
		"handed out":            {"up:a:read", "token", policy.DeliveryToken, true},
		"what cannot stay":      {"up:elsewhere:read", "", policy.DeliveryToken, false},
		"in part":               {"up:a:read up:elsewhere:read", "", policy.DeliveryToken, true},
		"of two providers":      {"up:a:read orders:eu:read", "", policy.DeliveryToken, false},
		"of one that is not":    {"nobody:a:read", "", policy.DeliveryToken, false},
		"stays, as it was said": {"up:elsewhere:read", "egress", policy.DeliveryEgress, false},
	} {
		out, err := x.Broker.TryPolicies(t.Context(), x.who(brokertest.Operator), policy.Query{
			Sandbox: policy.Sandbox{ID: "sbx_x", Attestor: "enroll"}, Task: policy.Task{ID: "tsk_x"}, Scopes: scopesOf(c.scope), TTL: time.Minute,
			Binding: policy.BindingDPoP, Delivery: c.delivery,
		}, "")
		if err != nil || out.Query.Delivery != c.want || out.Query.CouldStay != c.could {
			t.Errorf("%s: %s %v, %v", name, out.Query.Delivery, out.Query.CouldStay, err)
		}
	}
}
