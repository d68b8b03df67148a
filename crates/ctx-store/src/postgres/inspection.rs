//! What the server knows of the database: sizes, and faults in tables and indexes.

use crate::Error;
use crate::driver::{Arg, Inspection};

use super::MIGRATIONS;
use super::connection::{Conn, Fault};

const SIZES: &str = "SELECT current_setting('server_version'),
     pg_database_size(current_database()), pg_total_relation_size('bodies'),
     pg_total_relation_size('search_documents') + pg_total_relation_size('search_words')";
const MISSING: &str = "SELECT name FROM unnest(?1) AS name WHERE to_regclass(name) IS NULL";
/// Indexes of the schema, whether each is valid, and whether amcheck can check it.
const INDEXES: &str = "SELECT c.relname, c.oid::bigint, i.indisvalid AND i.indisready,
       a.amname = 'btree' AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck')
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('meta'))
     ORDER BY c.relname";

/// Version and sizes; with `deep`, also tables and indexes that are missing or damaged.
pub(super) fn inspect(conn: &Conn, deep: bool) -> Result<Inspection, Error> {
    let rows = conn.query(SIZES, &[])?;
    let Some(row) = rows.first() else { return Ok(Inspection::default()) };
    let version = row.string(0).split(' ').next().unwrap_or_default();
    let bytes = |column: usize| row.number(column).unsigned_abs();
    Ok(Inspection {
        engine: format!("PostgreSQL {version}"),
        sizes: vec![("database", bytes(1)), ("bodies", bytes(2)), ("search", bytes(3))],
        faults: if deep { faults(conn)? } else { Vec::new() },
    })
}

fn faults(conn: &Conn) -> Result<Vec<String>, Error> {
    let names: Vec<String> = MIGRATIONS.iter().flat_map(|(sql, _)| created(sql)).collect();
    let missing = conn.query(MISSING, &[Arg::Texts(&names)])?;
    let mut faults: Vec<String> =
        missing.iter().map(|row| format!("{} is missing", row.string(0))).collect();
    for index in conn.query(INDEXES, &[])? {
        let (name, oid) = (index.string(0), index.number(1));
        if index.number(2) == 0 {
            faults.push(format!("index {name} is not valid: use REINDEX"));
        } else if index.number(3) != 0
            && let Err(error) = conn.command(&format!("SELECT bt_index_check({oid}::regclass)"))
        {
            if conn.take_fault() == Some(Fault::Lost) {
                return Err(error);
            }
            faults.push(format!("index {name}: {error}"));
        }
    }
    Ok(faults)
}

/// The tables and indexes that a migration creates.
fn created(sql: &str) -> Vec<String> {
    let words: Vec<&str> = sql.split(|c: char| c.is_whitespace() || c == '(').collect();
    let name = |three: &[&str]| match three {
        ["TABLE" | "INDEX", name, _] => Some((*name).to_owned()),
        _ => None,
    };
    let made = |at: usize| at > 0 && ["CREATE", "UNIQUE"].contains(&words[at - 1]);
    let windows = words.windows(3).enumerate();
    windows.filter(|(at, _)| made(*at)).filter_map(|(_, three)| name(three)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_index_of_a_migration_is_expected() {
        let sql =
            "CREATE TABLE a (b INT);\nCREATE UNIQUE INDEX c ON a(b);\nALTER TABLE d ADD e INT;";
        assert_eq!(created(sql), ["a", "c"]);
        let first = created(MIGRATIONS[0].0);
        assert!(first.len() > 30 && first.contains(&"sessions_by_base".to_owned()), "{first:?}");
    }
}
