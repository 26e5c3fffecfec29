ALTER TABLE processes ADD COLUMN purpose TEXT COLLATE "C";
-- The version of the definition whose setup script has run to its end; empty before the first.
ALTER TABLE environments ADD COLUMN setup_version BIGINT;
