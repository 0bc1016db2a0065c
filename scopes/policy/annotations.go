package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/ebb-broker/ebb/scopes/amount"
)

const (
	maxID     = 64
	maxGroup  = 128
	maxWhy    = 300
	maxQuorum = 100
)

// annotate reads the annotations into the rule and returns their problems.
func (r *rule) annotate(list []ast.AnnotationType) (problems []string) {
	quorum := false
	for _, a := range list {
		key, value := string(a.Key), string(a.Value)
		var fault string
		switch key {
		case "id":
			if !isID(value) {
				fault = fmt.Sprintf("use 1 to %d of [A-Za-z0-9._-], beginning with a letter or digit", maxID)
			}
			r.id = value
		case "why":
			if value == "" || len(value) > maxWhy || !printable(value) {
				fault = fmt.Sprintf("use 1 to %d bytes of printable text", maxWhy)
			}
			r.why = value
		case "ask", "quorum", "max_ttl", "max_amount", "deliver":
			if r.forbid {
				fault = "is for a permit; a forbid takes only @id and @why"
				break
			}
			quorum = quorum || key == "quorum"
			fault = r.condition(key, value)
		default:
			fault = "is unknown; known are @id, @why and, on a permit, @ask, @quorum, @max_ttl, @max_amount, @deliver"
		}
		if fault != "" {
			problems = append(problems, fmt.Sprintf("@%s(%.64q): %s", key, value, fault))
		}
	}
	if r.id == "" && !slices.ContainsFunc(list, func(a ast.AnnotationType) bool { return a.Key == "id" }) {
		problems = append(problems, `@id is missing; decisions and the audit log name policies by it, as in @id("read-orders")`)
	}
	if quorum && !slices.ContainsFunc(list, func(a ast.AnnotationType) bool { return a.Key == "ask" }) {
		problems = append(problems, "@quorum without @ask has no effect: add @ask or remove @quorum")
	}
	if r.ask != nil && r.quorum == 0 {
		r.quorum = 1
	}
	return problems
}

// condition reads an annotation that limits what a permit grants.
func (r *rule) condition(key, value string) (fault string) {
	switch key {
	case "ask":
		for group := range strings.SplitSeq(value, ",") {
			group = strings.TrimSpace(group)
			if group == "" || len(group) > maxGroup || !printable(group) || slices.Contains(r.ask, group) {
				return fmt.Sprintf("name different groups of 1 to %d printable bytes, separated by commas", maxGroup)
			}
			r.ask = append(r.ask, group)
		}
		slices.Sort(r.ask)
	case "quorum":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxQuorum || strconv.Itoa(n) != value {
			return fmt.Sprintf("use a number of people from 1 to %d", maxQuorum)
		}
		r.quorum = n
	case "max_ttl":
		d, err := time.ParseDuration(value)
		if err != nil || d < time.Second || d%time.Second != 0 {
			return `use whole seconds, at least one, as in "90s" or "10m"`
		}
		r.maxTTL = d
	case "max_amount":
		limits, err := amount.ParseLimits(value)
		if err != nil || len(limits) == 0 {
			return `use amounts of different units, separated by commas, as in "EUR 50" or "EUR 50, mails 20"`
		}
		r.maxAmount = limits
	case "deliver":
		if value != DeliveryEgress {
			return `the only delivery a policy can insist on is "egress"`
		}
		r.egress = true
	}
	return ""
}

func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// printable reports whether s has no control and no direction-changing characters, because people
// read it.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
