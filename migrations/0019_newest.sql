-- What waits, newest first: every second while anybody follows the queue, from the index alone.
CREATE INDEX requests_newest ON requests (id, expires_at, task_id) WHERE state = 'pending';
