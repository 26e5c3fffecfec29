-- `host_id` is the host that keeps the process, empty when any server may speak for it. Values of environment variables and what is written
-- to stdin are deliberately not here.
CREATE TABLE processes (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    environment_id TEXT COLLATE "C" NOT NULL REFERENCES environments (id),
    sandbox_id TEXT COLLATE "C" NOT NULL,
    host_id TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL,
    argv TEXT COLLATE "C" NOT NULL,
    cwd TEXT COLLATE "C",
    stdin TEXT COLLATE "C" NOT NULL,
    terminal TEXT COLLATE "C",
    timeout_ms BIGINT,
    spec_version BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    started_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    exit TEXT COLLATE "C",
    error TEXT COLLATE "C",
    ended_at BIGINT
);
CREATE INDEX processes_environment ON processes (environment_id, id);
CREATE INDEX processes_unfinished ON processes (host_id, id) WHERE ended_at IS NULL;
CREATE INDEX processes_ended ON processes (ended_at) WHERE ended_at IS NOT NULL;
