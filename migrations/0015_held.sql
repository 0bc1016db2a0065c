-- Tasks that ebb has paused because of what they ask: the queue leaves out what waits of them.
CREATE INDEX tasks_held ON tasks (id) WHERE state = 'paused' AND cause <> '';
CREATE INDEX requests_owner_made ON requests (owner, runner, created_at);
