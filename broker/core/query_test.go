package core_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// Every attribute of the schema is set: a policy whose condition reads an attribute that the broker
// leaves empty would forbid nothing.
func TestPoliciesSeeWhoAsksAndForWhat(t *testing.T) {
	t.Parallel()
	spec := brokertest.Spec()
	spec.Labels = map[string]string{"env": "prod"}
	spec.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
	for _, fact := range []string{
		`context.task.name == "fix login"`, `context.task.kind == "bugfix"`, `context.task.owner == "bo@example.com"`,
		`context.task.age == 0`, `context.task.depth == 0`, `context.task.hasTag("env") && context.task.getTag("env") == "prod"`,
		`principal.attestor == "enroll"`, `principal.evidence == "ticket"`, `principal.subject != ""`,
		`context.binding == "dpop"`, `context.delivery == "token"`, `context.ttl > 0`, `context.revocability == "instant"`,
		`context.revocation_bound == 0`, `context.record.denials == 0 && context.record.violations == 0`, `context.taint.isEmpty()`,
		`context.action == "read" && !context.wildcard`, `resource.path == "eu/1" && resource.provider == "orders" && resource.depth == 2`,
	} {
		x := brokertest.New(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`
			@id("all") permit (principal, action, resource);
			@id("not-so") forbid (principal, action, resource) unless { ` + fact + ` };`)}})
		s := x.Open(t, spec)
		if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
			t.Errorf("%s: %v", fact, err)
		}
		if strings.Contains(fact, "depth == 0") {
			continue
		}
		// A delegated task has the same attributes.
		if _, err := s.Delegate(t, ceiling("orders:eu/1:read")).Ask(t, "orders:eu/1:read"); err != nil {
			t.Errorf("a delegate: %s: %v", fact, err)
		}
	}
}
