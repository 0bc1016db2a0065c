package githubtest_test

import (
	"sync"
	"testing"
)

// listener is a test that only counts what would fail it.
type listener struct {
	*testing.T
	mu sync.Mutex
	n  int
}

func (l *listener) Errorf(string, ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
