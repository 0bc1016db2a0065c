package core_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
)

const why = "nobody else is awake and orders stand still"

// glassHouse returns a broker with named people: gil by id, who is an operator; ann and bob by
// their group.
func glassHouse(t *testing.T) *brokertest.Env {
	t.Helper()
	op := []broker.Role{broker.RoleOperator}
	return brokertest.New(t, brokertest.Config{
		BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, People: []string{"gil", "prog", "aud2"}, Decisions: 2, PerDay: 2}, Limits: broker.Limits{HighRiskQuorum: 2},
		People: []broker.Principal{{ID: "gil", Roles: op, Also: []string{"gil@example.com"}}, {ID: "prog", Roles: append(op, broker.RoleRunner)}, {ID: "aud2", Roles: []broker.Role{broker.RoleAuditor}}, {ID: "norole"}},
	})
}

// plan returns the token of a break-glass plan; a second passes before its proof.
func plan(t *testing.T, x *brokertest.Env, who string) string {
	t.Helper()
	_, token, err := x.Broker.PlanBreakGlass(x.Principals[who], "INC-7", why)
	if err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(time.Second)
	return token
}

// signedIn returns the id of a new session of a person.
func signedIn(t *testing.T, x *brokertest.Env, who string) string {
	t.Helper()
	now := x.Clock.Now()
	s := people.Session{ID: rand.Text(), Act: "act", Person: who, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(8 * time.Hour)}
	if err := x.Store.AddSession(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// anew returns the proof that a person has just signed in again at their identity provider for this
// plan.
func anew(t *testing.T, x *brokertest.Env, who, token string) approval.BreakGlassProof {
	t.Helper()
	p, _ := x.Broker.ReadBreakGlassPlan(x.Principals[who], token) // of an invalid plan, nothing
	now := x.Clock.Now()
	return approval.BreakGlassProof{AuthAt: now, ACR: "phr", For: p.ID, Session: signedIn(t, x, who), SessionBegan: now, SessionEnds: now.Add(8 * time.Hour)}
}

func begin(t *testing.T, x *brokertest.Env, who string) (broker.BreakGlass, error) {
	t.Helper()
	_, token, err := x.Broker.PlanBreakGlass(x.Principals[who], "INC-7", why)
	if err != nil {
		return broker.BreakGlass{}, err
	}
	x.Clock.Add(time.Second)
	return x.Broker.BeginBreakGlass(t.Context(), x.Principals[who], token, anew(t, x, who, token))
}

func begun(t *testing.T, x *brokertest.Env, who string) broker.BreakGlass {
	t.Helper()
	g, err := begin(t, x, who)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func kind(err error) broker.Kind {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Kind
}
