-- Which repositories an environment was shown to be entitled to, as JSON. A definition only names them.
ALTER TABLE environments ADD COLUMN repository_grant TEXT;
