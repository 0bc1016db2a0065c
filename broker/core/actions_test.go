package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestActions: people who may decide a request, and people who read the whole audit log, see the
// newest actions in its task. They see no action of another task, no action for a request that
// they may not see, and no answer of another person.
//
//ebb:invariant I9 Actions of a sandbox are shown only to readers of its agent's text, without those for requests hidden from the reader
func TestActions(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{
		People: []broker.Principal{{ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}},
		Policies: map[string][]byte{"p.cedar": []byte(`
@id("own") @ask("approvers") @quorum("2") permit (principal, action, resource in Ebb::Resource::"orders:eu/1");
@id("other") @ask("others") permit (principal, action, resource in Ebb::Resource::"orders:eu/2");
@id("free") permit (principal, action, resource in Ebb::Resource::"orders:eu/3");`)},
	})
	s := x.Open(t, brokertest.Spec())
	mine, others := pending(t, s, "orders:eu/1:write"), pending(t, s, "orders:eu/2:write")
	if _, err := s.Ask(t, "orders:eu/2:delete"); err == nil { // not deferred: no request has its id
		t.Fatal("granted without an approval")
	}
	elsewhere := x.Open(t, brokertest.Spec())
	if _, err := elsewhere.Ask(t, "orders:eu/3:delete"); err != nil {
		t.Fatal(err)
	}
	r := requestOf(t, x, mine.RequestID)
	if _, err := x.Broker.Decide(t.Context(), x.Principals[brokertest.Second], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	said := func(who, id string) string {
		t.Helper()
		as, err := x.Broker.Actions(t.Context(), x.Principals[who], id)
		if err != nil {
			t.Fatal(err)
		}
		return texts(as)
	}
	for _, who := range []string{brokertest.Approver, brokertest.Auditor, brokertest.Operator} {
		got := said(who, mine.RequestID)
		if !strings.Contains(got, "enrolled with enroll") || strings.Contains(got, "eu/1") || strings.Contains(got, "eu/3") || strings.Contains(got, brokertest.Second) {
			t.Errorf("%s sees %s", who, got)
		}
		if reads := who != brokertest.Approver; strings.Contains(got, "eu/2") != reads {
			t.Errorf("%s sees the request of another group: %t, want %t: %s", who, !reads, reads, got)
		}
	}
	if got := said("out", others.RequestID); !strings.Contains(got, "enrolled") || strings.Contains(got, "eu/1") {
		t.Errorf("the approver of the other group sees %s", got)
	}
	if got := said(brokertest.Viewer, mine.RequestID); got != "" {
		t.Errorf("a viewer sees %s", got)
	}
	for who, id := range map[string]string{"out": mine.RequestID, brokertest.Approver: others.RequestID, brokertest.Runner2: mine.RequestID, brokertest.Server: mine.RequestID} {
		if as, err := x.Broker.Actions(t.Context(), x.Principals[who], id); err == nil || len(as) > 0 {
			t.Errorf("%s: %v, %v", who, as, err)
		}
	}
	for _, id := range []string{"", "req_1", s.Task.ID, mine.RequestID + "0"} {
		if as, err := x.Broker.Actions(t.Context(), x.Principals[brokertest.Auditor], id); broker.AsError(err).Kind != broker.NotFound || as != nil {
			t.Errorf("%q: %v, %v", id, as, err)
		}
	}
	for i := range 7 {
		x.Clock.Add(time.Second)
		if _, err := s.Ask(t, fmt.Sprintf("orders:eu/3:action-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	as, err := x.Broker.Actions(t.Context(), x.Principals[brokertest.Approver], mine.RequestID)
	if err != nil || len(as) != 5 || !strings.Contains(texts(as[:1]), "action-6") || !strings.Contains(texts(as[4:]), "action-2") || !as[0].At.Equal(x.Clock.Now()) {
		t.Errorf("the newest five: %v, %v", as, err)
	}
}

func texts(as []audit.Entry) string {
	var out []string
	for _, a := range as {
		out = append(out, audit.Sentence(a, time.Time.String))
	}
	return strings.Join(out, "\n")
}

func requestOf(t *testing.T, x *brokertest.Env, id string) broker.Request {
	t.Helper()
	r, err := x.Broker.Request(t.Context(), x.Principals[brokertest.Auditor], id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
