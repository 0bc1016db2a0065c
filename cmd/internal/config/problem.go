package config

import (
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/scopes/nearest"
)

// Problem is one problem of the configuration, and its remedy.
type Problem struct {
	Key    string // "redis.addrs", or "EBB_REDIS_ADRS" for an unknown variable
	Where  string // "ebb.yaml:12", "EBB_LISTEN", or "" for a default
	Wrong  string // the problem
	Remedy string // the next step
}

// String returns the problem in two lines.
func (p Problem) String() string {
	where := ""
	if p.Where != "" && p.Where != p.Key {
		where = " (" + p.Where + ")"
	}
	return fmt.Sprintf("%s%s: %s\n    -> %s", p.Key, where, p.Wrong, p.Remedy)
}

// Problems is every problem of a configuration.
type Problems []Problem

// Error implements error. It lists all problems in the order of the
// configuration.
func (ps Problems) Error() string {
	var b strings.Builder
	noun := "problems"
	if len(ps) == 1 {
		noun = "problem"
	}
	fmt.Fprintf(&b, "%d %s in the configuration", len(ps), noun)
	for _, p := range ps {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

func (ps *Problems) add(key, where, wrong, remedy string) {
	*ps = append(*ps, Problem{Key: key, Where: where, Wrong: wrong, Remedy: remedy})
}

// removed are the keys of earlier versions, each with an explanation.
var removed = map[string]string{"mcp_compat": "the metadata always contains the members that it added"}

// near suggests the known name that is closest to got.
func near(got string, known []string) string {
	if instead, was := removed[strings.TrimPrefix(strings.ToLower(got), "ebb_")]; was {
		return "it was removed: " + instead
	}
	if best := nearest.Of(got, known); best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) > 12 {
		return "`ebb serve --help` lists the keys"
	}
	return "known here: " + strings.Join(known, ", ")
}
