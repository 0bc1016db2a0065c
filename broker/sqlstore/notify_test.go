package sqlstore_test

import (
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/storetest"
)

//ebb:invariant I10 Only one replica at a time sends a given notification
//ebb:invariant I10 A sender whose claim on a notification has passed to another sender cannot record its outcome
func TestNotify(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		storetest.RunNotify(t, func(t *testing.T) func() storetest.NotifyStore {
			url := empty(t)
			return func() storetest.NotifyStore { return open(t, url) }
		})
	})
}

func TestReach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		ctx := t.Context()
		s := open(t, empty(t))
		at := time.Now().Truncate(time.Millisecond).UTC()
		ana := people.Reach{Person: "sso:ana", Mail: "ana@example.com", Roles: []string{"approver"}, Groups: []string{"web"}, Also: []string{"ana"}, SeenAt: at, Preferences: people.DefaultPreferences()}
		set := func(person string, to people.Preferences) error {
			return s.ChangePreferences(ctx, person, func(w *people.Preferences) error { *w = to; return nil })
		}
		if err := set(ana.Person, ana.Preferences); !errors.Is(err, people.ErrNone) {
			t.Errorf("a stranger's: %v", err)
		}
		if err := s.Know(ctx, ana); err != nil {
			t.Fatal(err)
		}
		ana.Preferences.Low, ana.Preferences.QuietFrom, ana.Preferences.Zone = people.Never, 22*60, "Europe/Berlin"
		if err := set(ana.Person, ana.Preferences); err != nil {
			t.Fatal(err)
		}
		// A new sign-in updates the groups and keeps the preferences.
		ana.Groups, ana.SeenAt = []string{"ops"}, at.Add(time.Minute)
		if err := s.Know(ctx, ana); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Reach(ctx, ana.Person); err != nil || !reflect.DeepEqual(got, ana) {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, other := range []people.Reach{{Person: "bo", SeenAt: at}, {Person: "old", Mail: "o@example.com", SeenAt: at.Add(-time.Hour)}} {
			if err := s.Know(ctx, other); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Reachable(ctx, at); err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], ana) || got[1].Person != "bo" {
			t.Errorf("got %+v, %v", got, err)
		}
		// Concurrent changes are all kept, and an error of one changes nothing.
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				err := s.ChangePreferences(ctx, ana.Person, func(w *people.Preferences) error {
					if w.Views == nil {
						w.Views = people.Views{"/audit": {Fields: map[string]map[string]string{}}}
					}
					w.Views["/audit"].Fields[strconv.Itoa(i)] = map[string]string{"kind": "lease."}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		odd := errors.New("odd")
		if err := s.ChangePreferences(ctx, ana.Person, func(w *people.Preferences) error { w.Views = nil; return odd }); !errors.Is(err, odd) {
			t.Error(err)
		}
		if got, err := s.Reach(ctx, ana.Person); err != nil || got.Preferences.Views.Len() != 8 || got.Preferences.Low != people.Never {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, bad := range []people.Preferences{{}, {High: "x", Medium: people.AtOnce, Low: people.AtOnce}, {High: people.AtOnce, Medium: people.AtOnce, Low: people.AtOnce, QuietTo: 1440}, {High: people.AtOnce, Medium: people.AtOnce, Low: people.AtOnce, Zone: "Mars/Phobos"}} {
			if err := set(ana.Person, bad); err == nil {
				t.Errorf("taken: %+v", bad)
			}
		}
	})
}
