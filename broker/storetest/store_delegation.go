package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// under returns a task that was delegated by the last of the tasks above it.
func under(above ...broker.Task) broker.Task {
	t := Task()
	t.Ancestors = append(slices.Clone(above[len(above)-1].Ancestors), above[len(above)-1].ID)
	t.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll", Selectors: map[string]string{"a": "b"}}, Depth: 2, Open: 3}
	return t
}

func (t *storeTest) delegated(child broker.Task, limit int) error {
	return t.Store.Append(t.Context(), broker.Record{OpenTask: &child, OpenLimit: limit, Entries: []audit.Entry{Entry(audit.TaskOpened, child.ID)}})
}

func openDelegated(t *storeTest) {
	root := t.openTask()
	child := under(root)
	t.want("delegate", t.delegated(child, 2), nil)
	t.same("child", t.task(child.ID), child)
	grandchild := under(child)
	t.want("delegate on", t.delegated(grandchild, 2), nil)
	t.same("grandchild", t.task(grandchild.ID), grandchild)
	t.want("a third, at any depth", t.delegated(under(root), 2), broker.ErrCap)
	another := Task()
	t.want("they take no place of the runner's", t.Store.Append(t.Context(), broker.Record{OpenTask: &another, OpenLimit: 2}), nil)
	t.append(broker.Record{MoveTask: closing(child.ID, Epoch)})
	t.want("a closed one frees its place", t.delegated(under(root), 2), nil)
	t.want("below a closed one", t.delegated(under(child), 9), broker.ErrTaskClosed)
	t.want("below one that never was", t.delegated(under(Task()), 9), broker.ErrTaskClosed)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.TaskOpened})), 4)
	orphans, err := t.Store.Tasks(t.Context(), broker.TaskFilter{Orphaned: true})
	t.want("orphans", err, nil)
	t.same("orphans", len(orphans), 1)
	t.same("orphan", orphans[0].ID, grandchild.ID)
}

func countedUses(t *storeTest) {
	root := Task()
	root.Caps.Uses = 4
	t.append(broker.Record{OpenTask: &root})
	issue := func(taskID string, limit int, upstream bool) error {
		l := Lease(taskID)
		if upstream {
			l.State, l.Upstream = broker.LeaseIntent, &broker.Upstream{NextAt: Epoch.Add(time.Hour)}
		}
		return t.Store.Append(t.Context(), broker.Record{IssueLease: &l, IssueLimit: limit, Entries: []audit.Entry{Entry(audit.LeaseIssued, taskID)}})
	}
	t.want("own token", issue(root.ID, 4, false), nil)
	t.want("third party", issue(root.ID, 4, true), nil)
	uncounted := under(root)
	t.want("delegate what is not counted", t.delegated(uncounted, 9), broker.ErrCap)
	big := under(root)
	big.Caps.Uses = 3
	t.want("delegate more than is left", t.delegated(big, 9), broker.ErrCap)
	child := under(root)
	child.Caps.Uses = 1
	t.want("delegate", t.delegated(child, 9), nil)
	t.want("the delegate's", issue(child.ID, 1, false), nil)
	t.want("the delegate's second", issue(child.ID, 1, false), broker.ErrCap)
	t.want("the last", issue(root.ID, 4, false), nil)
	t.want("one too many", issue(root.ID, 4, false), broker.ErrCap)
	t.want("one too many at a third party", issue(root.ID, 4, true), broker.ErrCap)
	t.want("without a limit", issue(root.ID, 0, false), nil)
	t.append(broker.Record{MoveTask: closing(child.ID, Epoch)})
	t.want("an end gives nothing back", issue(root.ID, 4, false), broker.ErrCap)
	t.append(broker.Record{MoveTask: closing(root.ID, Epoch)})
	t.want("after the end", issue(root.ID, 4, false), broker.ErrTaskClosed)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.LeaseIssued})), 5)
}

// Of concurrent counted mints on two replicas, no more succeed than uses are left.
func usesRace(t *storeTest) {
	task := Task()
	task.Caps.Uses = 5
	t.append(broker.Record{OpenTask: &task})
	other := t.another()
	var won, lost int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 24 {
		j := t.Store
		if i%2 == 1 {
			j = other.Store
		}
		wg.Go(func() {
			l := Lease(task.ID)
			err := j.Append(t.Context(), broker.Record{IssueLease: &l, IssueLimit: 5})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, broker.ErrCap):
				lost++
			default:
				t.Errorf("issue: %v", err)
			}
		})
	}
	wg.Wait()
	t.same("won and lost", [2]int{won, lost}, [2]int{5, 19})
}

func belowAndTree(t *storeTest) {
	root, other := t.openTask(), t.openTask()
	child, second, foreign := under(root), under(root), under(other)
	grandchild := under(child)
	for _, c := range []broker.Task{child, second, foreign, grandchild} {
		t.want("delegate", t.delegated(c, 0), nil)
	}
	for _, task := range []broker.Task{root, child, second, grandchild, foreign} {
		own, third := Lease(task.ID), Lease(task.ID)
		third.State, third.Upstream = broker.LeaseIntent, &broker.Upstream{NextAt: Epoch.Add(time.Hour)}
		t.append(broker.Record{IssueLease: &own})
		t.append(broker.Record{IssueLease: &third})
	}
	t.append(broker.Record{MoveTask: closing(second.ID, Epoch.Add(5*time.Minute))})
	ids := func(f broker.TaskFilter) (out []string) {
		ts, err := t.Store.Tasks(t.Context(), f)
		t.want("tasks", err, nil)
		for _, task := range ts {
			out = append(out, task.ID)
		}
		return out
	}
	t.same("below the root", ids(broker.TaskFilter{Below: root.ID}), []string{child.ID, second.ID, grandchild.ID})
	t.same("open below the root", ids(broker.TaskFilter{Below: root.ID, Open: true}), []string{child.ID, grandchild.ID})
	t.same("below the child", ids(broker.TaskFilter{Below: child.ID}), []string{grandchild.ID})
	t.same("below the last", ids(broker.TaskFilter{Below: grandchild.ID}), []string(nil))
	t.same("below nothing", ids(broker.TaskFilter{Below: "tsk_none"}), []string(nil))
	for tree, want := range map[string]int{root.ID: 4, child.ID: 2, grandchild.ID: 1, "tsk_none": 0} {
		for _, upstream := range []bool{false, true} {
			ls, err := t.Store.Leases(t.Context(), broker.LeaseFilter{Tree: tree, Upstream: upstream, Now: Epoch.Add(2 * time.Minute)})
			t.want("leases", err, nil)
			n := want
			if !upstream {
				n *= 2
			}
			t.same("leases of the tree "+tree, len(ls), n)
		}
	}
	ls, err := t.Store.Leases(t.Context(), broker.LeaseFilter{Tree: root.ID, Upstream: true, State: broker.LeaseRevoking, Now: Epoch.Add(6 * time.Minute)})
	t.want("leases", err, nil)
	t.same("pending below the root", len(ls), 1)
}
