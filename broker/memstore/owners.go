package memstore

// ownerKey names an owner: the runner's word, and so of that runner alone.
type ownerKey struct{ runner, owner string }

// owner is what the tasks of one owner hold together.
type owner struct {
	key   ownerKey
	tasks map[*task]struct{} // that had a lease and are not closed
	// room is how many leases may be put before they must be counted again, under
	// limit: until then what expires and ends only makes more.
	room, limit int
}

// take takes a place at the owner of t for one lease of it, if there is one. No
// limit is 0.
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

// release gives back all places of t, which is closed, in one step.
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
