package policy

// tri is the value of a condition on a pattern: it holds for none of the scopes that the pattern
// matches, for all of them, or the answer is not known (Kleene's strong three-valued logic). The
// zero tri is no.
type tri uint8

const (
	no tri = iota
	maybe
	yes
)

func (t tri) String() string {
	switch t {
	case maybe:
		return "maybe"
	case yes:
		return "yes"
	}
	return "no"
}

// MarshalText returns "no", "maybe" or "yes".
func (t tri) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func truth(b bool) tri {
	if b {
		return yes
	}
	return no
}

func (t tri) not() tri { return yes - t }

// relate compares the concrete paths that the pattern matches with the target: whether they are at
// or below it if below is set, or at it otherwise.
func relate(provider string, pattern []string, t target, below bool) tri {
	switch {
	case t.provider != provider:
		return no
	case t.path == nil:
		return truth(below)
	}
	result := yes
	for i, name := range t.path {
		switch {
		case i == len(pattern):
			return no // the pattern ends above the target
		case pattern[i] == "**":
			return maybe // it reaches the target and paths beside it
		case pattern[i] == "*":
			result = maybe
		case pattern[i] != name:
			return no
		}
	}
	switch {
	case len(pattern) == len(t.path) || below:
		return result
	default:
		return no // every path of the pattern is longer than the target
	}
}
