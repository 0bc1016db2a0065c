package policyset_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/policyset"
)

// TestCompare: each change of a policy has a direction; a change with an unknown direction
// counts as wider.
func TestCompare(t *testing.T) {
	t.Parallel()
	const permit, forbid = `permit (principal, action == Ebb::Action::"x", resource);`, `forbid (principal, action == Ebb::Action::"x", resource);`
	for what, tt := range map[string]struct {
		before, after string
		wider, loud   bool
		says          string
	}{
		"a forbid vanishes": {`@id("k") ` + permit + `@id("a") ` + forbid, `@id("k") ` + permit, true, true, "forbid is removed"},
		"a new forbid":      {`@id("k") ` + permit, `@id("k") ` + permit + `@id("a") ` + forbid, false, false, "A new forbid"},
		"everything":        {`@id("a") ` + permit, `@id("a") permit (principal, action, resource);`, true, true, "EVERYTHING"},
		"nobody is asked":   {`@id("a") @ask("g") ` + permit, `@id("a") ` + permit, true, true, "Approval would no longer"},
		"people are asked":  {`@id("a") ` + permit, `@id("a") @ask("g") ` + permit, false, false, "Approval would be needed"},
		"fewer people":      {`@id("a") @ask("g") @quorum("2") ` + permit, `@id("a") @ask("g") ` + permit, true, true, "Fewer people"},
		"longer":            {`@id("a") @max_ttl("1m") ` + permit, `@id("a") @max_ttl("2m") ` + permit, true, true, "live longer"},
		"shorter":           {`@id("a") ` + permit, `@id("a") @max_ttl("2m") ` + permit, false, false, "expire earlier"},
		"other words":       {`@id("a") @why("x") ` + permit, `@id("a") @why("y") ` + permit, false, false, "explanation"},
		"another body":      {`@id("a") ` + permit, `@id("a") ` + strings.ReplaceAll(permit, `"x"`, `"y"`), true, false, "conditions change"},
	} {
		before, err := policyset.Load([]policyset.File{{Name: "a.cedar", Text: tt.before}})
		if err != nil {
			t.Fatal(what, err)
		}
		after, err := policyset.Load([]policyset.File{{Name: "a.cedar", Text: tt.after}})
		if err != nil {
			t.Fatal(what, err)
		}
		got := policyset.Compare(before, after)
		if len(got) != 1 || (got[0].Direction == policyset.Wider) != tt.wider || got[0].Loud != tt.loud || !strings.Contains(got[0].Says, tt.says) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
