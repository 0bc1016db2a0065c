package redact

import (
	"errors"
	"fmt"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// Redactor looks for a set of secrets. It is safe for concurrent use, and holds them
// in clear: who has one lets go of it when they are over.
type Redactor struct{ a *automaton }

var errShort = fmt.Errorf("redact: a secret is shorter than %d bytes: it would be found everywhere", MinSecret)

// New makes a Redactor. What cannot be looked for is an error: no answer may go back
// unread.
func New(secrets ...string) (*Redactor, error) {
	if len(secrets) == 0 {
		return nil, errors.New("redact: there is no secret to look for")
	}
	var patterns []string
	for _, s := range secrets {
		if len(s) < MinSecret {
			return nil, errShort
		}
		patterns = append(patterns, forms(s)...)
	}
	a, err := newAutomaton(distinct(patterns))
	if err != nil {
		return nil, err
	}
	return &Redactor{a: a}, nil
}

// Bytes is what it takes of memory, about.
func (r *Redactor) Bytes() int { return r.a.bytes() }

// Text is s with a mark in place of each secret, and how many there were.
func (r *Redactor) Text(s string) (string, int) {
	sc := scan{a: r.a}
	out := sc.feed(nil, []byte(s))
	out = sc.end(out)
	if sc.marks == 0 {
		return s, 0
	}
	return string(out), sc.marks
}

// Beginning is Text for the first bytes of a longer text: what may be the beginning of a secret
// that ends behind them is left out.
func (r *Redactor) Beginning(s string) (string, int) {
	sc := scan{a: r.a}
	out := sc.feed(nil, []byte(s))
	out = sc.broken(out)
	return string(out), sc.marks
}

// scan is one text as it comes in.
type scan struct {
	a     *automaton
	state uint32
	held  []byte // read and not given on: what may still become a secret
	spans []span // of held: what is secret, in order, apart from each other
	marks int
}

// span is a part of held. marked: its mark has been written, when its beginning was.
type span struct {
	from, to int
	marked   bool
}

// feed reads p and appends to out what can no longer become part of a secret. What it
// holds back is as deep as its state, so that what a pattern covers is all held.
func (s *scan) feed(out, p []byte) []byte {
	state, n := s.state, len(s.held)
	s.held = append(s.held, p...)
	for {
		if n, state = s.a.next(s.held, n, state); state < hit {
			break
		}
		state &^= hit
		s.cover(n-int(s.a.of(state).found), n)
	}
	s.state = state
	return s.release(out, len(s.held)-int(s.a.of(state).depth))
}

// hold has it hold what may become part of a secret of text, which begins with what it held and
// goes on with what came since. It says how much of text comes before that; secret: one has ended
// in it, and nothing is changed.
func (s *scan) hold(text []byte) (before int, secret bool) {
	_, state := s.a.next(text, len(s.held), s.state)
	if state >= hit {
		return 0, true
	}
	before = len(text) - int(s.a.of(state).depth)
	s.held, s.state = append(s.held[:0], text[before:]...), state
	return before, false
}

// end appends what is left: nothing comes after it.
func (s *scan) end(out []byte) []byte {
	s.state = 0
	return s.release(out, len(s.held))
}

// broken appends the marks of what was found, and nothing else that was held back: it
// may have been the beginning of a secret, of which nobody will see the end.
func (s *scan) broken(out []byte) []byte {
	for _, sp := range s.spans {
		if !sp.marked {
			out = append(out, Mark...)
			s.marks++
		}
	}
	s.spans, s.held, s.state = nil, nil, 0
	return out
}

// cover marks a part as secret, and joins it with those that it overlaps.
func (s *scan) cover(from, to int) {
	joined := span{from: from, to: to}
	for n := len(s.spans); n > 0 && s.spans[n-1].to > from; n = len(s.spans) {
		last := s.spans[n-1]
		joined.from, joined.marked = min(joined.from, last.from), joined.marked || last.marked
		s.spans = s.spans[:n-1]
	}
	s.spans = append(s.spans, joined)
}

// release gives on the first n bytes of held. A secret may reach over that point: its
// mark is written, and what comes of it later is not.
func (s *scan) release(out []byte, n int) []byte {
	at, kept := 0, s.spans[:0]
	for _, sp := range s.spans {
		if sp.from >= n {
			kept = append(kept, span{from: sp.from - n, to: sp.to - n, marked: sp.marked})
			continue
		}
		out = append(out, s.held[at:sp.from]...)
		if !sp.marked {
			out = append(out, Mark...)
			s.marks++
		}
		if at = sp.to; sp.to > n {
			at = n
			kept = append(kept, span{from: 0, to: sp.to - n, marked: true})
		}
	}
	out = append(out, s.held[at:n]...)
	s.spans = kept
	if n > 0 {
		s.held = append(s.held[:0], s.held[n:]...)
	}
	return out
}
