package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
)

// taskStore reads tasks.
type taskStore struct {
	engine *engine
}

const taskColumns = "id, name, kind, owner, runner, labels, ceiling, caps, expected, heartbeat, opened_at, deadline, " +
	"state, cause, reason, closed_at, closed_by, sandbox_id, sandbox, paused_by, paused_as, parent_id, root_id, ancestors, delegation, uses"

// below is the condition on the tasks delegated from one task, at any depth; each of its
// three parameters is that task. The comparison with the empty text matches the partial
// index. LIKE differs between the engines.
const below = "root_id IN (?, (SELECT b.root_id FROM tasks b WHERE b.id = ?)) AND root_id <> '' AND replace(ancestors, ?, '') <> ancestors"

// tree selects a task and the tasks below it; each of its four parameters is that task.
const tree = "(SELECT id FROM tasks WHERE id = ? UNION ALL SELECT id FROM tasks WHERE " + below + ")"

// Tasks implements broker.Store.
func (t *taskStore) Tasks(ctx context.Context, f broker.TaskFilter) ([]broker.Task, error) {
	text, args, err := tasksText(f)
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	out, err := collect(ctx, t.engine.read(), text, args, scanTask)
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", t.engine.explain(err))
	}
	return out, nil
}

func tasksText(f broker.TaskFilter) (string, []any, error) {
	var w where
	w.equal("state", string(f.State))
	if f.Open {
		w.add("state <> 'closed'")
	}
	w.equal("owner", f.Owner)
	w.equal("runner", f.Runner)
	w.equal("kind", f.Kind)
	if f.Below != "" {
		w.add(below, f.Below, f.Below, f.Below)
	}
	if f.Orphaned {
		w.add("parent_id <> '' AND state <> 'closed' AND (SELECT p.state FROM tasks p WHERE p.id = tasks.parent_id) = 'closed'")
	}
	if f.Throttled {
		w.add("state = 'paused' AND cause <> ''")
	}
	if !f.ClosedFrom.IsZero() {
		w.add("state = 'closed' AND closed_at >= ?", millis(f.ClosedFrom))
	}
	order, limit, err := w.page("id", f.Page, f.IDs)
	if err != nil {
		return "", nil, err
	}
	return "SELECT " + taskColumns + " FROM tasks" + w.String() + order + limit, w.args, nil
}

func taskArgs(t *broker.Task) ([]any, error) {
	if t.ID == "" || t.State == "" {
		return nil, errors.New("a task needs an id and a state")
	}
	var texts [5]string
	for i, v := range []any{t.Labels, t.Caps, t.Expect, t.Sandbox, t.Delegation} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		texts[i] = string(raw)
	}
	sandboxID := ""
	if t.Sandbox == nil {
		texts[3] = ""
	} else {
		sandboxID = t.Sandbox.ID
	}
	if t.Delegation == nil {
		texts[4] = ""
	}
	parent, root := "", ""
	if n := len(t.Ancestors); n > 0 {
		parent, root = t.Ancestors[n-1], t.Ancestors[0]
	}
	if err := storable(t.ID, t.Name, t.Kind, t.Owner, t.Runner, t.Reason, t.ClosedBy, sandboxID, t.PausedBy); err != nil {
		return nil, err
	}
	return []any{t.ID, t.Name, t.Kind, t.Owner, t.Runner, texts[0], t.Ceiling.String(), texts[1], texts[2], int64(t.Heartbeat),
		millis(t.OpenedAt), millis(t.Deadline), string(t.State), string(t.Cause), t.Reason, millis(t.ClosedAt), t.ClosedBy,
		sandboxID, texts[3], t.PausedBy, string(t.PausedAs), parent, root, strings.Join(t.Ancestors, " "), texts[4], int64(t.Caps.Uses)}, nil
}

func scanTask(row scan) (broker.Task, error) {
	var t broker.Task
	var labels, ceiling, caps, expected, sandboxID, sandbox, parent, root, ancestors, delegation string
	var opened, deadline, closed, uses int64
	err := row(&t.ID, &t.Name, &t.Kind, &t.Owner, &t.Runner, &labels, &ceiling, &caps, &expected, &t.Heartbeat,
		&opened, &deadline, &t.State, &t.Cause, &t.Reason, &closed, &t.ClosedBy, &sandboxID, &sandbox, &t.PausedBy, &t.PausedAs,
		&parent, &root, &ancestors, &delegation, &uses)
	if err != nil {
		return t, err
	}
	t.OpenedAt, t.Deadline, t.ClosedAt = fromMillis(opened), fromMillis(deadline), fromMillis(closed)
	if t.Ceiling, err = scopes.ParseSet(ceiling); err != nil {
		return t, fmt.Errorf("task %s: %w", t.ID, err)
	}
	if sandbox != "" {
		t.Sandbox = &broker.Sandbox{}
		err = json.Unmarshal([]byte(sandbox), t.Sandbox)
		t.Sandbox.At = t.Sandbox.At.UTC().Truncate(time.Millisecond)
	}
	if delegation != "" {
		t.Delegation = &broker.Delegation{}
		err = errors.Join(err, json.Unmarshal([]byte(delegation), t.Delegation))
	}
	if ancestors != "" {
		t.Ancestors = strings.Fields(ancestors)
	}
	if err := errors.Join(err, json.Unmarshal([]byte(labels), &t.Labels), json.Unmarshal([]byte(caps), &t.Caps),
		json.Unmarshal([]byte(expected), &t.Expect)); err != nil {
		return t, fmt.Errorf("task %s: the stored row is damaged: %w", t.ID, err)
	}
	return t, nil
}
