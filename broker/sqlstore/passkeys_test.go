package sqlstore_test

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

func TestPasskeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		ctx := t.Context()
		s := open(t, empty(t))
		at := time.Now().Truncate(time.Millisecond).UTC()
		key := people.Passkey{ID: []byte{0, 1, 255}, Person: "sso:ana", Name: "Ü key", PublicKey: []byte{9, 0}, Count: 3, Synced: true, CreatedAt: at}
		if err := s.AddPasskey(ctx, key); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Passkeys(ctx, "sso:ana"); err != nil || !reflect.DeepEqual(got, []people.Passkey{key}) {
			t.Errorf("got %+v, %v", got, err)
		}
		stolen := key
		stolen.Person = "bo"
		if s.AddPasskey(ctx, stolen) == nil {
			t.Error("an id was taken twice")
		}
		for _, bad := range []people.Passkey{{}, {ID: []byte{1}, Person: "a", CreatedAt: at}, {ID: []byte{1}, PublicKey: []byte{1}, CreatedAt: at}, {ID: make([]byte, 2000), Person: "a", PublicKey: []byte{1}, CreatedAt: at}} {
			if s.AddPasskey(ctx, bad) == nil {
				t.Errorf("taken: %+v", bad)
			}
		}
		for count, want := range map[uint32]error{0: people.ErrCounted, 2: people.ErrCounted, 3: people.ErrCounted} {
			if err := s.UsePasskey(ctx, "sso:ana", key.ID, count, at); !errors.Is(err, want) {
				t.Errorf("count %d: %v", count, err)
			}
		}
		if err := s.UsePasskey(ctx, "bo", key.ID, 9, at); !errors.Is(err, people.ErrNoPasskey) {
			t.Errorf("somebody else's: %v", err)
		}
		// Of two concurrent uses with one count, one wins.
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if s.UsePasskey(ctx, "sso:ana", key.ID, 4, at.Add(time.Second)) == nil {
					won.Add(1)
				}
			})
		}
		if wg.Wait(); won.Load() != 1 {
			t.Errorf("%d won", won.Load())
		}
		if got, err := s.Passkeys(ctx, "sso:ana"); err != nil || got[0].Count != 4 || !got[0].UsedAt.Equal(at.Add(time.Second)) {
			t.Errorf("after a use: %+v, %v", got, err)
		}
		// A passkey without a counter may be used any number of times.
		silent := people.Passkey{ID: []byte{7}, Person: "sso:ana", PublicKey: []byte{1}, CreatedAt: at.Add(time.Second)}
		if err := s.AddPasskey(ctx, silent); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.UsePasskey(ctx, "sso:ana", silent.ID, 0, at); err != nil {
				t.Error(err)
			}
		}
		for person, want := range map[string]error{"bo": people.ErrNoPasskey, "sso:ana": nil} {
			if err := s.RenamePasskey(ctx, person, key.ID, "Ö key"); !errors.Is(err, want) {
				t.Errorf("%s renames it: %v", person, err)
			}
		}
		if s.RenamePasskey(ctx, "sso:ana", key.ID, "\xff") == nil {
			t.Error("a name that is no text")
		}
		if got, err := s.Passkeys(ctx, "sso:ana"); err != nil || got[0].Name != "Ö key" || got[0].Count != 4 || got[1].Name != "" {
			t.Errorf("renamed: %+v, %v", got, err)
		}
		if err := s.RemovePasskey(ctx, "bo", key.ID); !errors.Is(err, people.ErrNoPasskey) {
			t.Errorf("somebody else's: %v", err)
		}
		if err := s.RemovePasskey(ctx, "sso:ana", key.ID); err != nil {
			t.Error(err)
		}
		if got, err := s.Passkeys(ctx, "sso:ana"); err != nil || len(got) != 1 {
			t.Errorf("after removal: %+v, %v", got, err)
		}
	})
}
