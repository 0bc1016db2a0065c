package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// sink is a file that reports what was written.
type sink struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.text.Write(p)
}

func (s *sink) lines() (n, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), "\n"), s.writes
}

func (s *sink) await(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		n, _ := s.lines()
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d lines came, want %d", n, want)
		}
	}
}

// No line is lost under concurrent logging, and all lines are whole and in the
// order of each writer.
func TestLinesAreAllWritten(t *testing.T) {
	t.Parallel()
	s := &sink{}
	log, flush := newLogger(s, "info", "json")
	const writers, each = 8, 2000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				log.Info("request", "writer", w, "n", i)
			}
		})
	}
	wg.Wait()
	flush()
	if n, writes := s.lines(); n != writers*each || writes > n/10 {
		t.Errorf("%d lines in %d writes, want %d in few", n, writes, writers*each)
	}
	var next [writers]int
	for line := range strings.Lines(s.text.String()) {
		var w, i int
		at := strings.Index(line, `"writer":`)
		if _, err := fmt.Sscanf(line[max(at, 0):], `"writer":%d,"n":%d}`, &w, &i); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if next[w] != i {
			t.Fatalf("line %d of writer %d came in the place of %d", i, w, next[w])
		}
		next[w]++
	}
}

// A line is written after the delay; a warning is written at once, with the
// lines before it.
func TestLinesDoNotWaitForCompany(t *testing.T) {
	t.Parallel()
	s := &sink{}
	log, _ := newLogger(s, "info", "text")
	log.Info("alone")
	s.await(t, 1)
	log.Info("one more")
	log.With("a", 1).WithGroup("g").Warn("trouble")
	if n, _ := s.lines(); n != 3 {
		t.Errorf("%d lines after a warning, want 3", n)
	}
}
