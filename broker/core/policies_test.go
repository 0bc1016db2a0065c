package core_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// reading permits all read actions, and requires approval for nothing else.
const reading = `@id("read") @max_ttl("10m") permit (principal, action == Ebb::Action::"read", resource);`

func cedarFiles(text string) []policyset.File {
	return []policyset.File{{Name: "a.cedar", Text: text}}
}

func published(t *testing.T) *brokertest.Env {
	return brokertest.New(t, brokertest.Config{Published: true})
}

// A set is drafted by one person, published by another, is in force at once, and both actions are
// in the audit log.
//
//ebb:invariant I11 Each publication of policies is recorded in the audit log
func TestPublish(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops, ols := e.Principals[brokertest.Operator], e.Principals[brokertest.Operator2]
	s := e.Open(t, brokertest.Spec())
	if _, err := s.AskDeferred(t, "orders:eu/1:write"); kind(err) != broker.Pending {
		t.Fatal(err)
	}
	d, err := e.Broker.DraftPolicies(t.Context(), ops, "only reading", cedarFiles(reading))
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Broker.PublishPolicies(t.Context(), ols, d.ID, d.Digest(), broker.Verdict{})
	if err != nil {
		t.Fatal(err)
	}
	live, err := e.Broker.PolicyInForce(ops)
	if err != nil || live.Version != d.Version || live.Number != 1 || r.Number != 1 || live.Author != ops.ID || live.By != ols.ID || live.Source != policyset.Database || e.Broker.PolicyVersion() != d.Version {
		t.Fatalf("in force is %+v, %v", live, err)
	}
	if _, err := s.AskDeferred(t, "orders:eu/2:write"); kind(err) != broker.Denied {
		t.Errorf("the new set does not decide: %v", err)
	}
	for kind, says := range map[string]string{audit.PolicyDrafted: d.Digest(), audit.PolicyPublished: `"author":"ops"`, audit.PolicyReloaded: d.Version} {
		entries, err := e.Broker.Entries(t.Context(), e.Principals[brokertest.Auditor], broker.EntryFilter{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for entry, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			if n++; !strings.Contains(string(entry.Data), says) {
				t.Errorf("%s says %s", kind, entry.Data)
			}
		}
		if n != 1 {
			t.Errorf("%d of %s", n, kind)
		}
	}
	// The previous set is a draft again, by any operator who wants to restore it.
	back, err := e.Broker.DraftPolicies(t.Context(), ols, "back", []policyset.File{{Name: "starter.cedar", Text: policy.StarterSource()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), ops, back.ID, back.Digest(), broker.Verdict{}); err != nil || e.Broker.PolicyVersion() != policy.Starter().Version() {
		t.Error(err)
	}
}

// Attacks on the rule of the second person.
//
//ebb:invariant I6 A principal that has none of the required roles is refused
//ebb:invariant I7 A person cannot publish their own policy draft under any of their names
//ebb:invariant I7 The policy text that is published is exactly the text that the publisher was shown
func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops, ols := e.Principals[brokertest.Operator], e.Principals[brokertest.Operator2]
	author := broker.Principal{ID: "sso:1", Also: []string{"Ann@Example.org"}, Roles: []broker.Role{broker.RoleOperator}}
	d, err := e.Broker.DraftPolicies(t.Context(), author, "", cedarFiles(reading))
	if err != nil {
		t.Fatal(err)
	}
	operator := []broker.Role{broker.RoleOperator}
	for what, tt := range map[string]struct {
		who    broker.Principal
		digest string
		want   broker.Kind
	}{
		"the author":                {author, d.Digest(), broker.Forbidden},
		"in other letters":          {broker.Principal{ID: "SSO:1", Roles: operator}, d.Digest(), broker.Forbidden},
		"under another name":        {broker.Principal{ID: "ann@example.org", Roles: operator}, d.Digest(), broker.Forbidden},
		"under another name's name": {broker.Principal{ID: "sso:2", Also: []string{"ANN@EXAMPLE.ORG"}, Roles: operator}, d.Digest(), broker.Forbidden},
		"an approver":               {e.Principals[brokertest.Approver], d.Digest(), broker.Forbidden},
		"an auditor":                {e.Principals[brokertest.Auditor], d.Digest(), broker.Forbidden},
		"nobody":                    {broker.Principal{}, d.Digest(), broker.Unauthenticated},
		"another text":              {ols, strings.Repeat("0", 64), broker.Conflict},
		"no digest":                 {ols, "", broker.Conflict},
	} {
		if _, err := e.Broker.PublishPolicies(t.Context(), tt.who, d.ID, tt.digest, broker.Verdict{}); kind(err) != tt.want {
			t.Errorf("%s: got %v, want %s", what, err, tt.want)
		}
	}
	// The text changes after its review.
	newer, err := e.Broker.RedraftPolicies(t.Context(), author, d.ID, d.Digest(), "", cedarFiles(reading+` @id("w") permit (principal, action, resource);`), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), ols, d.ID, d.Digest(), broker.Verdict{}); !errors.Is(err, broker.ErrStale) {
		t.Errorf("another text than was seen is published: %v", err)
	}
	// Others are published in the meantime.
	other, err := e.Broker.DraftPolicies(t.Context(), ops, "", cedarFiles(`@id("none") forbid (principal, action, resource);`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), ols, other.ID, other.Digest(), broker.Verdict{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), ols, newer.ID, newer.Digest(), broker.Verdict{}); !errors.Is(err, broker.ErrStale) {
		t.Errorf("published against a set that is not in force: %v", err)
	}
	for what, err := range map[string]error{
		"another's draft": func() error {
			_, err := e.Broker.RedraftPolicies(t.Context(), ops, newer.ID, newer.Digest(), "", cedarFiles(reading), true)
			return err
		}(),
		"an approver drafts": func() error {
			_, err := e.Broker.DraftPolicies(t.Context(), e.Principals[brokertest.Approver], "", cedarFiles(reading))
			return err
		}(),
		"an auditor drafts": func() error {
			_, err := e.Broker.DraftPolicies(t.Context(), e.Principals[brokertest.Auditor], "", cedarFiles(reading))
			return err
		}(),
		"an approver reads": func() error {
			_, err := e.Broker.PolicyDraft(t.Context(), e.Principals[brokertest.Approver], newer.ID)
			return err
		}(),
		"a runner reads": func() error { _, err := e.Broker.PolicyInForce(e.Principals[brokertest.Runner]); return err }(),
	} {
		if kind(err) != broker.Forbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	rebased, err := e.Broker.RedraftPolicies(t.Context(), author, newer.ID, newer.Digest(), "", newer.Files, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), ols, rebased.ID, rebased.Digest(), broker.Verdict{}); err != nil {
		t.Error(err)
	}
}

// An author is known by all names that they had while writing: signing in without one of them, and
// saving again, does not make them another person.
func TestAuthorKeepsNames(t *testing.T) {
	t.Parallel()
	e := published(t)
	operator := []broker.Role{broker.RoleOperator}
	d, err := e.Broker.DraftPolicies(t.Context(), broker.Principal{ID: "sso:1", Also: []string{"ann@example.org"}, Roles: operator}, "", cedarFiles(reading))
	if err != nil {
		t.Fatal(err)
	}
	d, err = e.Broker.RedraftPolicies(t.Context(), broker.Principal{ID: "sso:1", Also: []string{"ann@example.com"}, Roles: operator}, d.ID, d.Digest(), "again", d.Files, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sso:1", "ann@example.org", "ann@example.com"} {
		if _, err := e.Broker.PublishPolicies(t.Context(), broker.Principal{ID: name, Roles: operator}, d.ID, d.Digest(), broker.Verdict{}); kind(err) != broker.Forbidden {
			t.Errorf("%s publishes their own draft: %v", name, err)
		}
	}
}

// Of concurrent publications one wins, with any content.
//
//ebb:invariant I10
func TestPublishRace(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops, ols := e.Principals[brokertest.Operator], e.Principals[brokertest.Operator2]
	var ds []policyset.Draft
	for i := range 8 {
		d, err := e.Broker.DraftPolicies(t.Context(), ops, "", cedarFiles(fmt.Sprintf(`@id("r%d") permit (principal, action == Ebb::Action::"read", resource);`, i%4)))
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = e.Broker.PublishPolicies(t.Context(), ols, ds[i%8].ID, ds[i%8].Digest(), broker.Verdict{})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch k := kind(err); {
		case err == nil:
			won++
		case k != broker.Conflict && k != broker.NotFound:
			t.Error(err)
		}
	}
	if live, err := e.Broker.PolicyInForce(ops); won != 1 || err != nil || live.Number != 1 {
		t.Errorf("%d won, %+v, %v", won, live.Number, err)
	}
}

// A text that cannot be reviewed is not accepted as a draft.
//
//ebb:invariant I12 The size and the number of files of a policy draft are limited
func TestDraftsAreBounded(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops := e.Principals[brokertest.Operator]
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "@id(\"p%d\")permit(principal,action,resource);", i)
	}
	for what, tt := range map[string]struct {
		files []policyset.File
		says  string
	}{
		"a megabyte":      {cedarFiles("// " + strings.Repeat("x", 1<<20)), "bytes in all files"},
		"10,000 policies": {cedarFiles(many.String()), "bytes in all"},
		"over 1,000":      {cedarFiles(many.String()[:45_000]), ""},
		"bidi":            {cedarFiles("// a\n@id(\"x\") @why(\"\u202eyes\") permit (principal, action, resource);"), "a.cedar:2: the character U+202E cannot be seen"},
		"zero width":      {cedarFiles(reading + "// \u200b"), "U+200B"},
		"a tag":           {cedarFiles(reading + "// \U000E0041"), "U+E0041"},
		"a private one":   {cedarFiles(reading + "// \uE000"), "U+E000"},
		"a Hangul filler": {cedarFiles(reading + "// \u3164"), "U+3164"},
		"ESC":             {cedarFiles(reading + "// \x1b[2K"), "U+001B"},
		"CR":              {cedarFiles(reading + "\r// permit"), "U+000D"},
		"NUL":             {cedarFiles(reading + "\x00"), "U+0000"},
		"no UTF-8":        {cedarFiles(reading + "// \xff"), "not UTF-8"},
		"a path":          {[]policyset.File{{Name: "../a.cedar", Text: reading}}, "not a valid name"},
		"HTML as a name":  {[]policyset.File{{Name: "<b>.cedar", Text: reading}}, "not a valid name"},
		"no ending":       {[]policyset.File{{Name: "a.txt", Text: reading}}, "not a valid name"},
		"two of a name":   {[]policyset.File{{Name: "a.cedar", Text: reading}, {Name: "a.cedar", Text: reading}}, "two files"},
		"an id twice":     {[]policyset.File{{Name: "a.cedar", Text: reading}, {Name: "b.cedar", Text: reading}}, "already used"},
		"no schema":       {cedarFiles(`@id("x") permit (principal, action, resource) when { context.nope };`), "a.cedar:1:"},
		"a second line":   {cedarFiles("\n\npermit (principal"), "a.cedar:3"},
		"nothing":         {nil, "no policy"},
		"deep":            {cedarFiles(`@id("x") permit (principal, action, resource) when { ` + strings.Repeat("(", 100)), "nested"},
	} {
		_, err := e.Broker.DraftPolicies(t.Context(), ops, "", tt.files)
		problems := policyset.Problems(err)
		var says []string
		for _, p := range problems {
			says = append(says, p.String())
		}
		if len(problems) == 0 || kind(err) != broker.Invalid || !strings.Contains(strings.Join(says, "\n"), tt.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, note := range []string{strings.Repeat("x", 201), "a\nb", "\u202ea"} {
		if _, err := e.Broker.DraftPolicies(t.Context(), ops, note, cedarFiles(reading)); kind(err) != broker.Invalid {
			t.Errorf("note %.10q: %v", note, err)
		}
	}
	ds, err := e.Broker.PolicyDrafts(t.Context(), ops)
	if err != nil || len(ds) != 0 {
		t.Errorf("%d drafts, %v", len(ds), err)
	}
}

// If policies come from files, drafts are tested and exported, and never published.
func TestFilesAreNotPublished(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	d, err := e.Broker.DraftPolicies(t.Context(), e.Principals[brokertest.Operator], "", cedarFiles(reading))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PublishPolicies(t.Context(), e.Principals[brokertest.Operator2], d.ID, d.Digest(), broker.Verdict{}); kind(err) != broker.Conflict || !strings.Contains(broker.AsError(err).Public, "files") {
		t.Error(err)
	}
	if err := e.Broker.DropPolicies(t.Context(), e.Principals[brokertest.Operator2], d.ID, d.Digest()); err != nil {
		t.Error(err)
	}
}

// A draft is evaluated beside the set in force, and the response lists wider results.
func TestTryPolicies(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops := e.Principals[brokertest.Operator]
	query := func(scope string) policy.Query {
		return policy.Query{Sandbox: policy.Sandbox{ID: "sbx_x", Attestor: "enroll"}, Task: policy.Task{ID: "tsk_x"}, Scopes: scopes.MustParseSet(scope), TTL: time.Hour, Binding: policy.BindingDPoP, Delivery: policy.DeliveryToken}
	}
	for what, tt := range map[string]struct {
		text, scope     string
		wider, narrower bool
		open            int
	}{
		"nothing more":  {`@id("x") forbid (principal, action, resource);`, "orders:eu/1:write", false, true, 0},
		"everything":    {`@id("x") permit (principal, action, resource);`, "orders:eu/1:write", true, false, 2},
		"in disguise":   {`@id("x") permit (principal is Ebb::Sandbox, action, resource is Ebb::Resource) when { 1 < 2 };`, "orders:eu/1:write", true, false, 2},
		"by egress":     {`@id("x") permit (principal, action, resource) when { context.delivery == "egress" };`, "orders:eu/1:write", false, true, 2},
		"of a provider": {`@id("x") permit (principal, action, resource in Ebb::Provider::"mail");`, "mail:a:send", true, false, 1},
		"reading":       {reading, "orders:eu/1:read", false, true, 0},
	} {
		d, err := e.Broker.DraftPolicies(t.Context(), ops, "", cedarFiles(tt.text))
		if err != nil {
			t.Fatal(what, err)
		}
		out, err := e.Broker.TryPolicies(t.Context(), ops, query(tt.scope), d.ID)
		if err != nil || out.Draft == nil || out.Wider != tt.wider || out.Narrower != tt.narrower || out.Live.Granted.Empty() {
			t.Errorf("%s: wider %v, narrower %v, %v, %v", what, out.Wider, out.Narrower, out.Diff, err)
		}
		set, err := policyset.Load(d.Files)
		if err != nil {
			t.Fatal(err)
		}
		if open := e.Broker.OpenProviders(set); len(open) != tt.open {
			t.Errorf("%s: open are %v", what, open)
		}
	}
	if _, err := e.Broker.TryPolicies(t.Context(), e.Principals[brokertest.Approver], query("orders:eu/1:read"), ""); err != nil {
		t.Error(err)
	}
	if open := e.Broker.OpenProviders(policy.Starter()); len(open) != 0 {
		t.Errorf("the starter policy opens %v", open)
	}
}

// A replay counts the decisions of both sets on recorded queries, and the requests that a person
// denied.
func TestReplayPolicies(t *testing.T) {
	t.Parallel()
	e := published(t)
	ops := e.Principals[brokertest.Operator]
	s := e.Open(t, brokertest.Spec())
	for i := range 3 {
		if _, err := s.Ask(t, fmt.Sprintf("orders:eu/%d:read", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AskDeferred(t, "orders:eu/1:write"); kind(err) != broker.Pending {
		t.Fatal(err)
	}
	rs, err := e.Broker.Requests(t.Context(), ops, broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	if _, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Approver], rs[0].ID, broker.Verdict{Code: broker.TooBroad, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(time.Minute)
	d, err := e.Broker.DraftPolicies(t.Context(), ops, "", cedarFiles(`@id("w") permit (principal, action == Ebb::Action::"write", resource);`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Broker.ReplayPolicies(t.Context(), e.Principals[brokertest.Auditor], d.ID, 7, time.Minute)
	if err != nil || !got.Done {
		t.Fatal(got, err)
	}
	if got.Looked != 4 || got.Found != 4 || got.Left != 0 || got.Live.Granted != 3 || got.Live.Asked != 1 || got.Draft.Granted != 1 || got.Draft.Denied != 3 || len(got.Moves) != 2 {
		t.Fatalf("%+v", got)
	}
	if m := got.Moves[0]; !m.Wider || m.From != policy.Ask || m.To != policy.Allow || m.N != 1 || m.Refused != 1 || !m.Examples[0].Refused {
		t.Errorf("%+v", m)
	}
	if m := got.Moves[1]; m.Wider || m.From != policy.Allow || m.To != policy.Deny || m.N != 3 || m.Refused != 0 {
		t.Errorf("%+v", m)
	}
	e.Clock.Add(48 * time.Hour)
	if got, err = e.Broker.ReplayPolicies(t.Context(), ops, d.ID, 1, time.Minute); err != nil || got.Looked != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, days := range []int{0, -1, 2, 365} {
		if _, err := e.Broker.ReplayPolicies(t.Context(), ops, d.ID, days, 0); kind(err) != broker.Invalid {
			t.Errorf("%d days: %v", days, err)
		}
	}
	if _, err := e.Broker.ReplayPolicies(t.Context(), e.Principals[brokertest.Approver], d.ID, 7, 0); kind(err) != broker.Forbidden {
		t.Error(err)
	}
}
