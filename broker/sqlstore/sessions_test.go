package sqlstore_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

func aSession(id, person string, at time.Time) people.Session {
	return people.Session{ID: id, Act: "act-" + id, Person: person, Name: "Ana Ü", Roles: []string{"approver"}, Groups: []string{"web", "a b"}, Also: []string{"ana@example.com"}, Method: "oidc", ACR: "phr",
		Agent: "Mozilla", AuthAt: at, GroupsAt: at, CreatedAt: at, SeenAt: at, ExpiresAt: at.Add(8 * time.Hour)}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		ctx, url := t.Context(), empty(t)
		here, there := open(t, url), open(t, url)
		at := time.Now().Truncate(time.Millisecond).UTC()
		want := aSession("s1", "ana", at)
		if err := here.AddSession(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got, err := there.Session(ctx, "s1"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if here.AddSession(ctx, want) == nil {
			t.Error("an id was taken twice")
		}
		for _, id := range []string{"", "s2", "S1", "s1'--", "\x00"} {
			if _, err := here.Session(ctx, id); err == nil || id != "\x00" && !errors.Is(err, people.ErrNone) {
				t.Errorf("Session(%q) = %v", id, err)
			}
		}
		want.SeenAt = at.Add(time.Minute)
		if err := there.SeeSession(ctx, "s1", want.SeenAt); err != nil {
			t.Fatal(err)
		}
		if got, err := here.Session(ctx, "s1"); err != nil || !got.SeenAt.Equal(want.SeenAt) {
			t.Errorf("seen at %v, %v", got.SeenAt, err)
		}
		if err := here.SeeSession(ctx, "s2", at); !errors.Is(err, people.ErrNone) {
			t.Errorf("seeing none = %v", err)
		}
		for _, bad := range []people.Session{{}, {ID: "x", Person: "ana", CreatedAt: at, ExpiresAt: at}, aSession("\xff", "ana", at), aSession("x", "", at)} {
			if here.AddSession(ctx, bad) == nil {
				t.Errorf("taken: %+v", bad)
			}
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		ctx := t.Context()
		s := open(t, empty(t))
		at := time.Now()
		for _, p := range []people.Session{aSession("a1", "ana", at), aSession("a2", "ana", at), aSession("a3", "ana", at), aSession("b1", "bo", at), aSession("old", "bo", at.Add(-48*time.Hour))} {
			if err := s.AddSession(ctx, p); err != nil {
				t.Fatal(err)
			}
		}
		if list, err := s.Sessions(ctx, "ana"); err != nil || len(list) != 3 || list[0].ID != "a1" || list[2].ID != "a3" {
			t.Errorf("the sessions of ana: %+v, %v", list, err)
		}
		if err := s.SeeSession(ctx, "a3", at.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if list, err := s.Sessions(ctx, "ana"); err != nil || len(list) != 3 || list[0].ID != "a3" {
			t.Errorf("the last used is not first: %+v, %v", list, err)
		}
		for _, nobody := range []string{"", "an", "ANA", "a%", "ana' OR '1'='1"} {
			if list, err := s.Sessions(ctx, nobody); err != nil || len(list) != 0 {
				t.Errorf("the sessions of %q: %+v, %v", nobody, list, err)
			}
		}
		if n, err := s.EndSessions(ctx, "ana", "b1"); n != 0 || err != nil {
			t.Errorf("another person's session: %d, %v", n, err)
		}
		if n, err := s.EndSessions(ctx, "ana", "a1"); n != 1 || err != nil {
			t.Errorf("one: %d, %v", n, err)
		}
		if n, err := s.EndSessions(ctx, "ana"); n != 2 || err != nil {
			t.Errorf("all: %d, %v", n, err)
		}
		if _, err := s.Session(ctx, "b1"); err != nil {
			t.Error(err)
		}
		// A new session removes long-expired ones, and keeps recently expired ones.
		if err := s.AddSession(ctx, aSession("c1", "cy", at)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Session(ctx, "old"); !errors.Is(err, people.ErrNone) {
			t.Errorf("an old session = %v", err)
		}
	})
}
