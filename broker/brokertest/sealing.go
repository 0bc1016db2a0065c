package brokertest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
)

// Sealer returns a ring whose wrapping key is in a new file and whose data keys are in
// store; with nil they are kept in memory.
func Sealer(t testing.TB, store seal.Store, now func() time.Time) broker.Sealer {
	t.Helper()
	w, err := file.New(file.Config{Path: filepath.Join(t.TempDir(), "sealing.pem")})
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		store = &sealKeys{}
	}
	r, err := seal.New(t.Context(), seal.Config{Wrapper: w, Store: store, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

// sealKeys keeps data keys in memory.
type sealKeys struct {
	mu   sync.Mutex
	keys []seal.Key
}

func (s *sealKeys) SealingKeys(context.Context) ([]seal.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seal.Key(nil), s.keys...), nil
}

func (s *sealKeys) AddSealingKey(_ context.Context, k seal.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, k)
	return nil
}

func (s *sealKeys) RewrapSealingKey(_ context.Context, id, old, wrapped string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if s.keys[i].ID == id && s.keys[i].Wrapped == old {
			s.keys[i].Wrapped = wrapped
		}
	}
	return nil
}
