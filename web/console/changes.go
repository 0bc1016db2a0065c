package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/scopes/policy"
)

// factLabels are the words for members of the facts; others go by their own name.
var factLabels = map[string]string{
	"taint": "Has read", "violations": "Violations", "policy_version": "Policy version", "rules": "Policy rules", "why": "Policy says why",
	"would_allow": "Granted without a person", "deadline": "End of the task", "sandbox.attested_at": "Attested at", "sandbox.class": "Evidence",
	"ask.groups": "Who decides", "ask.quorum": "People needed", "ask.rules": "Who decides, by rule", "revocability": "Can be taken back", "ttl_seconds": "Seconds",
}

// changes is what differs between the facts of a request and the same made again: every
// member, whether this page knows it or not.
func changes(r broker.Request, effect policy.Effect, again broker.Request) []row {
	var out []row
	if effect != policy.Ask {
		out = append(out, row{Field: "Policy", Now: "ask people", Asked: effect.String(), Changed: true})
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
		out = append(out, row{Field: label, Now: old[name], Asked: now[name], Changed: true})
	}
	return out
}

// flat is every member of canonical JSON as one line, members of members by dotted names.
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
		out[name] = oneLine(strings.Join(parts, ", "))
	case nil:
		out[name] = ""
	default:
		out[name] = oneLine(fmt.Sprint(x))
	}
}

// oneLine draws a value of the facts: names in them were written by runners.
func oneLine(text string) string { return agenttext.ShowLine(agenttext.From(text), 400) }
