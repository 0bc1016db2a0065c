package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenJSON fixes the form in the audit log. A change that breaks it breaks every recorded
// entry.
func TestGoldenJSON(t *testing.T) {
	t.Parallel()
	set := load(t, `
		@id("read") @max_ttl("10m") permit (principal, action == Ebb::Action::"read", resource);
		@id("write") @ask("dba,ops") @quorum("2") @deliver("egress") @why("Writes need two people.")
		permit (principal, action == Ebb::Action::"write", resource);
		@id("drop") forbid (principal, action == Ebb::Action::"drop", resource);`)
	for name, asked := range map[string]string{
		"ask":   "orders:eu/42:read orders:eu/42:write",
		"allow": "orders:eu/42:read",
		"deny":  "orders:eu/42:drop orders:eu/42:read",
	} {
		q := query(asked)
		d := decide(t, set, q)
		d.Version = "0000" // the digest moves with the schema text; the form does not
		got, err := json.MarshalIndent(policy.Recorded{Query: q, Decision: d}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "recorded-"+name+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		var back policy.Recorded
		if err := json.Unmarshal(want, &back); err != nil {
			t.Fatal(err)
		}
		again, _ := json.MarshalIndent(back, "", "  ")
		if !bytes.Equal(append(again, '\n'), want) {
			t.Errorf("%s came back as %s", name, again)
		}
		if d2 := decide(t, set, back.Query); !reflect.DeepEqual(d2.Rules, d.Rules) || d2.TTL != d.TTL || d2.Effect != d.Effect {
			t.Errorf("%s: the recorded query is decided as %+v", name, d2)
		}
	}
}

func TestJSONIsStrict(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`{"surprise":1}`, `{"scope":"A:b:c"}`, `{"ttl_seconds":"1"}`, `{"ttl_seconds":1.5}`, `{"ttl_seconds":9223372036854775807}`,
		`{"task":{"age_seconds":10000000000}}`, `{"revocation_bound":9223372036854775807}`, `{"revocability":1}`, `{"task":{"nickname":"x"}}`, `{"sandbox":{"ip":"x"}}`, `{"record":{"sins":1}}`, `[]`,
	} {
		var q policy.Query
		if err := json.Unmarshal([]byte(bad), &q); err == nil {
			t.Errorf("query %s decodes", bad)
		}
	}
	for _, bad := range []string{
		`{"surprise":1}`, `{"effect":"maybe"}`, `{"effect":"ALLOW"}`, `{"effect":2}`, `{"effect":""}`, `{"ask":{"veto":1}}`, `{"ttl_seconds":1e30}`,
		`{"ttl_seconds":9223372036854775807}`,
	} {
		var d policy.Decision
		if err := json.Unmarshal([]byte(bad), &d); err == nil || d.Effect != policy.Deny {
			t.Errorf("decision %s decodes", bad)
		}
	}
	var d policy.Decision
	if err := json.Unmarshal([]byte(`{}`), &d); err != nil || d.Effect != policy.Deny {
		t.Errorf("an empty decision is %v, %v", d.Effect, err)
	}
}

// A query from before the member existed gets no default.
func TestQueryWithoutRevocability(t *testing.T) {
	t.Parallel()
	set := load(t, `@id("all") permit (principal, action, resource);`)
	q := query("a:x:r")
	q.Revocability, q.Bound = "", 0
	b, err := json.Marshal(q)
	if err != nil || bytes.Contains(b, []byte("revoc")) {
		t.Fatalf("%s %v", b, err)
	}
	var back policy.Query
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if d, err := set.Decide(back); !errors.Is(err, policy.ErrQuery) || d.Effect != policy.Deny {
		t.Errorf("%v %v", d.Effect, err)
	}
}

func TestTaintIsASetOnTheWire(t *testing.T) {
	t.Parallel()
	q := query("a:x:r")
	q.Taint = []string{"web", "mail", "web"}
	b, err := json.Marshal(q)
	if err != nil || !bytes.Contains(b, []byte(`"taint":["mail","web"]`)) || q.Taint[0] != "web" {
		t.Errorf("%s %v", b, err)
	}
}
