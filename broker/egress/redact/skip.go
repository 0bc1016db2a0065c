package redact

// skips says how far a text can be skipped while no pattern has begun (Wu and Manber, 1994). It
// depends on the last two bytes of a window that is as long as the shortest pattern. If these bytes
// occur in the beginning of no pattern, no pattern begins in the window before them.
type skips struct {
	window int
	by     [1 << pairBits]uint8 // distance by pair of bytes, with begins
}

const (
	// maxWindow is the maximum length of the window: a longer one skips further, but more pairs of
	// bytes occur in it.
	maxWindow = 32
	// pairBits keeps the table small enough for the first-level cache. Pairs with the same index
	// share the shorter distance.
	pairBits = 13
	// begins marks the pairs that begin a pattern.
	begins = 1 << 7
	// skipBytes is the approximate memory of skips in bytes.
	skipBytes = 1 << pairBits
)

func pairOf(a, b byte) int { return (int(a)<<(pairBits-8) ^ int(b)) & (1<<pairBits - 1) }

// newSkips returns the table for patterns, none of them empty. With a pattern of one byte nothing
// is skipped, because it has no pair.
func newSkips(patterns []string) *skips {
	s := &skips{window: maxWindow}
	for _, p := range patterns {
		s.window = min(s.window, len(p))
	}
	for i := range s.by {
		s.by[i] = uint8(max(s.window-1, 0))
	}
	for _, p := range patterns {
		for i := 0; i+1 < s.window; i++ {
			at := &s.by[pairOf(p[i], p[i+1])]
			*at = *at&begins | min(*at&^begins, uint8(s.window-2-i))
			if i == 0 {
				*at |= begins
			}
		}
	}
	return s
}

// skip returns the index from i on where the next pattern may begin, when the automaton is at its
// root, or the length of text. A pattern that begins before that index would end after the text,
// and begin at most a window before its end.
func (a *automaton) skip(text []byte, i int) int {
	s := a.skips
	// The frequent full distance has a branch of its own, so that the processor can predict it and
	// read the next pair without waiting for this one.
	for end, most := len(text)-s.window, uint8(s.window-1); most > 0 && i <= end; {
		by := s.by[pairOf(text[i+s.window-2], text[i+s.window-1])]
		if by == most {
			i += s.window - 1
			continue
		}
		if by &^= begins; by == 0 {
			if s.by[pairOf(text[i], text[i+1])]&begins != 0 && a.first[text[i]] {
				return i
			}
			by = 1
		}
		i += int(by)
	}
	for i < len(text) && !a.first[text[i]] {
		i++
	}
	return i
}
