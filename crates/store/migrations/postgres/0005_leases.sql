-- What the rules of leases know of a sandbox: up to which fence something may still run, before when nobody is let in, in which life of its
-- host's server the fence was confirmed, and when somebody has to look. Moments are milliseconds of an era of the store's clock.
ALTER TABLE sandboxes ADD COLUMN dirty BIGINT;
ALTER TABLE sandboxes ADD COLUMN not_before_era BIGINT;
ALTER TABLE sandboxes ADD COLUMN not_before BIGINT;
ALTER TABLE sandboxes ADD COLUMN confirmed_in BIGINT;
ALTER TABLE sandboxes ADD COLUMN due_era BIGINT;
ALTER TABLE sandboxes ADD COLUMN due BIGINT;
-- How often what a holder left could not be cleaned up in a row, and why it is given up.
ALTER TABLE sandboxes ADD COLUMN cleaning_failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN quarantined TEXT COLLATE "C";
CREATE INDEX sandboxes_due ON sandboxes (due) WHERE due IS NOT NULL;
CREATE INDEX sandboxes_dirty ON sandboxes (host_id, id) WHERE dirty IS NOT NULL;

-- Environments and sandboxes are named without a reference: whoever removes one removes these first, and is not sent through all of them.
-- `terms` is what the rules need not know, as JSON. `work` is what is still to be done with what it left: `pending`, or empty.
CREATE TABLE leases (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    environment_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    principal_id TEXT COLLATE "C" NOT NULL,
    bind TEXT COLLATE "C" NOT NULL,
    mode TEXT COLLATE "C" NOT NULL,
    implicit BIGINT NOT NULL,
    stage TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    ttl BIGINT NOT NULL,
    max_lifetime BIGINT,
    era BIGINT,
    expires BIGINT,
    ends BIGINT,
    terms TEXT COLLATE "C" NOT NULL,
    token_hash TEXT COLLATE "C",
    acquired_at BIGINT NOT NULL,
    ended_at BIGINT,
    how TEXT COLLATE "C",
    clean BIGINT,
    reason TEXT COLLATE "C",
    work TEXT COLLATE "C"
);
CREATE INDEX leases_live ON leases (sandbox_id, id) WHERE ended_at IS NULL;
CREATE INDEX leases_idle ON leases (sandbox_id) WHERE ended_at IS NULL AND implicit = 1 AND expires IS NULL;
CREATE INDEX leases_ended ON leases (ended_at) WHERE ended_at IS NOT NULL AND work IS NULL AND implicit = 1;
CREATE INDEX leases_held ON leases (project_id, id) WHERE ended_at IS NULL;
CREATE INDEX leases_work ON leases (sandbox_id) WHERE work IS NOT NULL;
-- Not by the sandbox first: whoever asks for the live ones would be sent through all that ever were.
CREATE INDEX leases_sandbox ON leases (project_id, sandbox_id, id);
CREATE INDEX leases_fence ON leases (project_id, sandbox_id, fence) WHERE mode = 'exclusive';
CREATE INDEX leases_project ON leases (project_id, id);

CREATE TABLE tickets (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    environment_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    principal_id TEXT COLLATE "C" NOT NULL,
    bind TEXT COLLATE "C" NOT NULL,
    mode TEXT COLLATE "C" NOT NULL,
    ttl BIGINT NOT NULL,
    max_lifetime BIGINT,
    priority BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    wait BIGINT NOT NULL,
    era BIGINT NOT NULL,
    deadline BIGINT NOT NULL,
    terms TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX tickets_queue ON tickets (sandbox_id, rank, id) WHERE status = 'waiting';
CREATE INDEX tickets_deadline ON tickets (sandbox_id, deadline) WHERE status = 'waiting';
CREATE INDEX tickets_lease ON tickets (lease_id);
CREATE INDEX tickets_ended ON tickets (ended_at) WHERE ended_at IS NOT NULL;

-- Whether something runs in a sandbox is asked before its holder changes.
DROP INDEX processes_unfinished;
CREATE INDEX processes_unfinished ON processes (host_id, sandbox_id, id) WHERE ended_at IS NULL;
