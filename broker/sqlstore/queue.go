package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// sight limits requests to those that a principal may see. Groups are looked up for each
// pending request: the history of a group is much longer than the queue.
func (w *where) sight(s *broker.Sight) {
	if s == nil {
		return
	}
	cond, args := "runner = ?", []any{s.Runner}
	if n := len(s.Groups); n > 0 {
		cond = "(runner = ? OR EXISTS (SELECT 1 FROM request_groups g WHERE g.group_name IN (" + marks(n) + ") AND g.request_id = requests.id))"
	}
	for _, g := range s.Groups {
		args = append(args, g)
	}
	if s.Glass != "" {
		cond, args = "("+cond+" OR state = 'pending' OR id IN (SELECT request_id FROM votes WHERE break_glass = ? AND break_glass <> ''))", append(args, s.Glass)
	}
	w.add(cond, args...)
}

// without excludes requests of the task trees with these roots.
func (w *where) without(roots []string) error {
	if len(roots) == 0 {
		return nil
	}
	if len(roots) > maxRoots {
		return fmt.Errorf("%d task trees to leave out: name at most %d", len(roots), maxRoots)
	}
	args := make([]any, 0, 2*len(roots))
	for range 2 {
		for _, id := range roots {
			args = append(args, id)
		}
	}
	in := "(" + marks(len(roots)) + ")"
	w.add("task_id NOT IN "+in+" AND task_id NOT IN (SELECT id FROM tasks WHERE root_id IN "+in+" AND root_id <> '')", args...)
	return nil
}

// maxRoots is the maximum number of task trees that one query leaves out.
const maxRoots = 100

// Waiting implements broker.Queue.
func (rs *requestStore) Waiting(ctx context.Context, f broker.WaitFilter) (broker.WaitSlice, error) {
	text, args, err := waitingText(f)
	if err != nil {
		return broker.WaitSlice{}, fmt.Errorf("waiting: %w", err)
	}
	var out broker.WaitSlice
	last, err := collect(ctx, rs.engine.read(), text, args, func(row scan) (p broker.Place, err error) {
		var ends, hit int64
		if err := row(&p.Rank, &ends, &p.ID, &hit); err != nil {
			return p, err
		}
		if p.ExpiresAt = fromMillis(ends); hit != 0 {
			out.Places = append(out.Places, p)
		}
		return p, nil
	})
	if err != nil {
		return broker.WaitSlice{}, fmt.Errorf("waiting: %w", rs.engine.explain(err))
	}
	if out.Looked = len(last); out.Looked == waitingLimit(f) {
		out.Stop = last[out.Looked-1]
	}
	return out, nil
}

func waitingLimit(f broker.WaitFilter) int {
	if f.Limit == 0 {
		return defaultLimit
	}
	return f.Limit
}

// waitingText returns the statement that reads a window of the queue and marks each
// matching row.
func waitingText(f broker.WaitFilter) (string, []any, error) {
	w, err := waiting(f)
	if err != nil {
		return "", nil, err
	}
	if f.Limit < 0 || f.Limit > maxLimit {
		return "", nil, fmt.Errorf("the limit is %d: ask for 1 to %d", f.Limit, maxLimit)
	}
	if p := f.After; p.ID != "" {
		at := millis(p.ExpiresAt)
		w.add("(risk < ? OR risk = ? AND (expires_at > ? OR expires_at = ? AND id > ?))", p.Rank, p.Rank, at, at, p.ID)
	}
	hit := &where{}
	hit.equal("provider", f.Provider)
	if f.Text != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(f.Text)) + "%"
		hit.add(`(lower(scope) LIKE ? ESCAPE '\' OR lower(owner) LIKE ? ESCAPE '\')`, like, like)
	}
	is := "1"
	if len(hit.conds) > 0 {
		is = "CASE WHEN " + strings.Join(hit.conds, " AND ") + " THEN 1 ELSE 0 END"
	}
	return "SELECT risk, expires_at, id, " + is + " FROM requests" + w.String() + byRank + strconv.Itoa(waitingLimit(f)), append(hit.args, w.args...), nil
}

// CountWaiting implements broker.Queue.
func (rs *requestStore) CountWaiting(ctx context.Context, f broker.WaitFilter) (map[int]int, error) {
	w, err := waiting(f)
	if err != nil {
		return nil, fmt.Errorf("count waiting: %w", err)
	}
	type line struct{ rank, n int }
	lines, err := collect(ctx, rs.engine.read(), countText(w), w.args, func(row scan) (l line, err error) { return l, row(&l.rank, &l.n) })
	if err != nil {
		return nil, fmt.Errorf("count waiting: %w", rs.engine.explain(err))
	}
	out := make(map[int]int, len(lines))
	for _, l := range lines {
		out[l.rank] = l.n
	}
	return out, nil
}

// byRank is the order of the index requests_queue.
const byRank = " ORDER BY risk DESC, expires_at ASC, id ASC LIMIT "

func countText(w *where) string {
	return "SELECT risk, COUNT(*) FROM (SELECT risk FROM requests" + w.String() + byRank + strconv.Itoa(broker.WaitingCap) + ") w GROUP BY risk"
}

func waiting(f broker.WaitFilter) (*where, error) {
	if f.Now.IsZero() {
		return nil, errors.New("the filter needs Now")
	}
	w := &where{}
	w.add("state = 'pending' AND expires_at > ?", millis(f.Now))
	w.sight(f.Sight)
	for _, name := range f.NotOf {
		who := people.Folded(name)
		w.add("lower(owner) <> ? AND lower(runner) <> ?", who, who)
	}
	if f.Rank != 0 {
		w.add("risk = ?", f.Rank)
	}
	w.equal("task_id", f.TaskID)
	if err := w.without(f.Without); err != nil {
		return nil, err
	}
	return w, nil
}

// NewestWaiting implements broker.Queue.
func (rs *requestStore) NewestWaiting(ctx context.Context, now time.Time, without []string, n int) ([]string, error) {
	text, args, err := newestText(now, without, n)
	if err != nil {
		return nil, fmt.Errorf("newest waiting: %w", err)
	}
	out, err := collect(ctx, rs.engine.read(), text, args, func(row scan) (id string, err error) { return id, row(&id) })
	if err != nil {
		return nil, fmt.Errorf("newest waiting: %w", rs.engine.explain(err))
	}
	return out, nil
}

func newestText(now time.Time, without []string, n int) (string, []any, error) {
	if n < 1 || n > maxLimit {
		return "", nil, fmt.Errorf("ask for 1 to %d", maxLimit)
	}
	var w where
	w.add("state = 'pending' AND expires_at > ?", millis(now))
	if err := w.without(without); err != nil {
		return "", nil, err
	}
	return "SELECT id FROM requests" + w.String() + " ORDER BY id DESC LIMIT " + strconv.Itoa(n), w.args, nil
}

// Marks implements broker.Queue.
func (rs *requestStore) Marks(ctx context.Context, f broker.RequestFilter) ([]broker.Mark, error) {
	text, args, err := marksText(f)
	if err != nil {
		return nil, fmt.Errorf("marks: %w", err)
	}
	out, err := collect(ctx, rs.engine.read(), text, args, func(row scan) (m broker.Mark, err error) {
		var scope, ask string
		var created, expires int64
		if err := row(&m.ID, &m.Owner, &m.Runner, &scope, &ask, &m.State, &created, &expires); err != nil {
			return m, err
		}
		m.CreatedAt, m.ExpiresAt = fromMillis(created), fromMillis(expires)
		var who policy.Approval
		if err := json.Unmarshal([]byte(ask), &who); err != nil {
			return m, err
		}
		m.Groups = who.Groups
		m.Scopes, err = scopes.ParseSet(scope)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("marks: %w", rs.engine.explain(err))
	}
	return out, nil
}

func marksText(f broker.RequestFilter) (string, []any, error) {
	tail, args, err := requestsTail(f)
	return "SELECT id, owner, runner, scope, ask, state, created_at, expires_at FROM requests" + tail, args, err
}
