package scopes

import "strings"

// Covers reports whether everything other matches, s matches too. It is a partial order on scopes: reflexive,
// antisymmetric and transitive. Paths are taken to be of any length, so "**" covers "*/x" and "a/**" does not cover "a".
// The zero Scope covers nothing and is covered by nothing, itself included.
func (s Scope) Covers(other Scope) bool {
	if s.IsZero() || other.IsZero() || s.Provider() != other.Provider() {
		return false
	}
	if s.Action() != Any && s.Action() != other.Action() {
		return false
	}
	mine, more := s.Resource(), true
	theirs, theirMore := other.Resource(), true
	for more && theirMore {
		var a, b string
		a, mine, more = strings.Cut(mine, "/")
		b, theirs, theirMore = strings.Cut(theirs, "/")
		switch {
		case a == Rest:
			return true // "**" is the last segment and at least one of theirs is left, which is all it needs
		case b == Rest:
			return false // theirs goes on for ever, mine is one segment here
		case a != Any && a != b:
			return false
		}
	}
	return !more && !theirMore
}

// Overlaps reports whether some concrete provider/path/action is matched by both. It is exact.
func (s Scope) Overlaps(other Scope) bool {
	_, ok := meetText(s, other)
	return ok
}

// meet is the scope that matches exactly what both match. ok is false when nothing is, or when the text of the meet
// would be longer than [MaxBytes]: then the answer is "nothing", which can refuse but never widen.
func (s Scope) meet(other Scope) (met Scope, ok bool) {
	switch {
	case other.Covers(s):
		return s, true
	case s.Covers(other):
		return other, true
	}
	text, ok := meetText(s, other)
	if !ok || len(text) > MaxBytes {
		return Scope{}, false
	}
	// Every part comes from a parsed scope and the longer resource bounds the segments, so only length can refuse it.
	met, err := Parse(text)
	return met, err == nil
}

// meetText writes the meet. Patterns are closed under intersection: segment by segment the narrower one wins, and
// "**" takes the remaining segments of the other side.
func meetText(s, other Scope) (text string, ok bool) {
	if s.IsZero() || other.IsZero() || s.Provider() != other.Provider() {
		return "", false
	}
	action, ok := narrower(s.Action(), other.Action())
	if !ok {
		return "", false
	}
	var b strings.Builder
	b.WriteString(s.Provider())
	separator := byte(':')
	mine, more := s.Resource(), true
	theirs, theirMore := other.Resource(), true
	for more && theirMore {
		b.WriteByte(separator)
		separator = '/'
		if mine == Rest || theirs == Rest {
			left := mine
			if left == Rest {
				left = theirs
			}
			b.WriteString(left)
			more, theirMore = false, false
			break
		}
		var x, y string
		x, mine, more = strings.Cut(mine, "/")
		y, theirs, theirMore = strings.Cut(theirs, "/")
		segment, ok := narrower(x, y)
		if !ok {
			return "", false
		}
		b.WriteString(segment)
	}
	if more || theirMore {
		return "", false
	}
	b.WriteByte(':')
	b.WriteString(action)
	return b.String(), true
}

// narrower is the meet of two names of which either may be [Any].
func narrower(a, b string) (string, bool) {
	switch {
	case a == b || b == Any:
		return a, true
	case a == Any:
		return b, true
	}
	return "", false
}

// rank grows strictly when a scope shrinks: if a covers b and a != b, then a.rank() < b.rank().
func (s Scope) rank() int {
	rank := 0
	for segment := range strings.SplitSeq(s.Resource(), "/") {
		rank += 2 // a longer path is narrower than a "**" that reaches it
		if segment == Any {
			rank--
		} else if segment == Rest {
			rank -= 2
		}
	}
	if s.Action() != Any {
		rank++
	}
	return rank
}
