package aws

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// This is IAM's evaluation, written from its documentation and not from the
// compiler: wildcards, policy variables, the operators in use, explicit deny over
// allow, and the intersection of role and session policies.

// facts are the keys of one request's context, in lower case.
type facts map[string]string

type token struct {
	text string // one literal character, or what a variable stands for
	star bool
	any  bool
}

// tokens reads a pattern; ok is false when a variable has no value, which never
// matches.
func tokens(pattern string, f facts) (out []token, ok bool) {
	for i := 0; i < len(pattern); {
		switch {
		case strings.HasPrefix(pattern[i:], "${"):
			end := strings.IndexByte(pattern[i:], '}')
			if end < 0 {
				return nil, false
			}
			name := pattern[i+2 : i+end]
			switch name {
			case "*", "?", "$":
				out = append(out, token{text: name})
			default:
				v, has := f[strings.ToLower(name)]
				if !has {
					return nil, false
				}
				out = append(out, token{text: v})
			}
			i += end + 1
		case pattern[i] == '*':
			out = append(out, token{star: true})
			i++
		case pattern[i] == '?':
			out = append(out, token{any: true})
			i++
		default:
			out = append(out, token{text: pattern[i : i+1]})
			i++
		}
	}
	return out, true
}

func matchTokens(ts []token, s string) bool {
	// reach holds the offsets of s that the tokens so far can end at.
	reach := map[int]bool{0: true}
	for _, t := range ts {
		next := map[int]bool{}
		for at := range reach {
			switch {
			case t.star:
				for j := at; j <= len(s); j++ {
					next[j] = true
				}
			case t.any:
				if at < len(s) {
					next[at+1] = true
				}
			case strings.HasPrefix(s[at:], t.text):
				next[at+len(t.text)] = true
			}
		}
		reach = next
	}
	return reach[len(s)]
}

func like(pattern, s string, f facts) bool {
	ts, ok := tokens(pattern, f)
	return ok && matchTokens(ts, s)
}

// texts is a string or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

type iamStatement struct {
	Sid, Effect      string
	Action, Resource texts
	Condition        map[string]map[string]texts
}

type iamPolicy struct {
	Version   string
	Statement []iamStatement
}

func parseIAM(t testing.TB, text string) iamPolicy {
	t.Helper()
	var p iamPolicy
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Version != "2012-10-17" {
		t.Fatalf("not a policy: %v\n%s", err, text)
	}
	ids := map[string]bool{}
	for _, s := range p.Statement {
		if s.Sid != "" && ids[s.Sid] {
			t.Errorf("two statements have the id %s", s.Sid)
		}
		ids[s.Sid] = true
	}
	return p
}

func (s iamStatement) applies(t testing.TB, action, resource string, f facts) bool {
	if !slices.ContainsFunc(s.Action, func(p string) bool { return like(strings.ToLower(p), strings.ToLower(action), nil) }) ||
		!slices.ContainsFunc(s.Resource, func(p string) bool { return like(p, resource, f) }) {
		return false
	}
	for op, keys := range s.Condition {
		for key, values := range keys {
			have, has := f[strings.ToLower(key)]
			if !has || !slices.ContainsFunc(values, func(v string) bool { return holds(t, op, v, have, f) }) {
				return false
			}
		}
	}
	return true
}

func holds(t testing.TB, op, want, have string, f facts) bool {
	switch op {
	case "StringLike":
		return like(want, have, f)
	case "StringEquals":
		ts, ok := tokens(want, f)
		var b strings.Builder
		for _, x := range ts {
			switch {
			case x.star:
				b.WriteByte('*')
			case x.any:
				b.WriteByte('?')
			default:
				b.WriteString(x.text)
			}
		}
		return ok && b.String() == have
	case "DateLessThan":
		w, err1 := time.Parse(time.RFC3339, want)
		h, err2 := time.Parse(time.RFC3339, have)
		return err1 == nil && err2 == nil && h.Before(w)
	case "IpAddress":
		p, err1 := netip.ParsePrefix(want)
		a, err2 := netip.ParseAddr(have)
		return err1 == nil && err2 == nil && p.Contains(a)
	}
	t.Errorf("the oracle does not know the operator %s", op)
	return false
}

// effect is what a policy says: deny wins, silence denies.
func (p iamPolicy) effect(t testing.TB, action, resource string, f facts) string {
	out := ""
	for _, s := range p.Statement {
		if s.applies(t, action, resource, f) {
			if s.Effect == "Deny" {
				return "Deny"
			}
			out = s.Effect
		}
	}
	return out
}

func TestOracle(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a*c", "abbc", true}, {"a*c", "ab", false}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"a${*}c", "a*c", true}, {"a${*}c", "abc", false},
		{"${$}{*}", "${abc}", true}, {"${x}", "v*", true}, {"${x}", "vv", false}, {"${none}", "", false}, {"*", "a/b", true}, {"", "", true}, {"${", "${", false},
	} {
		if got := like(c.pattern, c.s, facts{"x": "v*"}); got != c.want {
			t.Errorf("like(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}
