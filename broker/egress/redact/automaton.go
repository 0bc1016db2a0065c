package redact

import (
	"errors"
	"math/bits"
	"slices"
)

// automaton recognises a set of patterns, none of them empty (Aho and Corasick, 1975). A state
// stands for the longest suffix of the input that begins a pattern; 0 is the root.
//
// A token of 8 KiB has some 460,000 states, nearly all in the middle of one pattern: such a state
// is a link. The other states, where patterns branch and where most texts stay, have a row with the
// next state for each byte. The number of a state with a row is the beginning of its row; the
// numbers of links follow.
type automaton struct {
	class [256]uint16 // bytes that occur in no pattern share class 0
	shift int         // a row has 1<<shift entries
	rows  []uint32    // the next state by class; with hit if a pattern ends there
	said  []memory    // of the states with rows
	links []link
	first [256]bool // bytes that begin a pattern
	skips *skips
}

// link is a state with a single byte that continues its pattern. Any other byte leads where it
// leads from the state behind.
type link struct {
	memory
	to uint32 // with hit, as in rows
	on byte
}

// memory describes the input of a state: its length, the length of the longest pattern that ends
// there (0 = none), and the state behind, which is the state of the next longest suffix.
type memory struct {
	depth, found int32
	behind       uint32
}

// hit marks states in which a pattern ends.
const hit = 1 << 31

// maxStates is the maximum number of states: at 20 bytes each they take 40 MB.
const maxStates = 2 << 20

// rowDepth is the depth up to which every state has a row: few texts match a longer part of a
// pattern by chance.
const rowDepth = 2

var errTooMany = errors.New("redact: there are too many secrets to look for at one time, or they are too long")

func newAutomaton(patterns []string) (*automaton, error) {
	a := &automaton{skips: newSkips(patterns)}
	total, width := 1, 1
	for _, p := range patterns {
		total += len(p)
		a.first[p[0]] = true
		for i := range len(p) {
			if a.class[p[i]] == 0 {
				a.class[p[i]] = uint16(width)
				width++
			}
		}
	}
	if total > maxStates {
		return nil, errTooMany
	}
	a.shift = bits.Len(uint(width - 1))
	t := newTrie(total)
	for _, p := range patterns {
		t.put(p)
	}
	a.link(t)
	return a, nil
}

// link turns the trie into an automaton: where a pattern does not continue, the next state is the
// longest suffix of the input that begins a pattern. It works breadth first, because that suffix is
// shorter.
func (a *automaton) link(t *trie) {
	as := a.number(t)
	behind := make([]uint32, len(as)) // the state behind each node of the trie
	queue := make([]int32, 1, len(as))
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		end := behind[n]
		a.flat(as[n], end)
		if !t.next[n] && len(t.more[n]) == 0 { // a leaf: every byte leads where it leads from the state behind
			a.lead(as[n], 0, a.step(end, 0))
		}
		t.each(n, func(b byte, child int32) {
			if n != 0 {
				behind[child] = a.step(end, b) &^ hit
			}
			// The state behind may be as deep as n and not processed yet. So all states of a depth
			// are described before any state of that depth is processed.
			to := as[child]
			known := memory{depth: t.depth[child], found: max(t.found[child], a.of(behind[child]).found), behind: behind[child]}
			*a.of(to) = known
			if known.found > 0 {
				to |= hit
			}
			a.lead(as[n], b, to)
			queue = append(queue, child)
		})
	}
}

// number returns the state of each node of the trie.
func (a *automaton) number(t *trie) []uint32 {
	as := make([]uint32, len(t.on))
	rows := 0
	for n := range as {
		if t.depth[n] <= rowDepth || len(t.more[int32(n)]) > 0 {
			rows++
		}
	}
	a.rows, a.said, a.links = make([]uint32, rows<<a.shift), make([]memory, rows), make([]link, len(as)-rows)
	row, next := uint32(0), uint32(len(a.rows))
	for n := range as {
		if t.depth[n] <= rowDepth || len(t.more[int32(n)]) > 0 {
			as[n] = row << a.shift
			row++
		} else {
			as[n] = next
			next++
		}
	}
	return as
}

// of returns the memory of a state.
func (a *automaton) of(state uint32) *memory {
	if n := uint32(len(a.rows)); state >= n {
		return &a.links[state-n].memory
	}
	return &a.said[state>>a.shift]
}

// flat makes every byte lead where it leads from the state behind.
func (a *automaton) flat(state, behind uint32) {
	if state != 0 && state < uint32(len(a.rows)) {
		for b, c := range a.class {
			if c != 0 {
				a.rows[state+uint32(c)] = a.step(behind, byte(b))
			}
		}
	}
}

// lead sets the next state for a byte.
func (a *automaton) lead(state uint32, b byte, to uint32) {
	if n := uint32(len(a.rows)); state >= n {
		a.links[state-n].on, a.links[state-n].to = b, to
		return
	}
	a.rows[state+uint32(a.class[b])] = to
}

// step returns the next state for a byte, with hit.
func (a *automaton) step(state uint32, b byte) uint32 {
	n := uint32(len(a.rows))
	if state >= n && a.class[b] == 0 {
		return 0
	}
	for state >= n {
		l := &a.links[state-n]
		if l.on == b {
			return l.to
		}
		state = l.behind
	}
	return a.rows[state+uint32(a.class[b])]
}

// next reads text from i on. It returns the index after the first pattern, or the end of text, and
// the state there, which has hit in the first case.
func (a *automaton) next(text []byte, i int, state uint32) (int, uint32) {
	rows := a.rows
	for i < len(text) {
		if state == 0 {
			if i = a.skip(text, i); i == len(text) {
				break
			}
		}
		if int(state) < len(rows) {
			state = rows[state+uint32(a.class[text[i]])]
		} else {
			state = a.step(state, text[i])
		}
		if i++; state >= hit {
			break
		}
	}
	return i, state
}

// ends reports whether the input of state b is a suffix of the input of the first state.
func (a *automaton) ends(state, b uint32) bool {
	for depth := a.of(b).depth; a.of(state).depth > depth; {
		state = a.of(state).behind
	}
	return state == b
}

// bytes returns the approximate memory in bytes.
func (a *automaton) bytes() int { return 4*len(a.rows) + 12*len(a.said) + 20*len(a.links) + skipBytes }

// trie holds the patterns by their common beginnings. The first child of a node is the node after
// it, unless that is the child of another; all others are in more. Node 0 is the root.
type trie struct {
	on    []byte // the byte that leads to the node after it
	next  []bool // whether the node after it is its child
	depth []int32
	found []int32 // length of the pattern that ends in it; 0 = none
	more  map[int32][]branch
}

type branch struct {
	on byte
	to int32
}

func newTrie(nodes int) *trie {
	return &trie{on: make([]byte, 1, nodes), next: make([]bool, 1, nodes), depth: make([]int32, 1, nodes), found: make([]int32, 1, nodes), more: map[int32][]branch{}}
}

func (t *trie) put(pattern string) {
	n := int32(0)
	for i := range len(pattern) {
		n = t.child(n, pattern[i])
	}
	t.found[n] = int32(len(pattern))
}

// child returns the child of a node for a byte, and makes it if there is none.
func (t *trie) child(n int32, b byte) int32 {
	if t.next[n] && t.on[n] == b {
		return n + 1
	}
	all := t.more[n]
	if i := slices.IndexFunc(all, func(m branch) bool { return m.on == b }); i >= 0 {
		return all[i].to
	}
	made := int32(len(t.on))
	t.on, t.next, t.depth, t.found = append(t.on, 0), append(t.next, false), append(t.depth, t.depth[n]+1), append(t.found, 0)
	if made == n+1 {
		t.on[n], t.next[n] = b, true
	} else {
		t.more[n] = append(all, branch{b, made})
	}
	return made
}

// each calls f with the children of a node.
func (t *trie) each(n int32, f func(b byte, child int32)) {
	if t.next[n] {
		f(t.on[n], n+1)
	}
	for _, m := range t.more[n] {
		f(m.on, m.to)
	}
}

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
