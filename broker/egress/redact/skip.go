package redact

// skips say how far a text in which no pattern has begun can be gone on in without reading
// all of it (Wu and Manber, 1994): by the last two bytes of a window as long as the shortest
// pattern. Two bytes that are nowhere in the beginning of a pattern end none that begins in
// the window before them.
type skips struct {
	window int
	by     [1 << pairBits]uint8 // how far, with begins
}

const (
	// maxWindow is how much of a pattern counts: a longer window goes further, and more pairs
	// of bytes are in it.
	maxWindow = 16
	// pairBits has the table fit into the fastest cache. Pairs that share a place share the
	// shorter way.
	pairBits = 13
	// begins marks the pairs that a pattern begins with.
	begins = 1 << 7
	// skipBytes is what skips take of memory, about.
	skipBytes = 1 << pairBits
)

func pairOf(a, b byte) int { return (int(a)<<(pairBits-8) ^ int(b)) & (1<<pairBits - 1) }

// newSkips is of patterns, none of them empty. A pattern of one byte has no pair: nothing is
// skipped then.
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

// skip is where the next pattern may begin in text, from i on, where the root has been
// reached: the length of text, if nowhere. What begins before is none, or is cut by the end of
// the text no sooner than a window before it.
func (a *automaton) skip(text []byte, i int) int {
	s := a.skips
	// Where a processor guesses that a window is gone on from as far as can be, it need not wait
	// to know that before it reads the next.
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
