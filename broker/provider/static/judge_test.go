package static_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/fields"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// bodies is a driver with rules for bodies, of which two are for one path.
func bodies(t *testing.T, inject static.Place) static.Judge {
	t.Helper()
	c, s := config(), vaultOf(t, "stripe", canary)
	c.Inject = inject
	post := stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/posts"}}
	c.Grants["posts"] = map[string]static.Rule{
		"send":  {Rule: post, Body: &fields.Rule{Format: fields.JSON, Fields: map[string]string{"/channel": fields.Object, "/text": fields.Any}}},
		"draft": {Rule: post, Body: &fields.Rule{Format: fields.JSON, Fields: map[string]string{"/draft": fields.Any}}},
		"any":   {Rule: post},
		"whole": {Rule: post},
	}
	d, err := static.Open("stripe", c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, is := d.(static.Judge)
	if !is {
		t.Fatalf("it is a %T", d)
	}
	return j
}

func TestJudge(t *testing.T) {
	t.Parallel()
	header, query := static.Place{Header: "Authorization"}, static.Place{Query: "key"}
	for _, tt := range []struct {
		inject            static.Place
		scopes, url, body string
		want              string
	}{
		{header, "stripe:posts/C1:send", "", `{"channel":"C1","text":"x"}`, ""}, {header, "stripe:posts/*:send", "", `{"channel":"C1"}`, ""}, {header, "stripe:posts/**:send", "", `{"channel":"C1"}`, ""},
		{header, "stripe:posts/C1:send", "", `{"channel":"C2"}`, "needs stripe:posts/C2:send"}, {header, "stripe:posts/C1:send stripe:posts/C3:send", "", `{"channel":"C2"}`, "needs stripe:posts/C2:send"},
		{header, "stripe:posts/**:send", "", `{"channel":"*"}`, "needs "}, {header, "stripe:posts/**:send", "", `{"channel":"**"}`, "needs "}, {header, "stripe:posts/**:send", "", `{"channel":"a:b"}`, "needs "}, {header, "stripe:posts/**:send", "", `{"channel":".."}`, "needs "},
		{header, "stripe:posts/**:send", "", `{"channel":"a/b"}`, "refused"}, {header, "stripe:posts/**:send", "", `{"draft":"x"}`, "refused"},
		{header, "stripe:posts:draft", "", `{"draft":"x"}`, ""}, {header, "stripe:posts/C1:send stripe:posts:draft", "", `{"draft":"x"}`, "elsewhere"}, {header, "stripe:posts:any stripe:posts/C1:send", "", `{"channel":"C2"}`, "unread"},
		{header, "stripe:posts/C1:send stripe:posts:draft stripe:posts:whole", "", `{"channel":"C2"}`, "unread"}, {header, "stripe:posts:any stripe:posts/C1:send stripe:posts:draft", "", `{"channel":"C2"}`, "unread"},
		{header, "stripe:posts/C1:send", "?channel=C2", `{"channel":"C1"}`, "refused"}, {header, "stripe:posts/C1:send", "?", `{"channel":"C1"}`, ""}, {header, "stripe:posts/C1:send", "?key=1", `{"channel":"C1"}`, "refused"},
		{query, "stripe:posts/C1:send", "?key=1", `{"channel":"C1"}`, ""}, {query, "stripe:posts/C1:send", "?key=1&key=2", `{"channel":"C1"}`, "refused"}, {query, "stripe:posts/C1:send", "?key=1&channel=C2", `{"channel":"C1"}`, "refused"}, {query, "stripe:posts/C1:send", "?%zz", `{"channel":"C1"}`, "elsewhere"},
		{header, "stripe:charges:read", "", `{"channel":"C1"}`, "elsewhere"},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://api.example.com/v1/posts"+tt.url, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		facts, _, err := bodies(t, tt.inject).Judge(t.Context(), r, provider.Target{Scopes: scopes.MustParseSet(tt.scopes)})
		got := ""
		uncovered, is := errors.AsType[*provider.UncoveredError](err)
		switch {
		case is:
			got = "needs " + uncovered.Needed.String()
		case errors.As(err, new(*content.Error)):
			got = "refused"
		case errors.Is(err, provider.ErrElsewhere):
			got = "elsewhere"
		case err != nil:
			got = err.Error()
		case facts.Kind == "":
			got = "unread"
		}
		if got != tt.want {
			t.Errorf("%s %s%s: %q, %v; want %q", tt.scopes, tt.body, tt.url, got, err, tt.want)
		}
		if rest, err := io.ReadAll(r.Body); tt.want == "" && (err != nil || string(rest) != tt.body) {
			t.Errorf("%s: the body is then %q, %v", tt.body, rest, err)
		}
	}
}

// Open returns a Judge only for a configuration with bodies, because egress tries other leases for a
// Judge.
func TestJudgesOnlyBodies(t *testing.T) {
	t.Parallel()
	d, err := static.Open("stripe", config(), vaultOf(t, "stripe", canary), nil)
	if _, is := d.(provider.ContentJudge); is || err != nil {
		t.Errorf("%T, %v", d, err)
	}
	j := bodies(t, static.Place{Header: "Authorization"})
	for set, want := range map[string][2]bool{"stripe:posts/C1:send": {true, false}, "stripe:charges:read": {false, true}, "stripe:posts:any": {false, false}, "stripe:posts/**:send stripe:charges:read": {true, false}} {
		s := scopes.MustParseSet(set)
		if j.Judged(s) != want[0] || j.ReadsAmounts(s.Scopes()[len(s.Scopes())-1]) != want[1] {
			t.Errorf("%s: judged %t, amounts %t", set, j.Judged(s), j.ReadsAmounts(s.Scopes()[0]))
		}
	}
}

// Each scope belongs to one rule: no scope allows the requests of a rule and names an object of another.
//
//ebb:invariant I5 A configuration in which one scope stands for a rule and for an object of another rule is refused
func TestScopesOfTwoRules(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", canary)
	plain := static.Rule{Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/vip"}}}
	for other, ok := range map[string]bool{"to/vip": false, "to/a/b": false, "to-vip": true} {
		for _, below := range []static.Rule{plain, mails("/v1/vip")} {
			c := config()
			c.Grants["to"], c.Grants[other] = map[string]static.Rule{"send": mails("/v1/mails")}, map[string]static.Rule{"send": below, "read": plain}
			if _, err := static.Open("stripe", c, s, nil); (err == nil) != ok {
				t.Errorf("%s beside to: %v", other, err)
			}
		}
	}
	for use, ok := range map[string]bool{"to/**:send": true, "to/*:send": false, "to/bob:send": false} {
		route := sealRoute()
		route.Use = []string{use}
		c := client(route)
		c.Grants["to"] = map[string]static.Rule{"send": mails("/v1/mails")}
		if _, err := static.Open("stripe", c, s, nil); (err == nil) != ok {
			t.Errorf("a token for %s: %v", use, err)
		}
	}
}
