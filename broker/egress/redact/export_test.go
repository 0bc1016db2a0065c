package redact

// Secret returns the parts of a text that are secret.
func (r *Redactor) Secret(text string) (out [][2]int) {
	sc := r.scan()
	sc.add([]byte(text))
	sc.look(true)
	for _, sp := range sc.spans {
		out = append(out, [2]int{sp.from, sp.to})
	}
	return out
}

// Ends returns, for each byte of a text, the length of the longest pattern found to end with it.
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
