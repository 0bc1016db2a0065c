-- The limits of a lease beside its scopes: the one request or SQL text for which it can be used once, and the
-- amounts that its task may spend. '': no such limit.
ALTER TABLE leases ADD COLUMN content    TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN max_amount TEXT NOT NULL DEFAULT '';

-- Sums under such limits: of a task and the tasks below it at one provider (holder: its name), and the one use of
-- a content under an approval or a lease (holder: the id of either, a slash, the content).
CREATE TABLE spending (
    task_id TEXT   NOT NULL, -- of the runner's task
    holder  TEXT   NOT NULL,
    unit    TEXT   NOT NULL,
    amount  BIGINT NOT NULL, -- in ten-thousandths of the unit
    PRIMARY KEY (task_id, holder, unit)
);
