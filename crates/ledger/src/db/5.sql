-- The key that asked and the account that pays, as they were when the record was written.
ALTER TABLE runs ADD COLUMN key TEXT;
ALTER TABLE runs ADD COLUMN account TEXT;
ALTER TABLE requests ADD COLUMN key TEXT;
ALTER TABLE requests ADD COLUMN account TEXT;
ALTER TABLE open_requests ADD COLUMN key TEXT;
ALTER TABLE open_requests ADD COLUMN account TEXT;
CREATE INDEX requests_by_account ON requests (account, at) WHERE account IS NOT NULL;
