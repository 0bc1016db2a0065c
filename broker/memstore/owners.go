package memstore

// ownerKey identifies an owner. The owner's name comes from the runner and is unique only
// at that runner.
type ownerKey struct{ runner, owner string }

// owner counts the leases of all tasks of one owner.
type owner struct {
	key   ownerKey
	tasks map[*task]struct{} // tasks that had a lease and are not closed
	// room is how many leases may be put, under limit, before they must be counted again.
	// Leases that expire or are revoked in the meantime only increase it.
	room, limit int
}

// take takes a place for one lease at the owner of t, and reports whether there was one.
// A limit of 0 means no limit.
func (s *Store) take(t *task, limit int, now int64) bool {
	o := t.owner
	if o == nil {
		key := ownerKey{t.live.Runner, t.live.Owner}
		if o = s.owners[key]; o == nil {
			o = &owner{key: key, tasks: map[*task]struct{}{}}
		}
	}
	if limit > 0 && (o.room <= 0 || o.limit != limit) {
		o.limit, o.room = limit, limit
		for held := range o.tasks {
			o.room -= held.count(now).Live
		}
		if o.room <= 0 {
			return false
		}
	}
	o.room--
	o.tasks[t], t.owner, s.owners[o.key] = struct{}{}, o, o
	return true
}

// release frees all places of t, a closed task, in one step.
func (s *Store) release(t *task) {
	if t.owner == nil {
		return
	}
	delete(t.owner.tasks, t)
	if len(t.owner.tasks) == 0 {
		delete(s.owners, t.owner.key)
	}
	t.owner = nil
}
