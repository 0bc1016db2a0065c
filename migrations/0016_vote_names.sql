-- Other names of who voted, by which the same person might give a second answer.
ALTER TABLE votes ADD COLUMN also TEXT NOT NULL DEFAULT '[]'; -- JSON array
