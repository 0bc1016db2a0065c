package sqlstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/scopes"
)

// whole matches a plan step that reads a whole table of the store.
var whole = regexp.MustCompile(`SCAN (l|t|u|v|r|leases|tasks|requests|votes|audit_entries|upstream_leases)\b|Seq Scan`)

// TestFigurePlans: every statement finds its window by an index on the time that bounds
// it.
func TestFigurePlans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url := empty(t)
		if strings.HasPrefix(url, "postgres") { // PostgreSQL reads small tables completely otherwise
			url += "&enable_seqscan=off"
		}
		s := open(t, url)
		for name, text := range sqlstore.FigureTexts() {
			args := make([]any, strings.Count(text, "?"))
			for i := range args {
				args[i] = 1000 + i
			}
			plan, err := s.Plan(t.Context(), text, args...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			by := map[string]string{"requests": "requests_created", "refused": "audit_entries_kind", "issued": "leases_issued", "ended": "leases_expires", "scopes": "leases_issued",
				"providers": "leases_issued", "ends": "tasks_closed", "revocations": "upstream_leases_dead", "proofs": "upstream_leases_dead", "votes": "votes_voted", "day": "leases_issued",
				"handed out": "leases_issued", "uses": "audit_entries_kind", "usage by scope": "leases_issued", "usage by owner": "leases_issued", "usage by task": "leases_issued"}[name]
			if found := whole.FindString(plan); found != "" || !strings.Contains(plan, by) {
				t.Errorf("%s reads more than the window (%s), by %q:\n%s", name, found, by, plan)
			}
			if (strings.HasPrefix(name, "usage by") || name == "handed out") && !strings.Contains(plan, "audit_entries_lease") {
				t.Errorf("%s does not ask each credential's own entries:\n%s", name, plan)
			}
			if name == "handed out" && strings.Contains(plan, "audit_entries_kind") {
				t.Errorf("%s reads all uses:\n%s", name, plan)
			}
		}
	})
}

// TestFiguresCut: a window with more rows than the limit begins later, reports that, and
// includes all rows of the remaining part.
func TestFiguresCut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := toFill(t, empty(t))
		task := storetest.Task()
		if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
		first := storetest.Request(task.ID)
		if _, _, err := s.Create(t.Context(), first, broker.Room{}, storetest.Entry("request.created", task.ID)); err != nil {
			t.Fatal(err)
		}
		at := storetest.Epoch.Add(time.Hour).UnixMilli()
		fill := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "+
			"INSERT INTO votes (request_id, voter, voter_groups, place, approve, digest, scope, ttl, code, note, voted_at) "+
			"SELECT '%s', 'p' || i, '[]', i, 1, '', '', 0, '', '', %d + i FROM n", broker.FigureVotes+7, first.ID, at)
		if err := s.Say(t.Context(), fill); err != nil {
			t.Fatal(err)
		}
		now := storetest.Epoch.Add(10 * time.Hour)
		got, err := s.Figures(t.Context(), broker.FigureFilter{From: storetest.Epoch, To: now, Now: now, Cell: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if want := time.UnixMilli(at + 8).UTC(); !got.Cut || !got.From.Equal(want) || len(got.Decisions) != broker.FigureVotes || got.Cells[0].Asked() != 0 {
			t.Errorf("from %v, %d decisions, %+v; want from %v", got.From, len(got.Decisions), got.Cells[0], want)
		}
	})
}

// TestFigureDays: a past day without open leases is computed once a day; a day whose sums
// can still change is computed at each call.
func TestFigureDays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := open(t, empty(t))
		const day = 24 * time.Hour
		from := storetest.Epoch.Truncate(day)
		task := storetest.Task()
		task.OpenedAt, task.Deadline = from, from.Add(40*day)
		if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
		issue := func(in int, scope string) broker.Lease {
			t.Helper()
			r := mint(task.ID)
			at := from.Add(time.Duration(in)*day + time.Hour)
			r.IssueLease.IssuedAt, r.IssueLease.ExpiresAt, r.IssueLease.Scopes = at, at.Add(10*time.Minute), scopes.MustParseSet(scope)
			if err := s.Append(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			return *r.IssueLease
		}
		says := func(now time.Time, want ...int) broker.Figures {
			t.Helper()
			got, err := s.Figures(t.Context(), broker.FigureFilter{From: from, To: from.Add(5 * day), Now: now, Cell: day})
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got.Cells {
				if c.Issued != want[i] || c.Revoked+c.Expired != want[i] {
					t.Errorf("day %d of %v: %+v, want %d", i, now, c, want[i])
				}
			}
			return got
		}
		for i := range 5 {
			issue(i, "orders:eu/1:read")
		}
		issue(0, "orders:eu/2:read")
		issue(2, "orders:eu/2:read")
		issue(2, "orders:eu/2:read")
		now := from.Add(4*day + 12*time.Hour)
		got := says(now, 2, 1, 3, 1, 1)
		if want := []broker.Busy{{Name: "orders:eu/1:read", N: 5}, {Name: "orders:eu/2:read", N: 3}}; !slices.Equal(got.Scopes, want) || len(got.Providers) != 1 || got.Providers[0].N != 8 {
			t.Errorf("%v, %v", got.Scopes, got.Providers)
		}
		// The two newest days are recomputed; the others are still cached.
		for i := range 5 {
			issue(i, "orders:eu/1:read")
		}
		says(now.Add(time.Hour), 2, 1, 3, 2, 2)
		says(now.Add(25*time.Hour), 3, 2, 4, 2, 2)
	})
}

// BenchmarkFigures sums up 30 days in which 100,000 credentials were issued in 1,000 tasks.
func BenchmarkFigures(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := open(b, databases()[engine](b))
			const day = 24 * time.Hour
			together(b, 1000, func(i int) error {
				at := storetest.Epoch.Add(time.Duration(i) * 30 * day / 1000)
				task := storetest.Task()
				task.OpenedAt, task.Deadline = at, at.Add(time.Hour)
				if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
					return err
				}
				for k := range 100 {
					r := mint(task.ID)
					r.IssueLease.IssuedAt, r.IssueLease.ExpiresAt = at.Add(time.Duration(k)*time.Second), at.Add(10*time.Minute)
					if err := s.Append(b.Context(), r); err != nil {
						return err
					}
				}
				end := closing(task.ID)
				end.At = at.Add(time.Duration(1+i%20) * time.Minute)
				return s.Append(b.Context(), broker.Record{MoveTask: end})
			})
			now := storetest.Epoch.Add(30 * day)
			for name, length := range map[string]time.Duration{"30d": 30 * day, "24h": day} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						got, err := s.Figures(b.Context(), broker.FigureFilter{From: now.Add(-length).Truncate(length / 30), To: now, Now: now, Cell: length / 30})
						if err != nil || len(got.Cells) < 30 {
							b.Fatal(len(got.Cells), err)
						}
					}
				})
			}
		})
	}
}
