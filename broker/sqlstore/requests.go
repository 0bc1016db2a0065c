package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// requestStore is the approval queue: it stores requests and votes.
type requestStore struct {
	com    *committer
	engine *engine
}

const requestColumns = "id, task_id, sandbox, owner, runner, dedupe, provider, scope, resource, ttl, jkt, x5t, tool, details, evidence_until, " +
	"ask, facts, digest, reason, asked, voted, created_at, expires_at, state, decided_at, granted, granted_ttl, grant_until, code, note, parents, risk"

// Requests implements broker.ApprovalStore.
func (rs *requestStore) Requests(ctx context.Context, f broker.RequestFilter) ([]broker.Request, error) {
	tail, args, err := requestsTail(f)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	out, err := readRequests(ctx, rs.engine.read(), f.Snapshots, tail, args)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", rs.engine.explain(err))
	}
	return out, nil
}

// requestsTail returns the conditions, the order and the limit of a statement on
// requests.
func requestsTail(f broker.RequestFilter) (string, []any, error) {
	var w where
	w.equal("task_id", f.TaskID)
	if f.Tree != "" {
		w.add("task_id IN "+tree, f.Tree, f.Tree, f.Tree, f.Tree)
	}
	w.equal("owner", f.Owner)
	w.equal("provider", f.Provider)
	w.equal("state", string(f.State))
	if f.Open {
		w.add("state IN ('pending', 'approved')")
	}
	w.equal("dedupe", f.Dedupe)
	if f.Voted {
		w.add("voted > 0")
	}
	if f.Group != "" {
		w.add("id IN (SELECT request_id FROM request_groups WHERE group_name = ?)", f.Group)
	}
	if f.BreakGlass != "" {
		w.add("id IN (SELECT request_id FROM votes WHERE break_glass = ? AND break_glass <> '')", f.BreakGlass)
	}
	w.sight(f.Sight)
	if !f.GrantLive.IsZero() {
		w.add("state IN ('approved', 'issued') AND grant_until > ?", millis(f.GrantLive))
	}
	if !f.Since.IsZero() {
		w.add("(created_at > ? OR (decided_at > 0 AND decided_at > ?))", millis(f.Since), millis(f.Since))
	}
	if !f.From.IsZero() {
		w.add("created_at >= ?", millis(f.From))
	}
	if !f.To.IsZero() {
		w.add("created_at < ?", millis(f.To))
	}
	if !f.ExpiredAt.IsZero() {
		w.add("state = 'pending' AND expires_at <= ?", millis(f.ExpiredAt))
	}
	order, limit, err := w.page("id", f.Page, f.IDs)
	return w.String() + order + limit, w.args, err
}

// readRequests reads requests and, in a second statement, their votes.
func readRequests(ctx context.Context, q querier, seen bool, tail string, args []any) ([]broker.Request, error) {
	out, err := collect(ctx, q, "SELECT "+requestColumns+" FROM requests"+tail, args, scanRequest)
	if err != nil || len(out) == 0 {
		return out, err
	}
	at := make(map[string]int, len(out))
	ids := make([]any, 0, len(out))
	for i, r := range out {
		at[r.ID] = i
		ids = append(ids, r.ID)
	}
	column := "'', ''"
	if seen {
		column = "seen, proof"
	}
	text := "SELECT request_id, voter, voter_groups, approve, digest, scope, ttl, code, note, voted_at, shown_at, also, break_glass, " + column + " FROM %s WHERE request_id IN (" + marks(len(ids)) + ") ORDER BY request_id, place"
	votes, err := collect(ctx, q, fmt.Sprintf(text, "votes"), ids, scanVote)
	for _, v := range votes {
		r := &out[at[v.RequestID]]
		r.Votes = append(r.Votes, v)
	}
	if err != nil || !seen {
		return out, err
	}
	votes, err = collect(ctx, q, fmt.Sprintf(text, "votes_replaced"), ids, scanVote)
	for _, v := range votes {
		r := &out[at[v.RequestID]]
		r.Replaced = append(r.Replaced, v)
	}
	return out, err
}

// oneRequest reads a request inside a transaction.
func oneRequest(ctx context.Context, q querier, id string) (broker.Request, error) {
	out, err := readRequests(ctx, q, false, " WHERE id = ?", []any{id})
	if err != nil {
		return broker.Request{}, err
	}
	if len(out) == 0 {
		return broker.Request{}, fmt.Errorf("request %s: %w", id, broker.ErrNotFound)
	}
	return out[0], nil
}

func requestArgs(r *broker.Request) ([]any, error) {
	if r.ID == "" || r.TaskID == "" || r.Dedupe == "" || r.Digest == "" || len(r.Groups) == 0 || len(r.Rules) == 0 {
		return nil, errors.New("a request needs an id, a task, a dedupe key, a digest, and groups and rules that name the approvers")
	}
	if r.CreatedAt.IsZero() || !r.ExpiresAt.After(r.CreatedAt) {
		return nil, errors.New("a request needs an expiry after its creation")
	}
	ask, err := json.Marshal(r.Approval)
	if err != nil {
		return nil, err
	}
	// As a JSON string in ASCII, so that any bytes sent by the agent can be stored.
	reason, err := json.Marshal(r.Reason)
	if err != nil {
		return nil, err
	}
	texts := append([]string{r.ID, r.TaskID, r.Sandbox, r.Owner, r.Runner, r.Dedupe, r.Provider, r.Resource, r.Binding.JKT, r.Binding.X5T,
		r.Tool, string(r.Facts), r.Digest}, slices.Concat(r.Groups, r.Parents)...)
	if err := storable(texts...); err != nil {
		return nil, err
	}
	return []any{r.ID, r.TaskID, r.Sandbox, r.Owner, r.Runner, r.Dedupe, r.Provider, r.Scopes.String(), r.Resource, int64(r.TTL),
		r.Binding.JKT, r.Binding.X5T, r.Tool, flag(r.Details), millis(r.EvidenceEnd), string(ask), string(r.Facts), r.Digest, string(reason), 1, 0,
		millis(r.CreatedAt), millis(r.ExpiresAt), string(broker.RequestPending), 0, "", 0, 0, "", "", strings.Join(r.Parents, " "), r.Rank}, nil
}

func scanRequest(row scan) (broker.Request, error) {
	var r broker.Request
	var scope, ask, facts, reason, granted, parents string
	var details, evidence, voted, created, expires, decided, until int64
	err := row(&r.ID, &r.TaskID, &r.Sandbox, &r.Owner, &r.Runner, &r.Dedupe, &r.Provider, &scope, &r.Resource, &r.TTL, &r.Binding.JKT, &r.Binding.X5T,
		&r.Tool, &details, &evidence, &ask, &facts, &r.Digest, &reason, &r.Asked, &voted, &created, &expires, &r.State, &decided, &granted, &r.GrantedTTL, &until,
		&r.Code, &r.Note, &parents, &r.Rank)
	if err != nil {
		return r, err
	}
	r.Details, r.Facts = details != 0, broker.Facts(facts)
	r.CreatedAt, r.ExpiresAt, r.DecidedAt, r.GrantUntil = fromMillis(created), fromMillis(expires), fromMillis(decided), fromMillis(until)
	r.EvidenceEnd = fromMillis(evidence)
	if parents != "" {
		r.Parents = strings.Split(parents, " ")
	}
	var errs [2]error
	r.Scopes, errs[0] = scopes.ParseSet(scope)
	r.Granted, errs[1] = scopes.ParseSet(granted)
	if err := errors.Join(errs[0], errs[1], json.Unmarshal([]byte(ask), &r.Approval), json.Unmarshal([]byte(reason), &r.Reason)); err != nil {
		return r, fmt.Errorf("request %s: the stored row is damaged: %w", r.ID, err)
	}
	return r, nil
}

func scanVote(row scan) (broker.Vote, error) {
	var v broker.Vote
	var scope string
	var groups, also string
	var approve, at, shown int64
	if err := row(&v.RequestID, &v.By, &groups, &approve, &v.Digest, &scope, &v.TTL, &v.Code, &v.Note, &at, &shown, &also, &v.BreakGlass, &v.Snapshot, &v.Proof); err != nil {
		return v, err
	}
	v.Approve, v.At, v.ShownAt = approve != 0, fromMillis(at), fromMillis(shown)
	var err error
	if v.Scopes, err = scopes.ParseSet(scope); err != nil {
		return v, err
	}
	return v, errors.Join(json.Unmarshal([]byte(groups), &v.Groups), json.Unmarshal([]byte(also), &v.Also))
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

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
	if f.NotBy != "" {
		w.add("(voted = 0 OR NOT EXISTS (SELECT 1 FROM votes WHERE votes.request_id = requests.id AND voter = ?))", f.NotBy)
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
		var scope, ask, voters string
		var created, expires int64
		if err := row(&m.ID, &m.Owner, &m.Runner, &scope, &ask, &m.State, &created, &expires, &voters); err != nil {
			return m, err
		}
		m.Voters = strings.FieldsFunc(voters, func(r rune) bool { return r == '\n' })
		m.CreatedAt, m.ExpiresAt = fromMillis(created), fromMillis(expires)
		var who policy.Approval
		if err := json.Unmarshal([]byte(ask), &who); err != nil {
			return m, err
		}
		m.Groups, m.Several = who.Groups, who.Quorum > 1 || len(who.Rules) > 1
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
	const voters = "CASE voted WHEN 0 THEN '' ELSE (SELECT string_agg(voter, '\n') FROM votes WHERE votes.request_id = requests.id) END"
	return "SELECT id, owner, runner, scope, ask, state, created_at, expires_at, " + voters + " FROM requests" + tail, args, err
}
