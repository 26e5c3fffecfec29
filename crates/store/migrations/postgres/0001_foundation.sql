CREATE TABLE settings (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE projects (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    handle TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX projects_handle ON projects (handle) WHERE deleted_at IS NULL;

-- `home` is the project that made the principal, empty for those of the whole server.
CREATE TABLE principals (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    home TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX principals_name ON principals (home, name_key);

CREATE TABLE members (
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    principal_id TEXT COLLATE "C" NOT NULL REFERENCES principals (id),
    role TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, principal_id)
);

-- `pinned` is 0 only for the first owner's key, which reaches every project.
CREATE TABLE api_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    principal_id TEXT COLLATE "C" NOT NULL REFERENCES principals (id),
    name TEXT COLLATE "C" NOT NULL,
    key_hash TEXT COLLATE "C" NOT NULL,
    key_prefix TEXT COLLATE "C" NOT NULL,
    pinned BIGINT NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
CREATE INDEX api_keys_project ON api_keys (project_id, id);

CREATE TABLE hosts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    address TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL
);

CREATE TABLE sandboxes (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    provider TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C",
    resource_name TEXT COLLATE "C",
    host_id TEXT COLLATE "C",
    made_for TEXT COLLATE "C",
    fence BIGINT NOT NULL,
    observed_state TEXT COLLATE "C",
    observed_message TEXT COLLATE "C",
    observed_at BIGINT,
    last_error TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    destroyed_at BIGINT
);
CREATE INDEX sandboxes_project ON sandboxes (project_id, id);
CREATE INDEX sandboxes_host ON sandboxes (host_id, id) WHERE destroyed_at IS NULL;
CREATE INDEX sandboxes_unfinished ON sandboxes (status, updated_at) WHERE status IN ('provisioning', 'destroying');
CREATE INDEX sandboxes_alone ON sandboxes (project_id) WHERE made_for IS NULL AND destroyed_at IS NULL;

-- `name_key` and `scope_key` are what names are compared by; `deleted_at` is when the name became free.
CREATE TABLE environments (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    sandbox_id TEXT COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C",
    scope_key TEXT COLLATE "C" NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    environment_mode TEXT COLLATE "C" NOT NULL,
    lifetime TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C",
    owned_by TEXT COLLATE "C",
    bound_to_type TEXT COLLATE "C",
    bound_to_id TEXT COLLATE "C",
    created_by TEXT COLLATE "C",
    updated_by TEXT COLLATE "C",
    template_id TEXT COLLATE "C",
    capabilities TEXT COLLATE "C" NOT NULL,
    spec_version BIGINT NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    posture TEXT COLLATE "C" NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    contains_secrets BIGINT NOT NULL,
    allow_unenforced BIGINT NOT NULL,
    cleanup_status TEXT COLLATE "C" NOT NULL,
    retention_policy TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    last_seen_at BIGINT,
    last_reconciled_at BIGINT,
    last_error TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    destroyed_at BIGINT
);
CREATE UNIQUE INDEX environments_name ON environments (project_id, scope_key, name_key) WHERE deleted_at IS NULL;
CREATE INDEX environments_live ON environments (project_id, id) WHERE destroyed_at IS NULL;
CREATE INDEX environments_all ON environments (project_id, id);
CREATE INDEX environments_sandbox ON environments (sandbox_id);
CREATE INDEX environments_names ON environments (project_id, name_key) WHERE destroyed_at IS NULL;
CREATE INDEX environments_owner ON environments (project_id, owned_by, id);
CREATE INDEX environments_binding ON environments (project_id, bound_to_id, id);
CREATE INDEX environments_unfinished ON environments (status, updated_at) WHERE status IN ('provisioning', 'destroying');

CREATE TABLE definition_versions (
    environment_id TEXT COLLATE "C" NOT NULL REFERENCES environments (id),
    version BIGINT NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    rolled_back_to BIGINT,
    PRIMARY KEY (environment_id, version)
);

CREATE TABLE audit (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    at BIGINT NOT NULL,
    principal_id TEXT COLLATE "C",
    action TEXT COLLATE "C" NOT NULL,
    target_type TEXT COLLATE "C" NOT NULL,
    target_id TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C",
    details TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_project ON audit (project_id, id);
CREATE INDEX audit_target ON audit (project_id, target_id, id);

-- `reply` is what the first request was answered with; `sealed` is 1 when it is encrypted, because it holds a key.
CREATE TABLE idempotency (
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    target_id TEXT COLLATE "C",
    status BIGINT,
    reply BYTEA,
    sealed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);
CREATE INDEX idempotency_sealed ON idempotency (created_at) WHERE sealed = 1;
