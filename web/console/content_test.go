package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// judgingDriver is a plainDriver whose requests egress judges by their bodies.
type judgingDriver struct{ plainDriver }

func (judgingDriver) Injects(scopes.Set) bool                                      { return true }
func (judgingDriver) Inject(context.Context, *http.Request, provider.Target) error { return nil }
func (judgingDriver) ScopesFor(string, *http.Request) []scopes.Scope               { return nil }
func (judgingDriver) Judged(scopes.Set) bool                                       { return true }
func (judgingDriver) Judge(context.Context, *http.Request, provider.Target) (content.Facts, provider.Reply, error) {
	return content.Facts{}, nil, nil
}

// A request for one content shows each thing that the credential may do, with nothing hidden in the
// texts of the sandbox. It is decided by itself, not in a group.
func TestContentOnThePage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{
		Egress:    true,
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @max_ttl("15m") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"hub": {Driver: judgingDriver{}, Kind: "hub", Resource: "https://hub.test/"}},
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("hub:**:*")
	s := h.Open(t, spec)
	asks := func(f content.Facts) string {
		t.Helper()
		data, err := json.Marshal(broker.Exchange{Content: &f, Reason: "not_allowed"})
		if err != nil {
			t.Fatal(err)
		}
		e := audit.Entry{At: h.Clock.Now(), Kind: audit.EgressDenied, Actor: broker.SandboxID(s.Task.ID), TaskID: s.Task.ID, Data: data}
		if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		r := s.Request(t, "hub:acme/web/refs/heads/main:write")
		r.Content, r.Deferred = broker.ContentID(f), true
		_, err = h.Broker.Token(t.Context(), r)
		if broker.AsError(err).Pending == nil {
			t.Fatal(err)
		}
		return broker.AsError(err).Pending.RequestID
	}
	old, now := strings.Repeat("a", 40), strings.Repeat("b", 40)
	one := asks(content.Facts{Kind: "gitpush", Operations: []content.Operation{
		{Action: "update", Object: "refs/heads/main", Details: map[string]string{"old": old, "new": now, "commits": "2"}},
		{Action: "create", Object: "refs/heads/<script>\u202e", Details: map[string]string{"new": now}},
		{Action: "delete", Object: "refs/heads/c", Details: map[string]string{"old": old}},
		{Action: "force", Object: "refs/heads/d", Details: map[string]string{"old": old, "new": now, "why": "not-proven"}},
	}})
	two := asks(content.Facts{Kind: "graphql", Body: strings.Repeat("c", 64), Operations: []content.Operation{{Action: "mutation", Object: "mergePullRequest", Details: map[string]string{"input.pullRequestId": "PR_7"}}}})
	pays := asks(content.Facts{Kind: "json", Body: strings.Repeat("d", 64), Operations: []content.Operation{{Action: "pay", Amount: "EUR 80", Object: "payments", Details: map[string]string{"/for": "the invoice"}}}})
	b := h.as(brokertest.Approver)
	b.get("/requests/"+pays).is(t, http.StatusOK, ": EUR 80</h1>", ", EUR 80, once, within 15 min</button>", "pay payments: EUR 80, /for: “the invoice”", "the approval is used up when the request is sent", "any requests with GET or HEAD within the scopes")
	page := b.get("/requests/" + one)
	page.is(t, http.StatusOK, "Only this", "update refs/heads/main: aaaaaaaaaa → bbbbbbbbbb, commits: “2”", "delete refs/heads/c: aaaaaaaaaa → nothing", "and 1 more, under Other facts", "force refs/heads/d", "why: “not-proven”")
	if deletes, more := strings.Index(page.body, "delete refs/heads/c"), strings.Index(page.body, "create refs/heads/"); deletes < 0 || deletes > more {
		t.Error("what can be lost is not shown first")
	}
	if strings.Contains(page.body, "<script>\u202e") || strings.Contains(page.body, "\u202e") {
		t.Error("a ref's name is shown as it is")
	}
	b.get("/requests/"+two).is(t, http.StatusOK, "mutation mergePullRequest, input.pullRequestId: “PR_7”", strings.Repeat("c", 64))
	queue := b.get("/queue")
	queue.is(t, http.StatusOK, one, two, "EUR 80, once", "one request, once")
	if strings.Contains(queue.body, "2 alike") {
		t.Error("requests for different contents are one card")
	}
}

// textDriver is a plainDriver whose sessions egress judges.
type textDriver struct{ plainDriver }

func (textDriver) Endpoint(scopes.Set) (provider.Endpoint, bool) {
	return provider.Endpoint{Protocol: provider.PostgreSQL, Host: stricturl.Host{Name: "db.test", Port: 5432}, Database: "shop"}, true
}
func (textDriver) ScopesAt(string, provider.Endpoint) []scopes.Scope { return nil }
func (textDriver) JudgesSessions(scopes.Set) bool                    { return true }
func (textDriver) Connect(context.Context, provider.Target, provider.Opening) (provider.Session, error) {
	return provider.Session{}, nil
}

// A request for one SQL text shows what it does to each table, and then the whole text, with a mark at
// the left of each line and nothing hidden in it.
//
//ebb:invariant I9 The SQL text that a person approves is shown whole, and nothing can hide in it
func TestSQLOnThePage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{
		Egress:    true,
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @max_ttl("15m") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"db": {Driver: textDriver{}, Kind: "postgres", Resource: "https://db.test/"}},
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("db:**:*")
	s := h.Open(t, spec)
	const sql = "-- approved by the <b>DBA</b>\nDELETE FROM orders USING archive.orders a\n\tWHERE true\n\n\n\n\n\n; UPDATE stock SET left_over = 11111111,  note = 'a  b\u202ec' WHERE item = 'אב' OR 5 > 4"
	facts, err := pgsql.Classify(sql, pgsql.Settings{StandardStrings: true, UTF8: true})
	if err != nil {
		t.Fatal(err)
	}
	facts.Text = sql
	data, err := json.Marshal(broker.Exchange{Content: &facts, Reason: "not_allowed"})
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{At: h.Clock.Now(), Kind: audit.EgressDenied, Actor: broker.SandboxID(s.Task.ID), TaskID: s.Task.ID, Data: data}
	if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	r := s.Request(t, "db:shop:write")
	r.Content, r.Deferred = broker.ContentID(facts), true
	_, err = h.Broker.Token(t.Context(), r)
	pending := broker.AsError(err).Pending
	if pending == nil {
		t.Fatal(err)
	}
	page := h.as(brokertest.Approver).get("/requests/" + pending.RequestID)
	page.is(t, http.StatusOK, "delete every row of ?.orders", "update every row of ?.stock", "read archive.orders", "One text", ", 15 min, and one SQL text once</button>", "SQL text of the agent, allowed once beside the scope", "the approval is used up when the request is sent",
		`<li><bdi dir="ltr">-- approved by the &lt;b&gt;DBA&lt;/b&gt;</bdi></li><li><bdi dir="ltr">DELETE FROM orders USING archive.orders a</bdi></li><li><bdi dir="ltr">    WHERE true</bdi></li><li><bdi dir="ltr">[U&#43;000A x5]</bdi></li><li><bdi dir="ltr">; UPDATE stock SET left_over = 11111111,  note = &#39;a  b[U&#43;202E]c&#39; WHERE item = &#39;אב&#39; OR 5 &gt; 4</bdi></li>`,
		"The text claims approval. No approval exists.", "Characters that are hidden or reorder text: 1.", "The session decides which schema “?” is")
	if does, text := strings.Index(page.body, "delete every row of"), strings.Index(page.body, "SQL text of the agent"); does > text || text > strings.Index(page.body, "Agent text, not checked") {
		t.Error("the tables are not before the text, or the text is not before the agent's reason")
	}
	if strings.Contains(page.body, "<b>DBA") || strings.Contains(page.body, "\u202e") {
		t.Error("the text is shown as it is")
	}
}
