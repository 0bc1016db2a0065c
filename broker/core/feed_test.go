package core_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/scopes"
)

// mailServer is a resource server of brokertest's other resource.
var mailServer = broker.Principal{ID: "mail-api", Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{brokertest.Mail}}

// followed returns all events that who reads from the feed, in pages of limit. A page that is not
// full is the last one: clients depend on that.
func followed(t *testing.T, b *core.Broker, who broker.Principal, limit int) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		evs, next, err := b.Follow(t.Context(), who, cursor, limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evs {
			if ids = append(ids, e.TaskID); e.LeaseID != "" {
				ids[len(ids)-1] = e.LeaseID
			}
		}
		if cursor = next; len(evs) < limit {
			return ids
		}
	}
}

// ended revokes credentials of tasks of orders, of mail and of both, and then closes the tasks. It
// returns the ids in the order of the feed, by the servers that may read them.
func ended(t *testing.T, x *brokertest.Env) (orders, mail, all []string) {
	t.Helper()
	ctx, ops := t.Context(), x.Principals[brokertest.Operator]
	token, err := x.Broker.PrincipalToken(ctx, x.Assertion(t, brokertest.Runner, x.Keys[brokertest.Runner]), x.Prove(t, x.Keys[brokertest.Runner]), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Broker.RevokeToken(ctx, broker.Revoker{Principal: &ops}, token.Token.Reveal()); err != nil {
		t.Fatal(err)
	}
	for _, ceiling := range []string{"orders:eu/**:*", "mail:**:read", "orders:eu/**:* mail:**:read"} {
		spec := brokertest.Spec()
		spec.Ceiling = scopes.MustParseSet(ceiling)
		s := x.Open(t, spec)
		if _, err := x.Broker.PauseTask(ctx, ops, s.Task.ID, "a look"); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Broker.ResumeTask(ctx, ops, s.Task.ID); err != nil {
			t.Fatal(err)
		}
		reads := map[string]*[]string{"orders:eu/1:read": &orders, "mail:inbox:read": &mail}
		for scope, theirs := range reads {
			if !spec.Ceiling.Covers(scopes.MustParseSet(scope)) {
				continue
			}
			tok, err := s.Ask(t, scope)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := x.Broker.RevokeLease(ctx, ops, tok.LeaseID, ""); err != nil {
				t.Fatal(err)
			}
			*theirs, all = append(*theirs, tok.LeaseID), append(all, tok.LeaseID)
		}
		if _, err := x.Broker.CompleteTask(ctx, ops, s.Task.ID, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, s.Task.ID)
		for scope, theirs := range reads {
			if spec.Ceiling.Covers(scopes.MustParseSet(scope)) {
				*theirs = append(*theirs, s.Task.ID)
			}
		}
	}
	return orders, mail, all
}

// A resource server receives the revocations for its audiences, in pages of any size, and no
// others. An auditor receives all.
//
//ebb:invariant I2 The revocation feed sends a resource server only the events for its own audiences
//ebb:invariant I2 A page of the revocation feed contains fewer events than the limit only if it is the last page
func TestFeedIsOfOwnAudiences(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{People: []broker.Principal{mailServer}})
	orders, mail, all := ended(t, x)
	both := x.Principals[brokertest.Server]
	both.Audiences = []string{brokertest.Orders, brokertest.Mail}
	for _, limit := range []int{1, 2, 3, 1000} {
		for name, c := range map[string]struct {
			who  broker.Principal
			want []string
		}{
			"orders": {x.Principals[brokertest.Server], orders}, "mail": {mailServer, mail}, "both": {both, all},
		} {
			if got := followed(t, x.Broker, c.who, limit); !slices.Equal(got, c.want) {
				t.Errorf("%s, pages of %d: hears of %v, want %v", name, limit, got, c.want)
			}
		}
	}
	for _, who := range []string{brokertest.Operator, brokertest.Auditor} {
		if got := followed(t, x.Broker, x.Principals[who], 2); len(got) != len(all)+1 || !slices.Equal(got[1:], all) {
			t.Errorf("%s hears of %v, want %v and a token for the API", who, got, all)
		}
	}
}

// An event is not withheld when its audience is unknown: a revocation waits for no database.
//
//ebb:invariant I2 The revocation feed sends events to resource servers without filtering by audience while the database does not answer
func TestFeedWithoutStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{People: []broker.Principal{mailServer}})
	_, mail, all := ended(t, x.Env)
	for _, op := range []string{"Leases", "Tasks"} {
		x.store.on(op, func() error { return errors.New("down") })
		if got := followed(t, x.Broker, mailServer, 2); len(got) < len(mail) || op == "Leases" && !slices.Equal(got, all) {
			t.Errorf("without %s mail hears of %v, want %v", op, got, all)
		}
	}
}

// Tokens for a provider's earlier resource stay in use after the resource has changed.
//
//ebb:invariant I2 The revocation feed sends a resource server the end of every task that may have tokens for its audiences, including under a provider's earlier resource
func TestFeedAfterAnotherResource(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{People: []broker.Principal{mailServer}})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("mail:**:read")
	s, other := x.Open(t, spec), x.Open(t, spec)
	minted(t, s, "mail:inbox:read")
	x.Clock.Add(2 * time.Second)
	after := x.replica(t, func(c *core.Config) {
		c.Providers = map[string]broker.Provider{"mail": c.Providers["orders"], "post": c.Providers["mail"]}
	})
	for _, id := range []string{s.Task.ID, other.Task.ID} {
		if _, err := after.CompleteTask(t.Context(), x.who(brokertest.Operator), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := followed(t, after, mailServer, 1); !slices.Equal(got, []string{s.Task.ID}) {
		t.Errorf("mail hears of %v, want %s", got, s.Task.ID)
	}
}

// A task that another replica opened with the earlier resource can be younger than this replica by
// the other's clock, which may be ahead by ClockSkew.
//
//ebb:invariant I2 The revocation feed sends a resource server the end of every task that may have tokens for its audiences, including when the clock of the replica that opened the task is ahead
func TestFeedWithAnotherClockAhead(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{People: []broker.Principal{mailServer}})
	started := x.replica(t, func(c *core.Config) {
		c.Providers = map[string]broker.Provider{"mail": c.Providers["orders"], "post": c.Providers["mail"]}
	})
	x.Clock.Add(broker.ClockSkew)
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("mail:**:read")
	s := x.Open(t, spec)
	minted(t, s, "mail:inbox:read")
	if _, err := started.CompleteTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if got := followed(t, started, mailServer, 1); !slices.Equal(got, []string{s.Task.ID}) {
		t.Errorf("mail hears of %v, want %s", got, s.Task.ID)
	}
}

// A replica that runs with an earlier configuration does not know the provider of a task that
// another replica opened. The ceiling does not name the resource servers of that task's tokens.
//
//ebb:invariant I2 The revocation feed sends a resource server the end of every task that may have tokens for its audiences, including of a provider that only other replicas have
func TestFeedOfUnknownProvider(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{People: []broker.Principal{mailServer}})
	before := x.replica(t, func(c *core.Config) {
		c.Providers = map[string]broker.Provider{"orders": c.Providers["orders"]}
	})
	x.Clock.Add(2 * time.Second)
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("mail:**:read")
	s, other := x.Open(t, spec), x.Open(t, spec)
	minted(t, s, "mail:inbox:read")
	for _, id := range []string{s.Task.ID, other.Task.ID} {
		if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Operator), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := followed(t, before, mailServer, 1); !slices.Equal(got, []string{s.Task.ID}) {
		t.Errorf("mail hears of %v, want %s", got, s.Task.ID)
	}
}

// Events for others do not wake a client: it polls again later.
//
//ebb:invariant I2 The revocation feed sends a resource server the end of every task that may have tokens for its audiences, including under a provider's earlier resource
func TestFeedWaitsForItsOwn(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{People: []broker.Principal{mailServer}})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("mail:**:read")
	foreign, own := x.Open(t, spec), x.Open(t, brokertest.Spec())
	type answer struct {
		evs []broker.Event
		err error
	}
	heard := make(chan answer, 1)
	go func() {
		evs, _, err := x.Broker.Follow(t.Context(), x.Principals[brokertest.Server], "", 1000, 10*time.Minute)
		heard <- answer{evs, err}
	}()
	for _, s := range []*brokertest.Sandbox{foreign, own} {
		if _, err := x.Broker.CompleteTask(t.Context(), x.Principals[brokertest.Operator], s.Task.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	if a := <-heard; a.err != nil || len(a.evs) != 1 || a.evs[0].TaskID != own.Task.ID {
		t.Errorf("heard %s, %v", fmt.Sprint(a.evs), a.err)
	}
}
