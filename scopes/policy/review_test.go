package policy_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	live := load(t, `
		@id("read") @max_ttl("10m") permit (principal, action == Ebb::Action::"read", resource);
		@id("write") @ask("dba") @deliver("egress") permit (principal, action == Ebb::Action::"write", resource);`)
	var recorded []policy.Recorded
	for _, asked := range []string{"a:x:read", "a:x:write", "a:x:drop", "b:x:read"} {
		q := query(asked)
		recorded = append(recorded, policy.Recorded{Query: q, Decision: decide(t, live, q)})
	}
	if got := policy.Replay(live, recorded); len(got) != 0 {
		t.Errorf("the same policies change %+v", got)
	}
	for _, tc := range []struct{ draft, want string }{
		{`@id("r") @max_ttl("10m") @why("Other words.") permit (principal, action == Ebb::Action::"read", resource);
		  @id("w") @ask("dba") @deliver("egress") permit (principal, action == Ebb::Action::"write", resource);`, ``},
		{`@id("r") @max_ttl("20m") permit (principal, action == Ebb::Action::"read", resource in Ebb::Provider::"a");
		  @id("w") @ask("dba,ops") @quorum("2") @deliver("egress") permit (principal, action == Ebb::Action::"write", resource);`,
			`0 wider: Would last at most 20 min instead of 10 min.
			 1 wider: Would need approval by 2 people in dba, ops instead of 1 person in dba.
			 3: Would be denied; was allowed without approval before.`},
		{`@id("r") @max_ttl("5m") @deliver("egress") permit (principal, action == Ebb::Action::"read", resource);
		  @id("w") @ask("dba") permit (principal, action == Ebb::Action::"write", resource);
		  @id("d") @ask("dba") @max_ttl("1m") permit (principal, action == Ebb::Action::"drop", resource);`,
			`0: Would last at most 5 min instead of 10 min. The credential would stay in ebb instead of going to the sandbox.
			 1 wider: The credential would go to the sandbox instead of staying in ebb.
			 2 wider: Would need approval by 1 person in dba, for at most 1 min; was denied before.
			 3: Would last at most 5 min instead of 10 min. The credential would stay in ebb instead of going to the sandbox.`},
	} {
		var lines []string
		for _, c := range policy.Replay(load(t, tc.draft), recorded) {
			line := string(rune('0' + c.Index))
			if c.Wider {
				line += " wider"
			}
			lines = append(lines, line+": "+strings.Join(c.Diff, " "))
			if !c.Query.Scopes.Equal(recorded[c.Index].Query.Scopes) || c.Was.Effect != recorded[c.Index].Decision.Effect {
				t.Errorf("change %d is of another query", c.Index)
			}
		}
		if got, want := strings.Join(lines, "\n"), strings.ReplaceAll(tc.want, "\t", ""); got != strings.ReplaceAll(want, "\n ", "\n") {
			t.Errorf("%s\ngot\n%s\nwant\n%s", tc.draft, got, want)
		}
	}
	broken := load(t, `@id("b") permit (principal, action, resource) when { context.ttl * 9223372036854775807 > 0 };`)
	changes := policy.Replay(broken, recorded[2:3])
	if len(changes) != 1 || changes[0].Error == "" || changes[0].Wider || changes[0].Now.Effect != policy.Deny {
		t.Errorf("a draft that cannot judge: %+v", changes)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	set := load(t, `@id("d-no-secret") forbid (principal, action, resource in Ebb::Resource::"a:secret");
@id("c-ask") @ask("ops") permit (principal, action, resource);
@id("b-eu") permit (principal, action == Ebb::Action::"read", resource in Ebb::Resource::"a:eu") when { context.ttl < 60 } unless { context.wildcard };
@id("a-read") permit (principal, action == Ebb::Action::"read", resource);`)
	for asked, want := range map[string]string{
		"a:eu:read": `allow
			a-read permit yes true all its conditions are met
			b-eu permit no false its condition (when #1) is not met
			c-ask ask yes false all its conditions are met, but a forbid or a permit without @ask decides
			d-no-secret forbid no false its condition (resource) is not met`,
		"a:secret/x:write": `deny
			a-read permit no false its condition (action) is not met
			b-eu permit no false its condition (action) is not met
			c-ask ask yes false all its conditions are met, but a forbid or a permit without @ask decides
			d-no-secret forbid yes true all its conditions are met`,
		"a:*:*": `deny
			a-read permit maybe false its condition (action) may be unmet for a part of the wildcard, but a permit must cover all of it
			b-eu permit no false its condition (when #1) is not met
			c-ask ask yes false all its conditions are met, but a forbid or a permit without @ask decides
			d-no-secret forbid maybe true its condition (resource) may be met for a part of the wildcard, which is enough for a forbid`,
	} {
		e, err := set.Explain(query(asked))
		if err != nil || len(e.Scopes) != 1 || e.Scopes[0].Scope.String() != asked || e.Decision.Effect != e.Scopes[0].Effect {
			t.Fatalf("%s: %+v %v", asked, e, err)
		}
		lines := []string{e.Scopes[0].Effect.String()}
		for i, v := range e.Scopes[0].Policies {
			if v.File != "test.cedar" || v.Line != 4-i {
				t.Errorf("%s is at %s:%d", v.ID, v.File, v.Line)
			}
			decides := "false"
			if v.Decides {
				decides = "true"
			}
			lines = append(lines, strings.Join([]string{v.ID, v.Effect, v.Matches, decides, v.Reason}, " "))
		}
		if got := strings.Join(lines, "\n"); got != strings.ReplaceAll(want, "\t", "") {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", asked, got, want)
		}
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	var zero policy.Live
	if d := decide(t, zero.Current(), query("a:x:r")); d.Effect != policy.Deny {
		t.Error("the zero Live grants")
	}
	first := load(t, `@id("p") permit (principal, action, resource);`)
	live := policy.NewLive(first)
	if live.Current() != first || live.Replace(policy.Starter()) != first || live.Current().Version() != policy.Starter().Version() {
		t.Error("Replace does not replace")
	}
	live.Replace(nil)
	if d := decide(t, live.Current(), query("a:x:read")); d.Effect != policy.Deny {
		t.Error("a nil Set grants")
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	sets := []*policy.Set{policy.Starter(), load(t, goldenPolicies)}
	live := policy.NewLive(sets[0])
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				if i == 0 {
					live.Replace(sets[j%2])
				}
				set := live.Current()
				d, err := set.Decide(query("a:x/**:* a:y:write"))
				if err != nil || d.Version != set.Version() {
					t.Errorf("%v %v", d, err)
				}
			}
		})
	}
	group.Wait()
}
