package egress

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/egress/redact"
)

// Bounds of what redactors take, in bytes: those in use of one task and of all, and those
// that are kept for the next request, and for how long.
const (
	taskTables = 64 << 20
	allTables  = shares * taskTables
	idleTables = 64 << 20
	idleTable  = time.Minute
)

// tables are redactors, each made once for a lease and what is added for it: to look for a
// long token takes megabytes, and a box may take its time with an answer.
type tables struct {
	mu    sync.Mutex
	all   map[tableKey]*table
	used  int            // bytes of those in use
	of    map[string]int // the same by the task of a runner's
	idle  int            // bytes of the others
	swept time.Time
}

type tableKey struct {
	leaseID string
	of      [sha256.Size]byte // what is looked for
}

type table struct {
	key   tableKey
	root  string
	ids   []string // with which of these it goes
	build func() (*redact.Redactor, error)

	*redact.Redactor // once it is built
	uses             int
	counted          bool // in used
	gone             bool // what it is for is over
	since            time.Time
}

// take is the redactor of these secrets, for one request: give follows. One that would take
// more than its task may have, or than its part of what is left of all, is refused.
func (t *tables) take(who broker.Caller, leaseID string, secrets []string, now time.Time) (*table, error) {
	slices.Sort(secrets)
	key := tableKey{leaseID, sumOf(secrets)}
	t.mu.Lock()
	t.sweep(now)
	x := t.all[key]
	if x == nil {
		x = &table{key: key, root: who.Root(), ids: append(lineage(who), leaseID), build: sync.OnceValues(func() (*redact.Redactor, error) { return redact.New(secrets...) })}
		if t.all == nil {
			t.all, t.of = map[tableKey]*table{}, map[string]int{}
		}
		t.all[key] = x
	}
	x.uses++
	t.mu.Unlock()
	r, err := x.build() // by the first that comes; the others wait
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && !x.counted {
		had, left := t.of[x.root], allTables-t.used
		if n := r.Bytes(); n > left || had+n > taskTables || had > 0 && had+n > left/shares {
			err = deny(TooOften, nil)
		} else {
			if x.Redactor != nil { // it was kept
				t.idle -= n
			}
			x.Redactor, x.counted = r, true
			t.used += n
			t.of[x.root] += n
		}
	}
	if err != nil {
		if x.uses--; x.uses == 0 {
			t.forget(x)
		}
		return nil, err
	}
	return x, nil
}

// give says that a request is over. After one that was cut nothing is kept: its lease may be
// over.
func (t *tables) give(x *table, cut bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.uses--; x.uses > 0 {
		return
	}
	n := x.Bytes()
	t.used -= n
	if t.of[x.root] -= n; t.of[x.root] == 0 {
		delete(t.of, x.root)
	}
	x.counted, x.since = false, now
	if t.idle += n; x.gone || cut || t.idle > idleTables {
		t.forget(x)
	}
}

// drop forgets those of a task or a lease that is over: they hold its secrets.
func (t *tables) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		if slices.Contains(x.ids, id) {
			if x.gone = true; x.uses == 0 {
				t.forget(x)
			}
		}
	}
}

// sweep forgets those that nobody has used for a while.
func (t *tables) sweep(now time.Time) {
	if now.Sub(t.swept) < idleTable/4 {
		return
	}
	t.swept = now
	for _, x := range t.all {
		if x.uses == 0 && now.Sub(x.since) >= idleTable {
			t.forget(x)
		}
	}
}

// forget removes one that nobody uses.
func (t *tables) forget(x *table) {
	if x.Redactor != nil {
		t.idle -= x.Bytes()
	}
	if t.all[x.key] == x {
		delete(t.all, x.key)
	}
}

func sumOf(secrets []string) [sha256.Size]byte {
	var text []byte
	for _, s := range secrets {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(s))), s...)
	}
	return sha256.Sum256(text)
}
