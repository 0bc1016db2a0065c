package notifier

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
)

// Entries of break-glass and of policy drafts are notified by their kinds alone, to the
// people whom they concern; other entries of these families are not.
func TestHappenings(t *testing.T) {
	t.Parallel()
	approver, auditor := people.Reach{Person: "ann", Mail: "ann@example.com", Roles: []string{string(broker.RoleApprover)}}, people.Reach{Person: "aud", Mail: "aud@example.com", Roles: []string{string(broker.RoleAuditor)}}
	operator := people.Reach{Person: "ops", Mail: "ops@example.com", Roles: []string{string(broker.RoleOperator)}}
	n := &Notifier{cfg: Config{Routes: []Route{{Channels: []string{"mail"}}}}, channels: map[string]*channel{"mail": {Channel: notify.Channel{Name: "mail", People: true}}}}
	n.cfg.Now, n.cfg.Digest = testNow, window
	for kind, tt := range map[string]struct {
		actor string
		data  string
		want  []string
		event notify.Event
		of    string
		path  string // "" = of the entry
	}{
		"breakglass.begun":   {actor: "ola", want: []string{"ann", "aud"}, event: notify.BreakGlass, of: "w/7"},
		"breakglass.ended":   {actor: "ola", want: []string{"ann", "aud"}, event: notify.BreakGlass, of: "w/7"},
		"breakglass.used":    {actor: "ann", data: `{"break_glass":"brk_1/..","incident":"INC-7"}`, want: []string{"ann", "aud"}, event: notify.BreakGlass, of: "w/7", path: "/break-glass/brk_1%2F.."},
		"breakglass.odd":     {actor: "ola", data: `{"break_glass":7}`, want: []string{"ann", "aud"}, event: notify.BreakGlass, of: "w/7"},
		"policy.drafted":     {actor: "eva", want: []string{"ops"}, event: notify.Draft, of: "w/7"},
		"policy.draft":       {actor: "ops", data: `{"draft":"pol_1"}`, event: notify.Draft},
		"policy.drafted.of":  {actor: "eva", data: `{"draft":"pol_1","note":"x"}`, want: []string{"ops"}, event: notify.Draft, of: "pol_1"},
		audit.PolicyReloaded: {actor: "ebb"},
		audit.PolicyRejected: {actor: "ebb"},
	} {
		items := n.happened(audit.Entry{Writer: "w", Seq: 7, Kind: kind, Actor: tt.actor, Data: json.RawMessage(tt.data)}, everybody{approver, auditor, operator})
		if len(items) != len(tt.want) {
			t.Errorf("%s: told %+v", kind, items)
			continue
		}
		for i, x := range items {
			if x.Person != tt.want[i] || x.Notice.Event != tt.event || x.Notice.Subject != tt.of || x.Notice.By != tt.actor || x.Notice.Path != cmp.Or(tt.path, "/audit/w/7") || x.Digest {
				t.Errorf("%s: %+v", kind, x)
			}
		}
	}
}

// A notice about a request for one content names operations of the content, those by which
// something can be lost first. It has no details, which can be any text of the agent.
func TestOnlyThis(t *testing.T) {
	t.Parallel()
	did := func(action, object string) content.Operation {
		return content.Operation{Action: action, Object: object, Details: map[string]string{"title": "canary"}}
	}
	for _, tt := range []struct {
		does *content.Facts
		want []string
	}{
		{nil, nil},
		{&content.Facts{Kind: "pgsql", Text: "DELETE FROM a", Operations: []content.Operation{did("delete", "a")}}, nil}, // its credential is for a scope, too
		{&content.Facts{Kind: "gitpush", Operations: []content.Operation{did("update", "refs/heads/main")}}, []string{"update refs/heads/main"}},
		{&content.Facts{Kind: "json", Operations: []content.Operation{{Action: "pay", Object: "x", Amount: "EUR 5"}}}, []string{"pay x: EUR 5"}},
		{&content.Facts{Kind: "gitpush", Operations: []content.Operation{did("create", "a"), did("update", "b"), did("create", "c"), did("force", "d"), did("delete", "e")}}, []string{"force d", "delete e", "create a", "and 2 more"}},
	} {
		facts, digest, err := broker.Seal(broker.FactSheet{Risk: &risk.Result{Level: risk.High}, Content: tt.does})
		if err != nil {
			t.Fatal(err)
		}
		n := noticeOf(broker.Request{Facts: facts, Digest: digest}, notify.Waiting)
		var lines []string
		for _, l := range n.Lines(testNow()) {
			if l.Label == "Only this" {
				lines = append(lines, l.Text)
			}
			if strings.Contains(l.Text, "canary") {
				t.Errorf("a detail: %+v", l)
			}
		}
		if !slices.Equal(lines, tt.want) {
			t.Errorf("got %q, want %q", lines, tt.want)
		}
	}
}

const window = 15 * time.Minute

func testNow() time.Time { return time.Date(2026, 11, 20, 14, 1, 0, 0, time.UTC) }
