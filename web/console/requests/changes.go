package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// factLabels are the labels of known facts. Other facts are labelled with their own name.
var factLabels = map[string]string{
	"taint": "Untrusted content read", "violations": "Violations", "policy_version": "Policy version", "rules": "Policy rules", "why": "Policy reason",
	"would_allow": "Would be granted without approval", "deadline": "Task deadline", "sandbox.attested_at": "Attested at", "sandbox.class": "Evidence",
	"ask.groups": "Approver groups", "ask.quorum": "Approvals needed", "ask.rules": "Approvers by rule", "revocability": "Revocability", "ttl_seconds": "Lifetime in seconds",
}

// changes returns the differences between the facts of a request and the same facts computed now.
// It compares every member, also those that this page has no label for.
func changes(r broker.Request, effect policy.Effect, again broker.Request) []shell.Row {
	var out []shell.Row
	if effect != policy.Ask {
		out = append(out, shell.Row{Field: "Policy", Now: "requires approval", Asked: effect.String(), Changed: true})
	}
	old, now := flat(r.Facts), flat(again.Facts)
	names := slices.Sorted(maps.Keys(old))
	for name := range now {
		if _, both := old[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if old[name] == now[name] {
			continue
		}
		label := factLabels[name]
		if label == "" {
			label = strings.ReplaceAll(name, "_", " ")
		}
		out = append(out, shell.Row{Field: label, Now: old[name], Asked: now[name], Changed: true})
	}
	return out
}

// flat returns every member of canonical JSON as one line. Nested members get dotted names.
func flat(facts broker.Facts) map[string]string {
	out := map[string]string{}
	var top map[string]any
	if err := json.Unmarshal(facts, &top); err == nil {
		flatten("", top, out)
	}
	return out
}

func flatten(name string, value any, out map[string]string) {
	switch x := value.(type) {
	case map[string]any:
		for key, inner := range x {
			flatten(strings.TrimPrefix(name+"."+key, "."), inner, out)
		}
	case []any:
		var parts []string
		for _, one := range x {
			if text, is := one.(string); is {
				parts = append(parts, text)
				continue
			}
			raw, _ := json.Marshal(one) // it was decoded from JSON
			parts = append(parts, string(raw))
		}
		out[name] = shell.OneLine(strings.Join(parts, ", "))
	case nil:
		out[name] = ""
	default:
		out[name] = shell.OneLine(fmt.Sprint(x))
	}
}
