package redact

// Forms is for tests.
var Forms = forms

// Ends is, for each byte of a text, how long the longest pattern is that is found to end with it.
func Ends(patterns []string, text string) ([]int, error) {
	a, err := newAutomaton(patterns)
	if err != nil {
		return nil, err
	}
	out, state := make([]int, len(text)), uint32(0)
	for i := range out {
		if state = a.step(state, text[i]); state >= hit {
			state &^= hit
			out[i] = int(a.of(state).found)
		}
	}
	return out, nil
}
