package kms_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/seal/sealtest"
)

// The policy in the documentation permits the calls of ebb, and no others.
func TestPolicyOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/sealing.md")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if text == nil {
		t.Fatal("docs/reference/sealing.md shows no policy")
	}
	var p struct {
		Statement []struct {
			Sid       string
			Action    any
			Condition map[string]map[string]any
		}
	}
	if err := json.Unmarshal(text[1], &p); err != nil {
		t.Fatal(err)
	}
	allowed := map[string][]string{}
	for _, s := range p.Statement {
		for _, a := range flat(s.Action) {
			allowed[s.Sid] = append(allowed[s.Sid], strings.TrimPrefix(a, "kms:"))
		}
		if s.Sid != "EbbSeals" {
			continue
		}
		if got := flat(s.Condition["ForAllValues:StringEquals"]["kms:EncryptionContextKeys"]); !slices.Equal(got, []string{"ebb-instance", "ebb-data-key"}) {
			t.Errorf("names of the context: %v", got)
		}
		if s.Condition["StringEquals"]["kms:EncryptionContext:ebb-instance"] != instance {
			t.Error("the policy does not insist on the instance")
		}
	}
	c := newCloud(t)
	w := c.wrapper(c.config(keyA))
	if _, err := w.Unwrap(t.Context(), sealtest.ID, wrap(t, w)); err != nil {
		t.Fatal(err)
	}
	var used []string
	for action := range c.calls {
		used = append(used, action)
	}
	given := slices.Concat(allowed["EbbSeals"], allowed["EbbLooks"])
	slices.Sort(used)
	slices.Sort(given)
	if !slices.Equal(used, given) {
		t.Errorf("ebb calls %v, the page allows %v", used, given)
	}
}

func flat(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, s := range v {
			out = append(out, s.(string)) //nolint:forcetypeassert // a policy holds texts
		}
		return out
	}
	return nil
}
