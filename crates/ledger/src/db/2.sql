ALTER TABLE runs ADD COLUMN name TEXT;      -- what the client calls it: several may have one
ALTER TABLE runs ADD COLUMN observed INTEGER NOT NULL DEFAULT 0; -- its policy only observes
