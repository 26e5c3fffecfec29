-- The layer that a sandbox writes to, empty for the one that was made with it; those below, as a JSON list from the top down, empty for none;
-- and the checkpoint that its files come from.
ALTER TABLE sandboxes ADD COLUMN upper TEXT;
ALTER TABLE sandboxes ADD COLUMN layers TEXT;
ALTER TABLE sandboxes ADD COLUMN checkpoint_id TEXT;

-- `sealed_in` is the provider's mark of the time in which it was sealed; `deleted_at` is when its layers became free.
CREATE TABLE checkpoints (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    environment_id TEXT NOT NULL REFERENCES environments (id),
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    host_id TEXT,
    name TEXT,
    parent_id TEXT,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    layers TEXT NOT NULL,
    sealed_in TEXT,
    message TEXT,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    durable_at INTEGER,
    setup_version INTEGER,
    deleted_at INTEGER
) STRICT;
CREATE INDEX checkpoints_environment ON checkpoints (environment_id, id) WHERE deleted_at IS NULL;
CREATE INDEX checkpoints_host ON checkpoints (host_id, id) WHERE deleted_at IS NULL;
CREATE INDEX checkpoints_sealed ON checkpoints (host_id, id) WHERE state = 'sealed' AND deleted_at IS NULL AND message IS NULL;
