package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
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
	out, err := readRequests(ctx, rs.engine.read(), f.Seen, tail, args)
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
	text := "SELECT request_id, voter, voter_groups, approve, digest, scope, ttl, code, note, voted_at, also, break_glass, " + column + " FROM %s WHERE request_id IN (" + marks(len(ids)) + ") ORDER BY request_id, place"
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
	var approve, at int64
	if err := row(&v.RequestID, &v.By, &groups, &approve, &v.Digest, &scope, &v.TTL, &v.Code, &v.Note, &at, &also, &v.BreakGlass, &v.Seen, &v.Proof); err != nil {
		return v, err
	}
	v.Approve, v.At = approve != 0, fromMillis(at)
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
