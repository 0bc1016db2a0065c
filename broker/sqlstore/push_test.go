package sqlstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

// A person has at most MaxPushes browsers, also when they are added at once. A browser belongs
// to the person who subscribed last, and only that person removes it.
func TestPushes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		ctx := t.Context()
		s := open(t, empty(t))
		at := time.Now().Truncate(time.Millisecond).UTC()
		p := people.Push{ID: "1", Person: "ana", Name: "Firefox Ü", Sealed: "x", CreatedAt: at}
		if err := s.Know(ctx, people.Reach{Person: "bo", SeenAt: at}); err != nil {
			t.Fatal(err)
		}
		for _, person := range []string{"ana", "ana", "bo"} {
			p.Person = person
			if err := s.AddPush(ctx, p); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Pushes(ctx, "bo"); err != nil || !reflect.DeepEqual(got, []people.Push{p}) {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, err := s.Pushes(ctx, "ana"); err != nil || len(got) != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		if r, err := s.Reach(ctx, "bo"); err != nil || r.Browsers != 1 {
			t.Errorf("got %+v, %v", r, err)
		}
		if err := s.RemovePush(ctx, "ana", "1"); !errors.Is(err, people.ErrNoPush) {
			t.Errorf("another person removed it: %v", err)
		}
		if err := s.RemovePush(ctx, "bo", "1"); err != nil {
			t.Error(err)
		}
		for _, bad := range []people.Push{{}, {ID: "1", Person: "a", CreatedAt: at}, {ID: "1", Sealed: "x", CreatedAt: at}, {ID: "1", Person: "a", Sealed: "x"}, {ID: "1", Person: "a\xff", Sealed: "x", CreatedAt: at}} {
			if s.AddPush(ctx, bad) == nil {
				t.Errorf("taken: %+v", bad)
			}
		}
		var added atomic.Int32
		var wait sync.WaitGroup
		for i := range 3 * people.MaxPushes {
			wait.Go(func() {
				switch err := s.AddPush(ctx, people.Push{ID: fmt.Sprint(i), Person: "eve", Sealed: "x", CreatedAt: at}); {
				case err == nil:
					added.Add(1)
				case !errors.Is(err, people.ErrPushes):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if added.Load() != people.MaxPushes {
			t.Errorf("%d were added", added.Load())
		}
		if p.ID = "bo's"; s.AddPush(ctx, p) != nil {
			t.Fatal("bo has no browser")
		}
		eve := p
		if eve.Person = "eve"; !errors.Is(s.AddPush(ctx, eve), people.ErrPushes) {
			t.Error("an eleventh browser was added")
		}
		if got, err := s.Pushes(ctx, "bo"); err != nil || len(got) != 1 {
			t.Errorf("a refused subscription removed that of another person: %+v, %v", got, err)
		}
	})
}
