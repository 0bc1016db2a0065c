package attesttest

import (
	"strings"
	"sync"
)

// Log is text that is read while others write it. Its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
