package sealtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/seal"
)

// ID and Another are ids of data keys.
const ID, Another = "0011223344556677", "7766554433221100"

// DataKey returns the data key that the suite wraps: 32 bytes.
func DataKey() []byte { return []byte(strings.Repeat("d", 32)) }

// Suite is one kind under test.
type Suite struct {
	Wrapper seal.Wrapper
	// Other wraps with another wrapping key of the same kind.
	Other seal.Wrapper
	// Rotate replaces the wrapping key, and returns a wrapper that opens texts of both.
	Rotate func(*testing.T) seal.Wrapper
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	t.Run("wrapped for one id", s.bound)
	t.Run("every change is noticed", s.changes)
	t.Run("foreign texts", s.foreign)
	t.Run("together", s.together)
	t.Run("rotation", s.rotation) // last: it changes the key
}

func (s Suite) wrap(t *testing.T, w seal.Wrapper) string {
	t.Helper()
	text, err := w.Wrap(t.Context(), ID, DataKey())
	if err != nil {
		t.Fatalf("Wrap: %v", err)
	}
	return text
}

func (s Suite) bound(t *testing.T) {
	text := s.wrap(t, s.Wrapper)
	if text == "" || strings.Contains(text, "dddd") || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("the wrapped form is %q", text)
	}
	if got, err := s.Wrapper.Unwrap(t.Context(), ID, text); err != nil || !bytes.Equal(got, DataKey()) {
		t.Errorf("Unwrap: %v", err)
	}
	if _, err := s.Wrapper.Unwrap(t.Context(), Another, text); !lost(err) {
		t.Errorf("under another id: %v", err)
	}
	if s.Wrapper.Stale(t.Context(), text) {
		t.Error("a text that was just wrapped is stale")
	}
	if err := s.Wrapper.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// lost reports whether a text cannot be opened for good, as opposed to an unavailable key store.
func lost(err error) bool { return errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrDamaged) }

func (s Suite) changes(t *testing.T) {
	text := s.wrap(t, s.Wrapper)
	step := max(len(text)/24, 1) // the key may be on another server: fewer calls
	for i := 0; i < len(text); i += step {
		for _, bad := range []string{text[:i], text[:i] + "\x00" + text[i+1:], text[:i] + "A" + text[i+1:], text[:i] + "~" + text[i:]} {
			if bad == text {
				continue
			}
			if got, err := s.Wrapper.Unwrap(t.Context(), ID, bad); !lost(err) {
				t.Errorf("changed at %d: %v (%d bytes)", i, err, len(got))
			}
		}
	}
}

func (s Suite) foreign(t *testing.T) {
	texts := []string{
		"", ":", "file:", "file:0011223344556677:AAAA", "vault:v1:AAAA", "kms:x:y:AAAA",
		"kms:1234abcd-12ab-34cd-56ef-1234567890ab:-:AAAA", strings.Repeat("A", 1<<16), "é", s.wrap(t, s.Other),
	}
	for _, text := range texts {
		if _, err := s.Wrapper.Unwrap(t.Context(), ID, text); !lost(err) {
			t.Errorf("Unwrap(%.40q): %v", text, err)
		}
	}
}

func (s Suite) together(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			text, err := s.Wrapper.Wrap(t.Context(), ID, DataKey())
			if err != nil {
				t.Errorf("Wrap: %v", err)
				return
			}
			if got, err := s.Wrapper.Unwrap(t.Context(), ID, text); err != nil || !bytes.Equal(got, DataKey()) || s.Wrapper.Stale(t.Context(), text) {
				t.Errorf("Unwrap: %v", err)
			}
		})
	}
	wg.Wait()
}

func (s Suite) rotation(t *testing.T) {
	before := s.wrap(t, s.Wrapper)
	w := s.Rotate(t)
	if !w.Stale(t.Context(), before) {
		t.Error("a text of the earlier key is not stale")
	}
	if got, err := w.Unwrap(t.Context(), ID, before); err != nil || !bytes.Equal(got, DataKey()) {
		t.Errorf("a text of the earlier key does not open: %v", err)
	}
	after := s.wrap(t, w)
	if w.Stale(t.Context(), after) {
		t.Error("a text of the new key is stale")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if w.Stale(gone, after) {
		t.Error("stale although the key could not be read")
	}
}
