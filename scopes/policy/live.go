package policy

import "sync/atomic"

// Live holds the Set in force while it is being replaced: readers get one whole Set or the next, without locks. The zero
// Live is ready, and denies everything until a Set is put in.
type Live struct {
	current atomic.Pointer[Set]
}

// NewLive holds the set.
func NewLive(set *Set) *Live {
	l := &Live{}
	l.Replace(set)
	return l
}

// Current is the Set in force, never nil. A decision should be made on one Current from beginning to end.
func (l *Live) Current() *Set {
	if set := l.current.Load(); set != nil {
		return set
	}
	return &Set{}
}

// Replace puts another Set in force and returns the one before. When a reload fails to load, do not call it: the last good
// Set stays. Nil denies everything.
func (l *Live) Replace(set *Set) (before *Set) {
	if set == nil {
		set = &Set{}
	}
	if old := l.current.Swap(set); old != nil {
		return old
	}
	return &Set{}
}
