package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/ebb-broker/ebb/scopes"
)

// ErrPattern reports a scope with a "*", for which a permit would also cover other scopes.
var ErrPattern = errors.New("a scope with a wildcard has no exact permit")

// Permit is a permit for one request that a person decided.
type Permit struct {
	ID       string // prefix of the ids of its policies; "-1" and so on is appended
	Why      string
	Attestor string
	Kind     string // of the task
	Owner    string // of the task
	Scopes   scopes.Set
	TTL      time.Duration
	Delivery string // DeliveryToken or DeliveryEgress
	Tainted  bool   // also for tasks that have read untrusted data
}

// Text returns one Cedar policy for each scope. Together they permit exactly these scopes, without
// an approval, to tasks of this kind and owner in sandboxes of this attestor. Every value is quoted
// by the Cedar library. The error is ErrPattern.
func (p Permit) Text() (string, error) {
	var b strings.Builder
	for i, s := range p.Scopes.Scopes() {
		if s.IsPattern() {
			return "", ErrPattern
		}
		fmt.Fprintf(&b, "@id(%s)\n@max_ttl(\"%ds\")\n@why(%s)\n", quote(fmt.Sprintf("%s-%d", p.ID, i+1)), int64(p.TTL/time.Second), quote(p.Why))
		if p.Delivery == DeliveryEgress {
			fmt.Fprintf(&b, "@deliver(%s)\n", quote(DeliveryEgress))
		}
		fmt.Fprintf(&b, "permit (\n  principal in %s,\n  action == %s,\n  resource == %s\n) when {\n  context.task.kind == %s && context.task.owner == %s",
			cedar.NewEntityUID(typeAttestor, cedar.String(p.Attestor)).MarshalCedar(), cedar.NewEntityUID(typeAction, cedar.String(s.Action())).MarshalCedar(),
			resourceUID(s.Provider(), s.Resource()).MarshalCedar(), quote(p.Kind), quote(p.Owner))
		if !p.Tainted {
			b.WriteString(" && context.taint.isEmpty()")
		}
		b.WriteString("\n};\n")
	}
	return b.String(), nil
}

func quote(text string) string { return string(cedar.String(text).MarshalCedar()) }
