-- Secrets of a project. The value of the last version alone is kept, sealed; `key_id` says by which master key.
CREATE TABLE secrets (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    sealed BLOB,
    key_id TEXT,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX secrets_name ON secrets (project_id, name) WHERE deleted_at IS NULL;
CREATE INDEX secrets_key ON secrets (key_id) WHERE key_id IS NOT NULL;

CREATE TABLE secret_versions (
    secret_id TEXT NOT NULL REFERENCES secrets (id),
    version INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (secret_id, version)
) STRICT, WITHOUT ROWID;

-- What whoever started a process should know of it: a list of sentences.
ALTER TABLE processes ADD COLUMN warnings TEXT;
