package egress_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/scopes"
)

// asksForAgents is a policy that asks people about the branches below agent/, and about changes beside
// refs.
const asksForAgents = `
@id("all") @why("all") permit (principal, action, resource) unless { resource in Ebb::Resource::"gh:acme/web/refs/heads/agent" || action == Ebb::Action::"write" };
@id("ask") @why("ask") @ask("approvers") permit (principal, action, resource in Ebb::Resource::"gh:acme/web/refs/heads/agent");
@id("writes") @why("writes") @ask("approvers") permit (principal, action == Ebb::Action::"write", resource);`

// refusedBy returns the content that the refusal of do names. do gets the placeholder of a lease for
// scope, which is revoked afterwards.
func (p *pushBed) refusedBy(t *testing.T, scope string, do func(placeholder string) (string, error)) string {
	t.Helper()
	tok, err := p.s.Ask(t, scope)
	if err != nil {
		t.Fatal(err)
	}
	out, err := do(tok.Token.Reveal())
	id := contentForm.FindString(out)
	if err == nil || id == "" {
		t.Fatalf("the refusal names no content: %v\n%s", err, out)
	}
	if _, err := p.b.Broker.RevokeLease(t.Context(), p.b.Principals[brokertest.Operator], tok.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	return id
}

// A lease that is limited to one content refuses other requests in their protocol, so that git and gh
// show why. It needs no other lease beside it.
func TestApprovedLeaseAlone(t *testing.T) {
	t.Parallel()
	const why = "the approval of its lease is for another request than this"
	gh := counterpart.Program(t, "gh")
	p := newPushBed(t, asksForAgents)
	first := p.commit(t, "first")
	push := func(placeholder string) (string, error) {
		p.auth = placeholder
		return p.run(t, "push", "origin", "main:agent/a")
	}
	p.auth = p.approved(t, "gh:acme/web/refs/heads/agent/**:*", p.refusedBy(t, "gh:acme/web/refs/heads/none:create", push), "refs/heads/agent/a")
	out, err := p.run(t, "push", "origin", "main:agent/b")
	if flat := strings.ReplaceAll(out, "\nremote: ", ""); err == nil || !strings.Contains(flat, "remote: ") || !strings.Contains(flat, why) || contentForm.FindString(flat) == "" || !strings.Contains(out, "[remote rejected]") {
		t.Errorf("another push: %v\n%s", err, out)
	}
	p.must(t, "push", "-q", "origin", "main:agent/a")
	if got, want := p.landed(t), "refs/heads/agent/a "+first+"\n"; got != want {
		t.Errorf("landed:\n%s\nwant:\n%s", got, want)
	}

	p.must(t, "remote", "set-url", "origin", "https://github.com/acme/web.git")
	x := p.b.boxFor(t, "gh:**:*")
	u := ghUser{program: gh, dir: p.work, socket: p.ghSocket(t, x)}
	p.sandbox = x
	id := p.refusedBy(t, "gh:acme/web/issues:read", func(placeholder string) (string, error) {
		u.placeholder = placeholder
		return u.run(t, "issue create --title I --body B")
	})
	u.placeholder = p.approved(t, "gh:acme/web/issues:read gh:acme/web/issues:write", id, "createIssue")
	const call = "api graphql -f query=mutation{closeIssue(input:{issueId:\"I_x\"}){clientMutationId}}"
	if out, err := u.run(t, call); err == nil || !strings.Contains(out, "gh: POST ") || !strings.Contains(out, why) || contentForm.FindString(out) == "" || strings.Contains(out, "HTTP 403") {
		t.Errorf("another mutation: %v\n%s", err, out)
	}
}

// A refused request is a content for an hour.
func TestContentIsOfTheLastHour(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, asksForAgents)
	spec := brokertest.Spec()
	spec.TTL, spec.Ceiling = 4*60*60, scopes.MustParseSet("gh:**:*")
	p.sandbox = p.b.boxOf(t, p.b.Open(t, spec))
	p.proxied(t)
	p.commit(t, "first")
	id := p.refusedBy(t, "gh:acme/web/refs/heads/none:create", func(placeholder string) (string, error) {
		p.auth = placeholder
		return p.run(t, "push", "origin", "main:agent/x")
	})
	for _, tt := range []struct {
		later time.Duration
		kind  broker.Kind
	}{{58 * time.Minute, broker.Pending}, {3 * time.Minute, broker.Invalid}} {
		p.b.Clock.Add(tt.later)
		r := p.s.Request(t, "gh:acme/web/refs/heads/agent/x:create")
		r.Content, r.Deferred = id, true
		if _, err := p.b.Broker.Token(t.Context(), r); broker.AsError(err).Kind != tt.kind {
			t.Errorf("%s later: %v", tt.later, err)
		}
	}
}
