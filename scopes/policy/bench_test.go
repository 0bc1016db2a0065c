package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

// fifty is a policy set of the size and the habits of a busy deployment.
func fifty(b *testing.B) *policy.Set {
	var text strings.Builder
	for i := range 24 {
		fmt.Fprintf(&text, `@id("read-%d") @max_ttl("10m") permit (principal in Ebb::Attestor::"github", action in [Ebb::Action::"read", Ebb::Action::"list"], resource in Ebb::Resource::"orders:r%d")
			when { context.task.kind == "report" && context.task.hasTag("env") && context.task.getTag("env") == "prod" };`+"\n", i, i)
		fmt.Fprintf(&text, `@id("write-%d") @ask("dba") permit (principal, action == Ebb::Action::"write", resource in Ebb::Resource::"orders:r%d") when { !context.taint.contains("secret") };`+"\n", i, i)
	}
	text.WriteString(`@id("no-a") forbid (principal, action, resource) when { context.record.violations > 0 };
		@id("no-b") forbid (principal, action, resource in Ebb::Resource::"orders:secret") when { context.ttl > 600 };`)
	set := load(b, text.String())
	if set.Len() != 50 {
		b.Fatal(set.Len())
	}
	return set
}

func benchmarkDecide(b *testing.B, asked string, want policy.Effect) {
	set, q := fifty(b), query(asked)
	b.ReportAllocs()
	for b.Loop() {
		d, err := set.Decide(q)
		if err != nil || d.Effect != want {
			b.Fatal(d.Effect, err)
		}
	}
}

func BenchmarkDecide(b *testing.B) { benchmarkDecide(b, "orders:r7/42:read", policy.Allow) }

func BenchmarkDecideAsk(b *testing.B) { benchmarkDecide(b, "orders:r7/42:write", policy.Ask) }

func BenchmarkDecidePattern(b *testing.B) { benchmarkDecide(b, "orders:r7/**:read", policy.Allow) }

func BenchmarkDecideThreeScopes(b *testing.B) {
	benchmarkDecide(b, "orders:r7/42:read orders:r8/42:read orders:r9/42:list", policy.Allow)
}

// BenchmarkDecideDeniedPattern also looks for what to ask instead.
func BenchmarkDecideDeniedPattern(b *testing.B) {
	benchmarkDecide(b, "orders:**:*", policy.Deny)
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		fifty(b)
	}
}
