package redact

import "slices"

// trie is what patterns have in common at their beginnings. The first child of a node is the
// one after it, unless that is another's; all others are in more. Node 0 is the root.
type trie struct {
	on    []byte // leads to the node after it
	next  []bool // that one is its child
	depth []int32
	found []int32 // the pattern that ends in it; 0 = none
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

// child is that of a node by a byte, made if there is none.
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
