CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    handle TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX projects_handle ON projects (handle) WHERE deleted_at IS NULL;

-- `home` is the project that made the principal, empty for those of the whole server.
CREATE TABLE principals (
    id TEXT NOT NULL PRIMARY KEY,
    home TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX principals_name ON principals (home, name_key);

CREATE TABLE members (
    project_id TEXT NOT NULL REFERENCES projects (id),
    principal_id TEXT NOT NULL REFERENCES principals (id),
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, principal_id)
) STRICT;

-- `pinned` is 0 only for the first owner's key, which reaches every project.
CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    principal_id TEXT NOT NULL REFERENCES principals (id),
    name TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    tags TEXT NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
CREATE INDEX api_keys_project ON api_keys (project_id, id);

CREATE TABLE hosts (
    id TEXT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sandboxes (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    provider TEXT NOT NULL,
    status TEXT NOT NULL,
    resource_id TEXT,
    resource_name TEXT,
    host_id TEXT,
    made_for TEXT,
    fence INTEGER NOT NULL,
    observed_state TEXT,
    observed_message TEXT,
    observed_at INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    destroyed_at INTEGER
) STRICT;
CREATE INDEX sandboxes_project ON sandboxes (project_id, id);
CREATE INDEX sandboxes_host ON sandboxes (host_id, id) WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_unfinished ON sandboxes (status, updated_at) WHERE status IN ('provisioning', 'destroying');
CREATE INDEX sandboxes_alone ON sandboxes (project_id) WHERE made_for IS NULL AND destroyed_at IS NULL;

-- `name_key` and `scope_key` are what names are compared by; `deleted_at` is when the name became free.
CREATE TABLE environments (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    scope TEXT,
    scope_key TEXT NOT NULL,
    provider TEXT NOT NULL,
    status TEXT NOT NULL,
    environment_mode TEXT NOT NULL,
    lifetime TEXT NOT NULL,
    purpose TEXT,
    owned_by TEXT,
    bound_to_type TEXT,
    bound_to_id TEXT,
    created_by TEXT,
    updated_by TEXT,
    template_id TEXT,
    capabilities TEXT NOT NULL,
    spec_version INTEGER NOT NULL,
    spec TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    posture TEXT NOT NULL,
    tags TEXT NOT NULL,
    contains_secrets INTEGER NOT NULL,
    allow_unenforced INTEGER NOT NULL,
    cleanup_status TEXT NOT NULL,
    retention_policy TEXT NOT NULL,
    revision INTEGER NOT NULL,
    last_seen_at INTEGER,
    last_reconciled_at INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    destroyed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX environments_name ON environments (project_id, scope_key, name_key) WHERE deleted_at IS NULL;
CREATE INDEX environments_live ON environments (project_id, id) WHERE destroyed_at IS NULL;
CREATE INDEX environments_all ON environments (project_id, id);
CREATE INDEX environments_sandbox ON environments (sandbox_id);
CREATE INDEX environments_names ON environments (project_id, name_key) WHERE destroyed_at IS NULL;
CREATE INDEX environments_owner ON environments (project_id, owned_by, id);
CREATE INDEX environments_binding ON environments (project_id, bound_to_id, id);
CREATE INDEX environments_unfinished ON environments (status, updated_at) WHERE status IN ('provisioning', 'destroying');

CREATE TABLE definition_versions (
    environment_id TEXT NOT NULL REFERENCES environments (id),
    version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    rolled_back_to INTEGER,
    PRIMARY KEY (environment_id, version)
) STRICT;

CREATE TABLE audit (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    at INTEGER NOT NULL,
    principal_id TEXT,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    source TEXT NOT NULL,
    request_id TEXT,
    details TEXT NOT NULL
) STRICT;
CREATE INDEX audit_project ON audit (project_id, id);
CREATE INDEX audit_target ON audit (project_id, target_id, id);

-- `reply` is what the first request was answered with; `sealed` is 1 when it is encrypted, because it holds a key.
CREATE TABLE idempotency (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    target_id TEXT,
    status INTEGER,
    reply BLOB,
    sealed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);
CREATE INDEX idempotency_sealed ON idempotency (created_at) WHERE sealed = 1;
