//! Shared statements in the dialect of PostgreSQL.

/// Tables whose key is `row`; that of all others is `id`.
const KEYED_BY_ROW: [&str; 3] = ["sessions", "tasks", "outbox"];

/// A shared statement in the dialect of PostgreSQL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// One more parameter than the shared statement has: the number of the newest row before which
    /// no other can appear.
    pub(super) settled: bool,
}

/// Translates `?1`, `IN LIST(?1)` and `/*pg … */`. In the last, `SETTLED` is the parameter after
/// those of the statement.
pub(super) fn translate(sql: &str, args: usize) -> Translated {
    let sql = sql.replace("/*pg ", "").replace("*/", "");
    let settled = sql.contains("SETTLED");
    let sql = sql.replace("SETTLED", &format!("?{}", args + 1));
    let mut text = String::with_capacity(sql.len());
    let mut parts = sql.split("IN LIST(?");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap_or((part, ""));
        text.push_str(&format!("= ANY(?{number}){rest}"));
    }
    Translated { text: text.replace('?', "$"), settled }
}

/// Adds the number of the row, as last parameter, to a statement that inserts one.
pub(super) fn with_row_number(sql: &str, args: usize) -> String {
    let number = format!("?{}", args + 1);
    let Some((head, rest)) = sql.split_once('(') else { return sql.to_owned() };
    let table = head.trim().rsplit(' ').next().unwrap_or_default();
    let key = if KEYED_BY_ROW.contains(&table) { "row" } else { "id" };
    let Some((columns, values)) = rest.split_once("VALUES (") else { return sql.to_owned() };
    match columns.strip_prefix("row, ") {
        // The number that SQLite would choose is replaced.
        Some(columns) => {
            let values = &values[end_of_value(values)..];
            format!("{head}(row, {columns}VALUES ({number}{values}")
        }
        None => format!("{head}({key}, {columns}VALUES ({number}, {values}"),
    }
}

/// Offset of the comma after the first value of a list.
fn end_of_value(values: &str) -> usize {
    let mut depth = 0;
    let ends = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    values.find(ends).unwrap_or(values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_the_dialect_of_postgresql() {
        let sql = "SELECT 1 FROM t WHERE a IN LIST(?1) AND (?12 IS NULL OR b = ?2)";
        let text = "SELECT 1 FROM t WHERE a = ANY($1) AND ($12 IS NULL OR b = $2)";
        assert_eq!(translate(sql, 12), Translated { text: text.to_owned(), settled: false });
        let sql = "SELECT MAX(id) FROM t WHERE id > ?1 /*pg AND id <= SETTLED*/ ORDER BY id";
        let text = "SELECT MAX(id) FROM t WHERE id > $1 AND id <= $2 ORDER BY id";
        assert_eq!(translate(sql, 1), Translated { text: text.to_owned(), settled: true });
    }

    #[test]
    fn an_inserted_row_gets_its_number() {
        assert_eq!(
            with_row_number("INSERT INTO events(session, at)\n VALUES (?1, ?2)", 2),
            "INSERT INTO events(id, session, at)\n VALUES (?3, ?1, ?2)"
        );
        assert_eq!(
            with_row_number("INSERT INTO tasks(id) VALUES (?1)", 1),
            "INSERT INTO tasks(row, id) VALUES (?2, ?1)"
        );
        assert_eq!(
            with_row_number("INSERT INTO sessions(row, id) VALUES (1 + (SELECT a, b), ?1)", 1),
            "INSERT INTO sessions(row, id) VALUES (?2, ?1)"
        );
    }
}
