-- Tasks that sandboxes delegated to: bounded by their parent, and over when it is.
ALTER TABLE tasks ADD COLUMN parent_id  TEXT   NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN root_id    TEXT   NOT NULL DEFAULT ''; -- the task of a runner that it began with
ALTER TABLE tasks ADD COLUMN ancestors  TEXT   NOT NULL DEFAULT ''; -- from the root to the parent, separated by a space
ALTER TABLE tasks ADD COLUMN delegation TEXT   NOT NULL DEFAULT ''; -- JSON object; '': it may not delegate
ALTER TABLE tasks ADD COLUMN uses       BIGINT NOT NULL DEFAULT 0;  -- credentials in all, those it delegates included; 0: no limit
CREATE INDEX tasks_parent ON tasks (parent_id) WHERE parent_id <> '';
CREATE INDEX tasks_root   ON tasks (root_id, id) WHERE root_id <> '';
CREATE INDEX tasks_root_open ON tasks (root_id, id) WHERE root_id <> '' AND state <> 'closed';
CREATE INDEX tasks_delegated_open ON tasks (id) WHERE parent_id <> '' AND state <> 'closed';
