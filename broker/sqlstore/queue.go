package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ebb/broker"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// sight keeps what a principal may see of requests. The groups are looked up for each
// request: a group's history is much longer than what waits.
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
	w.add(cond, args...)
}

// without leaves requests of some trees of tasks out.
func (w *where) without(roots []string) error {
	if len(roots) == 0 {
		return nil
	}
	if len(roots) > maxRoots {
		return fmt.Errorf("without %d tasks: name at most %d", len(roots), maxRoots)
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

// maxRoots is how many trees one query leaves out.
const maxRoots = 100

// Waiting implements broker.Queue.
func (s *Store) Waiting(ctx context.Context, f broker.WaitFilter) ([]broker.Request, error) {
	tail, args, err := waitingPage(f)
	if err != nil {
		return nil, fmt.Errorf("waiting: %w", err)
	}
	out, err := readRequests(ctx, s.engine.read(), false, tail, args)
	if err != nil {
		return nil, fmt.Errorf("waiting: %w", s.engine.explain(err))
	}
	return out, nil
}

// waitingPage is what follows the name of the table.
func waitingPage(f broker.WaitFilter) (string, []any, error) {
	w, err := waiting(f)
	if err != nil {
		return "", nil, err
	}
	if f.Limit < 0 || f.Limit > maxLimit {
		return "", nil, fmt.Errorf("a page of %d: ask for 1 to %d", f.Limit, maxLimit)
	}
	n := f.Limit
	if n == 0 {
		n = defaultLimit
	}
	if p := f.After; p.ID != "" {
		at := millis(p.ExpiresAt)
		w.add("(risk < ? OR risk = ? AND (expires_at > ? OR expires_at = ? AND id > ?))", p.Rank, p.Rank, at, at, p.ID)
	}
	return w.String() + byRank + strconv.Itoa(n), w.args, nil
}

// CountWaiting implements broker.Queue.
func (s *Store) CountWaiting(ctx context.Context, f broker.WaitFilter) (map[int]int, error) {
	w, err := waiting(f)
	if err != nil {
		return nil, fmt.Errorf("count waiting: %w", err)
	}
	type line struct{ rank, n int }
	lines, err := collect(ctx, s.engine.read(), countText(w), w.args, func(row scan) (l line, err error) { return l, row(&l.rank, &l.n) })
	if err != nil {
		return nil, fmt.Errorf("count waiting: %w", s.engine.explain(err))
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
		return nil, errors.New("it needs the time")
	}
	w := &where{}
	w.add("state = 'pending' AND expires_at > ?", millis(f.Now))
	w.sight(f.Sight)
	for _, name := range f.NotOf {
		who := strings.ToLower(name)
		w.add("lower(owner) <> ? AND lower(runner) <> ?", who, who)
	}
	if f.Rank != 0 {
		w.add("risk = ?", f.Rank)
	}
	w.equal("provider", f.Provider)
	w.equal("task_id", f.TaskID)
	if err := w.without(f.Without); err != nil {
		return nil, err
	}
	if f.Text != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(f.Text)) + "%"
		w.add(`(lower(scope) LIKE ? ESCAPE '\' OR lower(owner) LIKE ? ESCAPE '\')`, like, like)
	}
	return w, nil
}

// Marks implements broker.Queue.
func (s *Store) Marks(ctx context.Context, now time.Time, without []string, n int) ([]broker.Mark, error) {
	text, args, err := marksText(now, without, n)
	if err != nil {
		return nil, fmt.Errorf("marks: %w", err)
	}
	out, err := collect(ctx, s.engine.read(), text, args, func(row scan) (m broker.Mark, err error) {
		var scope, ask string
		if err := row(&m.ID, &m.Owner, &m.Runner, &scope, &ask); err != nil {
			return m, err
		}
		var who policy.Approval
		if err := json.Unmarshal([]byte(ask), &who); err != nil {
			return m, err
		}
		m.Groups = who.Groups
		m.Scopes, err = scopes.ParseSet(scope)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("marks: %w", s.engine.explain(err))
	}
	return out, nil
}

func marksText(now time.Time, without []string, n int) (string, []any, error) {
	if n < 1 || n > maxLimit {
		return "", nil, fmt.Errorf("ask for 1 to %d", maxLimit)
	}
	var w where
	w.add("state = 'pending' AND expires_at > ?", millis(now))
	if err := w.without(without); err != nil {
		return "", nil, err
	}
	return "SELECT id, owner, runner, scope, ask FROM requests" + w.String() + " ORDER BY id DESC LIMIT " + strconv.Itoa(n), w.args, nil
}
