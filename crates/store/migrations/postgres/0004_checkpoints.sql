-- The layer that a sandbox writes to, empty for the one that was made with it; those below, as a JSON list from the top down, empty for none;
-- and the checkpoint that its files come from.
ALTER TABLE sandboxes ADD COLUMN upper TEXT COLLATE "C";
ALTER TABLE sandboxes ADD COLUMN layers TEXT COLLATE "C";
ALTER TABLE sandboxes ADD COLUMN checkpoint_id TEXT COLLATE "C";

-- `sealed_in` is the provider's mark of the time in which it was sealed; `deleted_at` is when its layers became free.
CREATE TABLE checkpoints (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    environment_id TEXT COLLATE "C" NOT NULL REFERENCES environments (id),
    sandbox_id TEXT COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    host_id TEXT COLLATE "C",
    name TEXT COLLATE "C",
    parent_id TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    layers TEXT COLLATE "C" NOT NULL,
    sealed_in TEXT COLLATE "C",
    message TEXT COLLATE "C",
    created_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    durable_at BIGINT,
    setup_version BIGINT,
    deleted_at BIGINT
);
CREATE INDEX checkpoints_environment ON checkpoints (environment_id, id) WHERE deleted_at IS NULL;
CREATE INDEX checkpoints_host ON checkpoints (host_id, id) WHERE deleted_at IS NULL;
CREATE INDEX checkpoints_sealed ON checkpoints (host_id, id) WHERE state = 'sealed' AND deleted_at IS NULL AND message IS NULL;
