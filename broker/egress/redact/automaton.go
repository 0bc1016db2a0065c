package redact

import (
	"errors"
	"math/bits"
)

// automaton recognises a set of patterns, none of them empty. A state is the longest
// end of what was read that begins a pattern; 0 is the root.
//
// A token of 8 KiB has some 460,000 states, nearly all of them in the middle of one
// pattern: such a one is a link. The others, where patterns part and where texts are most of
// the time, have a row that says where each byte leads. A state with a row is where its row
// begins; those of links come after them.
type automaton struct {
	class [256]uint16 // bytes that occur in no pattern share class 0
	shift int         // a row has 1<<shift places
	rows  []uint32    // the next state by class; with hit, when a pattern ends there
	said  []memory    // of states with rows
	links []link
	first [256]bool // bytes that begin a pattern
	skips *skips
}

// link is a state that one byte leads on from. Any other goes on where it would from the
// state behind, which is the next longest end.
type link struct {
	memory
	behind uint32
	to     uint32 // with hit, as in rows
	on     byte
}

// memory is what a state knows of what was read: how much it remembers, and the longest
// pattern that ends there, 0 = none.
type memory struct{ depth, found int32 }

// hit marks states in which a pattern ends.
const hit = 1 << 31

// maxStates are those of some 38 KiB of secrets; one takes 20 bytes.
const maxStates = 2 << 20

// rowDepth is how deep all states have rows: few texts agree with a pattern for longer by
// chance.
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

// link makes the trie a machine: where a pattern does not go on, it goes to the longest
// end of what was read that begins one. Breadth first, since that end is shorter.
func (a *automaton) link(t *trie) {
	as := a.number(t)
	behind := make([]uint32, len(as)) // of a node of the trie: the state
	queue := make([]int32, 1, len(as))
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		end := behind[n]
		a.flat(as[n], end)
		if !t.next[n] && len(t.more[n]) == 0 { // whatever comes, the state behind says where to
			a.lead(as[n], 0, a.step(end, 0))
		}
		t.each(n, func(b byte, child int32) {
			if n != 0 {
				behind[child] = a.step(end, b) &^ hit
			}
			// The state behind may be as deep as n, and so not have had its turn: all that is
			// known of a state is known before anything of its depth has.
			to := as[child]
			known := memory{depth: t.depth[child], found: max(t.found[child], a.of(behind[child]).found)}
			*a.of(to) = known
			if known.found > 0 {
				to |= hit
			}
			a.lead(as[n], b, to)
			queue = append(queue, child)
		})
	}
}

// number says which state each node of a trie is.
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

// of is what a state knows.
func (a *automaton) of(state uint32) *memory {
	if n := uint32(len(a.rows)); state >= n {
		return &a.links[state-n].memory
	}
	return &a.said[state>>a.shift]
}

// flat has a state lead wherever the one behind it does.
func (a *automaton) flat(state, behind uint32) {
	if n := uint32(len(a.rows)); state >= n {
		a.links[state-n].behind = behind
		return
	}
	if state != 0 {
		for b, c := range a.class {
			if c != 0 {
				a.rows[state+uint32(c)] = a.step(behind, byte(b))
			}
		}
	}
}

// lead has a state lead on by a byte.
func (a *automaton) lead(state uint32, b byte, to uint32) {
	if n := uint32(len(a.rows)); state >= n {
		a.links[state-n].on, a.links[state-n].to = b, to
		return
	}
	a.rows[state+uint32(a.class[b])] = to
}

// step reads one byte: the next state, with hit.
func (a *automaton) step(state uint32, b byte) uint32 {
	n := uint32(len(a.rows))
	for state >= n {
		l := &a.links[state-n]
		if l.on == b {
			return l.to
		}
		state = l.behind
	}
	return a.rows[state+uint32(a.class[b])]
}

// next reads text from i on, to behind where a pattern ends or to its end: the state there, with
// hit in the first case.
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

// bytes is what it takes of memory, about.
func (a *automaton) bytes() int { return 4*len(a.rows) + 8*len(a.said) + 20*len(a.links) + skipBytes }
