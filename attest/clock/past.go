package clock

import (
	"cmp"
	"slices"
)

// maxSpans bounds what a Past keeps.
const maxSpans = 64

// Past is which single-use values a memory has dropped, by the moment until which each
// was good. After the clock was set back such a value may come again, and nothing can
// tell whether it was used. The zero Past holds nothing. It is not safe for concurrent use.
type Past struct {
	spans []span // by from, none touches the next
}

type span struct{ from, to int64 }

// Add notes that everything that was good until a moment from from to to may have been
// dropped. Moments are numbers of one unit. Beyond 64 spans the two that are closest
// become one: Past then covers more than was dropped, never less.
func (p *Past) Add(from, to int64) {
	if n := len(p.spans); n > 0 && from >= p.spans[n-1].from && from <= p.spans[n-1].to+1 { // as almost always
		p.spans[n-1].to = max(p.spans[n-1].to, to)
		return
	}
	p.spans = append(p.spans, span{from, to})
	slices.SortFunc(p.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	merged := p.spans[:1]
	for _, s := range p.spans[1:] {
		if last := &merged[len(merged)-1]; s.from <= last.to+1 {
			last.to = max(last.to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	p.spans = merged
	if len(p.spans) <= maxSpans {
		return
	}
	closest := 1
	for i := 2; i < len(p.spans); i++ {
		if p.spans[i].from-p.spans[i-1].to < p.spans[closest].from-p.spans[closest-1].to {
			closest = i
		}
	}
	p.spans[closest-1].to = p.spans[closest].to
	p.spans = slices.Delete(p.spans, closest, closest+1)
}

// Has reports whether something that was good until then may have been dropped.
func (p *Past) Has(until int64) bool {
	i, _ := slices.BinarySearchFunc(p.spans, until, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	return i < len(p.spans) && p.spans[i].from <= until
}
