package redact

import (
	"errors"
	"math"
)

// automaton recognises a set of patterns, none of them empty. A state is the longest
// end of what was read that begins a pattern; 0 is the root.
type automaton struct {
	class [256]uint16 // bytes that occur in no pattern share class 0
	width int         // number of classes
	next  []uint16    // state*width + class
	depth []int32     // of a state: how much of what was read it remembers
	found []int32     // the longest pattern that ends in a state; 0 = none
	first [256]bool   // bytes that begin a pattern
}

var errTooMany = errors.New("redact: there are too many secrets to look for at one time")

func newAutomaton(patterns []string) (*automaton, error) {
	a := &automaton{width: 1}
	total := 1
	for _, p := range patterns {
		total += len(p)
		for i := range len(p) {
			if a.class[p[i]] == 0 {
				a.class[p[i]] = uint16(a.width)
				a.width++
			}
		}
	}
	if total > math.MaxUint16 {
		return nil, errTooMany
	}
	a.add() // the root
	for _, p := range patterns {
		state := 0
		for i := range len(p) {
			at := state*a.width + int(a.class[p[i]])
			if a.next[at] == 0 {
				child := a.add()
				a.depth[child] = int32(i + 1)
				a.next[at] = uint16(child)
			}
			state = int(a.next[at])
		}
		a.found[state] = int32(len(p))
		a.first[p[0]] = true
	}
	a.link()
	return a, nil
}

func (a *automaton) add() int {
	a.next = append(a.next, make([]uint16, a.width)...)
	a.depth = append(a.depth, 0)
	a.found = append(a.found, 0)
	return len(a.depth) - 1
}

// link makes the trie a machine: where a pattern does not go on, it goes to the longest
// end of what was read that begins one. Breadth first, since that end is shorter.
func (a *automaton) link() {
	back := make([]uint16, len(a.depth))
	var queue []int
	for c := range a.width {
		if s := a.next[c]; s != 0 {
			queue = append(queue, int(s))
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		a.found[s] = max(a.found[s], a.found[back[s]])
		for c := range a.width {
			at, behind := s*a.width+c, a.next[int(back[s])*a.width+c]
			if child := a.next[at]; child != 0 {
				back[child] = behind
				queue = append(queue, int(child))
			} else {
				a.next[at] = behind
			}
		}
	}
}

// step reads one byte.
func (a *automaton) step(state uint16, b byte) uint16 {
	return a.next[int(state)*a.width+int(a.class[b])]
}
