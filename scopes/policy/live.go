package policy

import "sync/atomic"

// Live holds the Set in force and can replace it: readers get one complete Set or the next, without
// locks. The zero Live is ready, and denies everything until Replace is called.
type Live struct {
	current atomic.Pointer[Set]
}

// NewLive returns a Live that holds set.
func NewLive(set *Set) *Live {
	l := &Live{}
	l.Replace(set)
	return l
}

// Current returns the Set in force, never nil. Use one Current for a whole decision.
func (l *Live) Current() *Set {
	if set := l.current.Load(); set != nil {
		return set
	}
	return &Set{}
}

// Replace puts another Set in force and returns the previous one. Do not call it after a failed
// reload: the last valid Set stays in force. Nil denies everything.
func (l *Live) Replace(set *Set) (before *Set) {
	if set == nil {
		set = &Set{}
	}
	if old := l.current.Swap(set); old != nil {
		return old
	}
	return &Set{}
}
