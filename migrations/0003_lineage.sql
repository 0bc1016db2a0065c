-- What a credential was narrowed from: it dies with that.
ALTER TABLE leases ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
CREATE INDEX leases_parent ON leases (parent_id) WHERE parent_id <> '';
ALTER TABLE requests ADD COLUMN parents TEXT NOT NULL DEFAULT ''; -- leases, oldest first, separated by a space

-- Who paused a task, and as what: only the same or more may resume it.
ALTER TABLE tasks ADD COLUMN paused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN paused_as TEXT NOT NULL DEFAULT '';

CREATE INDEX tasks_runner_open ON tasks (runner) WHERE state <> 'closed';
