-- Other names of a person, under which tasks may know their owner: nobody decides requests of their own.
ALTER TABLE sessions ADD COLUMN also TEXT NOT NULL DEFAULT '[]'; -- JSON array
