-- `host_id` is the host that keeps the process, empty when any server may speak for it. Values of environment variables and what is written
-- to stdin are deliberately not here.
CREATE TABLE processes (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    environment_id TEXT NOT NULL REFERENCES environments (id),
    sandbox_id TEXT NOT NULL,
    host_id TEXT,
    status TEXT NOT NULL,
    argv TEXT NOT NULL,
    cwd TEXT,
    stdin TEXT NOT NULL,
    terminal TEXT,
    timeout_ms INTEGER,
    spec_version INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    started_by TEXT,
    created_at INTEGER NOT NULL,
    exit TEXT,
    error TEXT,
    ended_at INTEGER
) STRICT;
CREATE INDEX processes_environment ON processes (environment_id, id);
CREATE INDEX processes_unfinished ON processes (host_id, id) WHERE ended_at IS NULL;
CREATE INDEX processes_ended ON processes (ended_at) WHERE ended_at IS NOT NULL;
