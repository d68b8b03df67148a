#!/usr/bin/env bash
# Turns per second of pgbench with the whole turn of the peer benchmark, and with the rows that ctx stores for a turn:
#   docs/scale/own_rows.sh URL CTX [SECONDS]
# URL names a PostgreSQL server, without a database: postgres://user@host:port. CTX is the program.
set -euo pipefail
server=$1 ctx=$2 seconds=${3:-4}
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"; psql -q "$server/postgres" -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS ctx_own_rows"' EXIT
psql -q "$server/postgres" -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS ctx_own_rows" -c "CREATE DATABASE ctx_own_rows"
url=$server/ctx_own_rows
"$ctx" --data "$dir" --store "$url" init >/dev/null
psql -q "$url" <<'SQL'
DO $$ DECLARE columns TEXT; BEGIN
  SELECT string_agg(column_name, ', ') INTO columns FROM information_schema.columns
  WHERE table_name = 'sessions' AND is_generated = 'NEVER' AND column_name NOT IN ('row', 'id', 'label');
  EXECUTE format('INSERT INTO sessions(row, id, label, %1$s)
    SELECT 1000000 + g, g::text, g::text, %1$s FROM (SELECT * FROM sessions LIMIT 1) s, generate_series(0, 63) g', columns);
END $$;
CREATE TABLE rt(id BIGSERIAL PRIMARY KEY, s INT, k INT, d TEXT);
CREATE TABLE rs(id INT PRIMARY KEY, head BIGINT);
CREATE TABLE rh(id BIGSERIAL PRIMARY KEY, s INT, head BIGINT);
ALTER TABLE rt ALTER d SET STORAGE EXTERNAL;
INSERT INTO rs SELECT g, 0 FROM generate_series(0, 63) g;
SQL
text() { echo "repeat(md5(random()::text), $1)"; }
cat >"$dir/whole_turn.sql" <<SQL
WITH m AS (INSERT INTO rt(s, k, d) VALUES (:client_id, 0, $(text 32)), (:client_id, 1, $(text 64)), (:client_id, 2, $(text 128)),
  (:client_id, 3, $(text 128)) RETURNING id), u AS (UPDATE rs SET head = (SELECT max(id) FROM m) WHERE id = :client_id RETURNING head)
INSERT INTO rh(s, head) SELECT :client_id, head FROM u;
SQL
rate() { pgbench -n -M prepared -j 2 -T "$seconds" -c "$1" -f "$2" "$url" 2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1/p'; }
for clients in 1 8; do
  for _ in 1 2 3; do
    echo "$clients clients: whole turn $(rate "$clients" "$dir/whole_turn.sql"), rows of ctx $(rate "$clients" "$here/own_rows.sql")"
  done
done
