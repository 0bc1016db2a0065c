package scopes

import (
	"fmt"
	"slices"
	"strings"
)

// MaxScopes is the maximum number of scopes in a Set, after redundant ones are dropped.
const MaxScopes = 64

const maxSetBytes = MaxScopes*(MaxBytes+1) - 1

// Set is an immutable set of scopes in canonical form: sorted by text, no duplicates, no member
// covered by another. Equal permissions have equal texts. The zero Set is empty: it covers only the
// empty Set.
type Set struct {
	members []Scope
}

// NewSet builds the canonical set. The zero Scope, or more than [MaxScopes] distinct members, is an error.
func NewSet(members ...Scope) (Set, error) {
	for _, m := range members {
		if m.IsZero() {
			return Set{}, fmt.Errorf("scope set: the zero Scope cannot be a member; parse one first")
		}
	}
	kept, ok := canonical(slices.Clone(members))
	if !ok {
		return Set{}, fmt.Errorf("scope set: more than %d scopes; ask for fewer, or for one that covers them", MaxScopes)
	}
	return Set{members: kept}, nil
}

// ParseSet reads an RFC 6749 section 3.3 scope value: scopes separated by exactly one space, at most [MaxScopes] of
// them, duplicates counted. The empty string is the empty set (RFC 6749 section 3.1: sent without a value is omitted).
// The error is a *[ParseError] whose Pos counts from the start of the whole value.
func ParseSet(text string) (Set, error) {
	if text == "" {
		return Set{}, nil
	}
	if len(text) > maxSetBytes {
		return Set{}, refuse("scope set", text, maxSetBytes, fmt.Sprintf("at most %d bytes", maxSetBytes))
	}
	members := make([]Scope, 0, 1+strings.Count(text, " "))
	at := 0
	for token := range strings.SplitSeq(text, " ") {
		switch {
		case token == "":
			return Set{}, refuse("scope set", text, at, "scopes are separated by exactly one space, with none before or after")
		case len(members) == MaxScopes:
			return Set{}, refuse("scope set", text, at, fmt.Sprintf("at most %d scopes", MaxScopes))
		}
		s, err := Parse(token)
		if err != nil {
			return Set{}, err.(*ParseError).shift("scope set", text, at)
		}
		members = append(members, s)
		at += len(token) + 1
	}
	kept, _ := canonical(members)
	return Set{members: kept}, nil
}

// MustParseSet is [ParseSet] for literals in code and tests; it panics on a value that does not parse.
func MustParseSet(text string) Set {
	s, err := ParseSet(text)
	if err != nil {
		panic(err)
	}
	return s
}

// canonical sorts, deduplicates and minimises members in place. ok is false when more than MaxScopes remain.
func canonical(members []Scope) (kept []Scope, ok bool) {
	switch len(members) {
	case 0:
		return nil, true
	case 1:
		return members, true
	}
	// Wider ones first: then a member can only be covered by one that is already kept, and a hostile product of
	// patterns is given up after MaxScopes comparisons a member instead of a quadratic number.
	ranks := make(map[Scope]int, len(members))
	for _, m := range members {
		ranks[m] = m.rank()
	}
	slices.SortFunc(members, func(a, b Scope) int {
		if c := ranks[a] - ranks[b]; c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	kept = members[:0]
	for _, m := range members {
		if slices.ContainsFunc(kept, func(k Scope) bool { return k.Covers(m) }) {
			continue
		}
		if len(kept) == MaxScopes {
			return nil, false
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b Scope) int { return strings.Compare(a.text, b.text) })
	return slices.Clip(kept), true
}

// String is the RFC 6749 section 3.3 value: sorted scopes joined by single spaces; "" for the empty set.
func (s Set) String() string {
	texts := make([]string, len(s.members))
	for i, m := range s.members {
		texts[i] = m.text
	}
	return strings.Join(texts, " ")
}

// Scopes are the members, sorted. The slice is the caller's.
func (s Set) Scopes() []Scope { return slices.Clone(s.members) }

// Len is the number of members.
func (s Set) Len() int { return len(s.members) }

// Empty reports a set without members.
func (s Set) Empty() bool { return len(s.members) == 0 }

// Equal reports whether both have the same members, hence permit the same.
func (s Set) Equal(other Set) bool { return slices.Equal(s.members, other.members) }

// Providers are the distinct providers of the members, sorted.
func (s Set) Providers() []string {
	var names []string
	for _, m := range s.members {
		names = append(names, m.Provider())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MarshalText is [Set.String]; in JSON a Set is therefore one string, as in RFC 6749 and RFC 7662.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is [ParseSet].
func (s *Set) UnmarshalText(b []byte) error {
	parsed, err := ParseSet(string(b))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
