-- The gradebook, version 1. Rows are added, never changed: triggers refuse it.
BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  began TEXT NOT NULL,        -- ISO 8601, UTC
  assignment TEXT NOT NULL,   -- stem of the exercise, such as 03_masks
  exercise TEXT NOT NULL,     -- SHA-256 of the exercise with its checks
  environment TEXT NOT NULL,  -- SHA-256 of Python, platform, and packages
  seed_id TEXT NOT NULL,      -- tells secret seeds apart
  sandbox TEXT NOT NULL,      -- L0 to L3
  program TEXT NOT NULL,      -- version of attnlearn
  total INTEGER NOT NULL      -- submissions that it set out to grade
) STRICT;

CREATE TABLE IF NOT EXISTS ended (
  run INTEGER PRIMARY KEY REFERENCES runs (id),
  at TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS attempts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL REFERENCES runs (id),
  assignment TEXT NOT NULL,
  student TEXT NOT NULL,
  student_id TEXT NOT NULL,   -- the learning platform's number, or empty
  key TEXT NOT NULL,          -- the student, as the files of results are named
  file TEXT NOT NULL,
  submission TEXT NOT NULL,   -- SHA-256 of the file; empty where there was none to read
  status TEXT NOT NULL,
  score REAL NOT NULL,
  max_score REAL NOT NULL,
  graded TEXT NOT NULL,
  result TEXT NOT NULL,       -- the whole result as JSON
  chain TEXT NOT NULL UNIQUE  -- SHA-256 of the row, its run, and the chain of the row before
) STRICT;
CREATE INDEX IF NOT EXISTS attempts_of_student ON attempts (assignment, key, id);

CREATE TABLE IF NOT EXISTS kept ( -- attempts of earlier runs that still held in this one
  run INTEGER NOT NULL REFERENCES runs (id),
  attempt INTEGER NOT NULL REFERENCES attempts (id),
  PRIMARY KEY (run, attempt)
) STRICT;

CREATE VIEW IF NOT EXISTS tasks AS
SELECT attempts.id AS attempt,
  json_extract(task.value, '$.id') AS task,
  json_extract(task.value, '$.points') AS points,
  json_extract(task.value, '$.earned') AS earned,
  json_extract(task.value, '$.status') AS status
FROM attempts, json_each(attempts.result, '$.exercises') AS task;

CREATE VIEW IF NOT EXISTS cases AS
SELECT attempts.id AS attempt,
  json_extract(task.value, '$.id') AS task,
  json_extract(item.value, '$.name') AS name,
  json_extract(item.value, '$.hidden') AS hidden,
  json_extract(item.value, '$.weight') AS weight,
  json_extract(item.value, '$.passed') AS passed,
  json_extract(item.value, '$.mistake') AS mistake
FROM attempts, json_each(attempts.result, '$.exercises') AS task,
  json_each(task.value, '$.cases') AS item;

CREATE TRIGGER IF NOT EXISTS runs_no_update BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS runs_no_delete BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ended_no_update BEFORE UPDATE ON ended
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ended_no_delete BEFORE DELETE ON ended
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS attempts_no_delete BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS kept_no_update BEFORE UPDATE ON kept
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS kept_no_delete BEFORE DELETE ON kept
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;

-- INSERT OR REPLACE would delete without asking the triggers above.
CREATE TRIGGER IF NOT EXISTS runs_no_replace BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE id = new.id)
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ended_no_replace BEFORE INSERT ON ended
WHEN EXISTS (SELECT 1 FROM ended WHERE run = new.run)
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;
CREATE TRIGGER IF NOT EXISTS attempts_no_replace BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE id = new.id OR chain = new.chain)
BEGIN SELECT RAISE(ABORT, 'the gradebook is append-only'); END;

PRAGMA application_id = 0x6174746e; -- "attn"
PRAGMA user_version = 1;
COMMIT;
