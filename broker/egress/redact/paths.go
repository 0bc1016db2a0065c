package redact

// path is one way to read a text with escapes, up to at.
type path struct {
	at    int
	state uint32
	plain int   // number of bytes at its end that are not part of an escape
	node  int32 // the escape before those; none = none
}

// node is an escape on a path: it begins at from and has n bytes, and plain bytes without escapes
// stand before it.
type node struct {
	from  int
	n     int
	plain int
	prev  int32
}

const none = -1

// maxPaths is the maximum number of paths at one time. Only texts that are made to reach it have
// more; there a possible secret is treated as a secret.
const maxPaths = 64

// branch reads t from p on, with the automaton in state, and follows all escapes that may be part
// of a secret until no path is left. held is the index from which on the text may be the beginning
// of a secret.
func (s *search) branch(t []byte, p int, state uint32, depth int, whole bool) (_ int, _ uint32, held int) {
	held = len(t)
	s.paths, s.nodes = s.paths[:0], s.nodes[:0]
	hold := func(w path) {
		if d := int(s.a.of(w.state).depth); !whole && (d > 0 || depth == depths) {
			held = min(held, s.start(w, d))
		}
	}
	for ; p < len(t); p++ {
		plain := path{at: p, state: state, plain: p, node: none}
		if s.begins(t[p]) {
			edges, short := s.at(t, p)
			known := false // whether a path has all of the automaton's state
			for _, w := range s.paths {
				if w.at == p {
					s.fork(w, edges)
					if short {
						hold(w)
					}
					known = known || w.plain >= int(s.a.of(state).depth)
				}
			}
			if !known {
				s.fork(plain, edges)
				if short {
					hold(plain)
				}
			}
		}
		s.forward(t[p], p)
		if state = s.a.step(state, t[p]); state >= hit {
			state &^= hit
			s.cover(p+1-int(s.a.of(state).found), p+1)
		}
		if len(s.paths) == 0 {
			return p + 1, state, held
		}
	}
	for _, w := range s.paths {
		hold(w)
	}
	return p, state, held
}

// forward advances the paths at p by the byte there. A path ends when a possible secret has begun
// after its last escape, because the reading without that escape is then the same.
func (s *search) forward(b byte, p int) {
	kept := s.paths[:0]
	for _, w := range s.paths {
		if w.at == p {
			w.at, w.plain = p+1, w.plain+1
			if w.state = s.a.step(w.state, b); w.state >= hit {
				w.state &^= hit
				s.cover(s.start(w, int(s.a.of(w.state).found)), w.at)
			}
			if int(s.a.of(w.state).depth) <= w.plain {
				continue
			}
		}
		kept = append(kept, w)
	}
	s.paths = kept
}

// fork adds the paths that read an escape.
func (s *search) fork(w path, edges []edge) {
	for _, e := range edges {
		if !s.matters(e) {
			continue
		}
		s.nodes = append(s.nodes, node{from: w.at, n: int(e.n), plain: w.plain, prev: w.node})
		to := path{at: e.to, state: w.state, node: int32(len(s.nodes) - 1)}
		for i, b := range e.out[:e.n] {
			if to.state = s.a.step(to.state, b); to.state >= hit {
				to.state &^= hit
				s.cover(s.start(to, int(s.a.of(to.state).found)+int(e.n)-1-i), to.at)
			}
		}
		s.enter(to)
	}
}

// enter adds a path, unless another one covers it.
func (s *search) enter(w path) {
	if s.a.of(w.state).depth == 0 {
		return
	}
	for i, o := range s.paths {
		if o.at == w.at && s.a.ends(o.state, w.state) {
			return
		}
		if o.at == w.at && s.a.ends(w.state, o.state) {
			s.paths[i] = w
			return
		}
	}
	if len(s.paths) == maxPaths {
		s.cover(s.start(w, int(s.a.of(w.state).depth)), w.at)
		return
	}
	s.paths = append(s.paths, w)
}

// start returns the index in the text of the last n bytes that were read on a path.
func (s *search) start(w path, n int) int {
	at := w.at
	for w.node != none && n > w.plain {
		e := s.nodes[w.node]
		if n -= w.plain + e.n; n <= 0 {
			return e.from
		}
		at, w.plain, w.node = e.from, e.plain, e.prev
	}
	return at - n
}
