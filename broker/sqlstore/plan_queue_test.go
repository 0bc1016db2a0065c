package sqlstore_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// wholes matches steps that read all requests or tasks, and orders matches steps that
// sort rows which an index has in order. PostgreSQL sorts the rows found by an index when
// it expects few of them.
var (
	wholes = regexp.MustCompile(`(?m)SCAN (requests|tasks)$|Seq Scan on (requests|tasks)`)
	orders = regexp.MustCompile(`(?m)USE TEMP B-TREE FOR ORDER BY`)
)

// TestQueuePlans: no page of the approval queue or of tasks reads or sorts the whole
// table. Counting pending requests, and listing the newest for browsers, reads pending
// requests only.
func TestQueuePlans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url := empty(t)
		s := toFill(t, url)
		fillQueue(t, s, 5_000)
		for i := range 500 {
			task := storetest.Task()
			task.Owner = fmt.Sprint("owner", i%97)
			if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if err := s.Append(t.Context(), broker.Record{MoveTask: closing(task.ID)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		analyse(t, s, url)
		now := storetest.Epoch.Add(time.Hour)
		at := broker.Place{Rank: 2, ExpiresAt: now.Add(time.Hour), ID: "req_0000000000000077"}
		sight := &broker.Sight{Groups: []string{"approvers", "web"}}
		for name, f := range map[string]broker.WaitFilter{
			"all": {}, "mine": {Sight: sight, NotOf: []string{"ann"}, NotBy: "ann"}, "next": {After: at}, "mine, next": {Sight: sight, NotOf: []string{"ann"}, After: at}, "high": {Rank: 3}, "high, next": {Rank: 3, After: at},
			"held": {Sight: sight, NotOf: []string{"ann"}, Without: []string{"tsk_1", "tsk_2"}}, "provider": {Provider: "orders"}, "text": {Text: "eu"}, "of a runner": {Sight: &broker.Sight{Runner: "ci"}},
			"under break-glass": {Sight: &broker.Sight{Groups: []string{"web"}, Runner: "ann", Glass: "brk_1"}},
		} {
			f.Now, f.Limit = now, 50
			page, count, newest, err := s.WaitingPlans(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for what, plan := range map[string]string{"page": page, "count": count, "newest": newest} {
				if wholes.MatchString(plan) || orders.MatchString(plan) {
					t.Errorf("the %s of %s reads or sorts the table:\n%s", what, name, plan)
				}
			}
			if f.Rank == 0 && !strings.Contains(page, "requests_queue") {
				t.Errorf("the page of %s is not in the order of the index:\n%s", name, page)
			}
			// PostgreSQL expects few pending requests, and sorts them.
			if !strings.HasPrefix(url, "postgres") && !strings.Contains(newest, "requests_newest") {
				t.Errorf("the newest are not in the order of the index:\n%s", newest)
			}
		}
		glass := &broker.Sight{Groups: []string{"web"}, Runner: "ann", Glass: "brk_1"}
		for name, f := range map[string]broker.RequestFilter{
			"one": {IDs: []string{"req_77"}, Sight: glass}, "approved": {BreakGlass: "brk_1", Sight: glass}, "a page": {Sight: glass, Page: broker.Page{Desc: true, Limit: 51}},
		} {
			plan, err := s.MarksPlan(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if wholes.MatchString(plan) || orders.MatchString(plan) || strings.Contains(plan, "SCAN votes") || strings.Contains(plan, "Seq Scan on votes") {
				t.Errorf("under break-glass, %s is read or sorted whole:\n%s", name, plan)
			}
		}
		for name, f := range map[string]broker.TaskFilter{
			"all": {}, "open": {Open: true, State: broker.TaskOpen}, "paused": {Open: true, State: broker.TaskPaused}, "over": {State: broker.TaskClosed}, "owner": {Owner: "owner7"}, "runner": {Runner: "nobody"},
			"older": {Page: broker.Page{After: "tsk_77"}}, "owner, older": {Owner: "owner7", Page: broker.Page{After: "tsk_77"}},
		} {
			f.Page.Desc, f.Page.Limit = true, 51
			plan, err := s.TasksPlan(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			// SQLite also calls a read along an index that stops at the limit SCAN.
			if strings.Contains(plan, "Seq Scan") || orders.MatchString(plan) {
				t.Errorf("%s tasks are read or sorted whole:\n%s", name, plan)
			}
		}
	})
}

// fillQueue makes n copies of one request, of which every tenth is pending.
func fillQueue(t testing.TB, s *sqlstore.Store, n int) {
	t.Helper()
	task := storetest.Task()
	if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
		t.Fatal(err)
	}
	r := storetest.Request(task.ID)
	if _, _, err := s.Create(t.Context(), r, broker.Room{}, audit.Entry{At: storetest.Epoch, Kind: audit.RequestCreated, Actor: "test", TaskID: task.ID, RequestID: r.ID}); err != nil {
		t.Fatal(err)
	}
	columns := strings.NewReplacer(
		" dedupe,", " 'copy ' || n.i,", " risk", " 1 + n.i % 3", " state,", " CASE WHEN n.i % 10 = 0 THEN 'pending' ELSE 'denied' END,",
		" expires_at,", fmt.Sprintf(" %d + n.i,", storetest.Epoch.Add(2*time.Hour).UnixMilli()), "id, task_id", "'req_' || n.i, task_id",
	).Replace(sqlstore.RequestColumns)
	numbers := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	for _, text := range []string{
		numbers + "INSERT INTO requests (" + sqlstore.RequestColumns + ") SELECT " + columns + " FROM requests, n WHERE id = '" + r.ID + "'",
		numbers + "INSERT INTO request_groups (request_id, group_name) SELECT 'req_' || n.i, 'approvers' FROM n",
		numbers + "INSERT INTO votes (request_id, voter, voter_groups, place, approve, digest, scope, ttl, code, note, voted_at, break_glass) " +
			"SELECT 'req_' || n.i, 'ann', '[]', 1, 1, '', '', 0, '', '', 1, CASE WHEN n.i % 1000 = 0 THEN 'brk_1' ELSE '' END FROM n",
	} {
		if err := s.Say(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}
