package storetest

import (
	"errors"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func closedStore(t *storeTest) {
	task := t.openTask()
	t.want("close", t.Close(), nil)
	err := t.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}})
	for _, s := range []error{nil, broker.ErrDone, broker.ErrExists, broker.ErrNotFound} {
		if errors.Is(err, s) {
			t.Errorf("append after close: got %v", err)
		}
	}
	if _, err := t.Store.Tasks(t.Context(), broker.TaskFilter{}); err == nil {
		t.Error("read after close")
	}
}

func reopen(t *storeTest) {
	task := t.openTask()
	l := t.issue(Lease(task.ID))
	t.want("close", t.Close(), nil)
	t.Stores = t.another()
	t.same("task", t.task(task.ID), task)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	t.issue(Lease(task.ID))
	heads, err := t.Store.Heads(t.Context())
	if err != nil || len(heads) != 2 || heads[0].Writer == heads[1].Writer || heads[0].Seq != 2 || heads[1].Seq != 1 {
		t.Errorf("got heads %+v, %v; want one chain for each run", heads, err)
	}
	t.verify()
}
