package redact

import "slices"

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
