//! Shared statements in the dialect of PostgreSQL.

use crate::driver::ArgType;

use super::values::list_of;

/// Tables whose key is `row`; that of all others is `id`.
const KEYED_BY_ROW: [&str; 3] = ["sessions", "tasks", "outbox"];

/// How a shared statement is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Form {
    /// It inserts a row whose number is the last parameter.
    pub(super) numbered: bool,
    /// It is executed for several lists of parameters at once. The rows of a query have one more
    /// column: the number of their parameters, from 1. A list of values has one value.
    pub(super) merged: bool,
}

/// A shared statement in the dialect of PostgreSQL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// One more parameter than the shared statement has: the number of the newest row before which
    /// no other can appear.
    pub(super) settled: bool,
}

/// Translates `?1`, `IN LIST(?1)` and `/*pg … */`. In the last, `SETTLED` is the parameter after
/// those of the statement. `None` if the statement cannot be merged.
pub(super) fn translate(sql: &str, types: &[ArgType], form: Form) -> Option<Translated> {
    let sql = sql.replace("/*pg ", "").replace("*/", "");
    let settled = sql.contains("SETTLED");
    let sql = sql.replace("SETTLED", &format!("?{}", types.len() + 1));
    let sql = if form.numbered { with_row_number(&sql, types.len()) } else { sql };
    let text = match form.merged {
        false => lists(&sql, |number| format!("= ANY(?{number})")).replace('?', "$"),
        true if settled || types.is_empty() => return None,
        true => merged(&lists(&sql, |number| format!("= ?{number}")), types)?,
    };
    Some(Translated { text, settled })
}

/// Replaces each `IN LIST(?1)`.
fn lists(sql: &str, list: impl Fn(&str) -> String) -> String {
    let mut parts = sql.split("IN LIST(?");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap_or((part, ""));
        text.push_str(&list(number));
        text.push_str(rest);
    }
    text
}

/// Replaces each `?1`. `None` if one has no replacement.
fn replaced(sql: &str, value: impl Fn(usize) -> Option<String>) -> Option<String> {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        text.push_str(&value(part[..digits].parse().ok()?)?);
        text.push_str(&part[digits..]);
    }
    Some(text)
}

/// A statement for several rows of parameters, which are in lists.
fn merged(sql: &str, types: &[ArgType]) -> Option<String> {
    let (mut lists, mut names) = (Vec::new(), Vec::new());
    for (n, kind) in types.iter().enumerate() {
        lists.push(format!("${}::{}", n + 1, list_of(*kind)?.1));
        names.push(format!("p{}", n + 1));
    }
    let (lists, names) = (lists.join(", "), names.join(", "));
    let given = format!("unnest({lists}) AS given({names})");
    let own = |n: usize| (n <= types.len()).then(|| format!("given.p{n}"));
    if sql.starts_with("SELECT") || sql.starts_with("WITH") {
        let sql = replaced(sql, own)?;
        return Some(format!(
            "SELECT q.*, given.nth FROM unnest({lists}) WITH ORDINALITY AS given({names}, nth) \
             CROSS JOIN LATERAL ({sql}) AS q"
        ));
    }
    if sql.starts_with("INSERT") {
        let (head, rest) = sql.split_once("VALUES (")?;
        let end = end_of(rest, ')');
        let (values, rest) = (&rest[..end], rest.get(end + 1..)?);
        let columns = head.split_once('(')?.1.trim_end().strip_suffix(')')?;
        let columns: Vec<&str> = columns.split(',').map(str::trim).collect();
        let values_of = split_values(values);
        // After a conflict, a parameter is what its column would have got.
        let excluded = |n: usize| {
            let at = values_of.iter().position(|value| value.trim() == format!("?{n}"))?;
            Some(format!("excluded.{}", columns.get(at)?))
        };
        let (values, rest) = (replaced(values, own)?, replaced(rest, excluded)?);
        return Some(format!("{head}SELECT {values} FROM {given}{rest}"));
    }
    if sql.contains("SELECT") {
        return None;
    }
    let (head, condition) = sql.split_once("WHERE")?;
    let (head, condition) = (replaced(head, own)?, replaced(condition, own)?);
    let word = if sql.starts_with("DELETE") { "USING" } else { "FROM" };
    Some(format!("{head}{word} {given} WHERE{condition}"))
}

/// Adds the number of the row, the last parameter, to a statement that inserts one.
fn with_row_number(sql: &str, last: usize) -> String {
    let number = format!("?{last}");
    let Some((head, rest)) = sql.split_once('(') else { return sql.to_owned() };
    let table = head.trim().rsplit(' ').next().unwrap_or_default();
    let key = if KEYED_BY_ROW.contains(&table) { "row" } else { "id" };
    let Some((columns, values)) = rest.split_once("VALUES (") else { return sql.to_owned() };
    match columns.strip_prefix("row, ") {
        // The number that SQLite would choose is replaced.
        Some(columns) => {
            let values = &values[end_of(values, ',')..];
            format!("{head}(row, {columns}VALUES ({number}{values}")
        }
        None => format!("{head}({key}, {columns}VALUES ({number}, {values}"),
    }
}

/// Offset of the first `end` outside of parentheses.
fn end_of(text: &str, end: char) -> usize {
    let mut depth = 0;
    let ends = |c: char| {
        let found = c == end && depth == 0;
        depth += i32::from(c == '(') - i32::from(c == ')');
        found
    };
    text.find(ends).unwrap_or(text.len())
}

/// The values of a list.
fn split_values(mut list: &str) -> Vec<&str> {
    let mut values = Vec::new();
    loop {
        let end = end_of(list, ',');
        values.push(&list[..end]);
        match list.get(end + 1..) {
            Some(rest) => list = rest,
            None => return values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: ArgType = ArgType::Int;
    const MERGED: Form = Form { numbered: false, merged: true };

    fn text(sql: &str, types: &[ArgType], form: Form) -> String {
        translate(sql, types, form).expect("a form").text
    }

    #[test]
    fn markers_become_the_dialect_of_postgresql() {
        let sql = "SELECT 1 FROM t WHERE a IN LIST(?1) AND (?12 IS NULL OR b = ?2)";
        let expected = "SELECT 1 FROM t WHERE a = ANY($1) AND ($12 IS NULL OR b = $2)";
        assert_eq!(text(sql, &[INT; 12], Form::default()), expected);
        let sql = "SELECT MAX(id) FROM t WHERE id > ?1 /*pg AND id <= SETTLED*/ ORDER BY id";
        let text = "SELECT MAX(id) FROM t WHERE id > $1 AND id <= $2 ORDER BY id";
        let expected = Translated { text: text.to_owned(), settled: true };
        assert_eq!(translate(sql, &[INT], Form::default()), Some(expected));
        assert_eq!(translate(sql, &[INT], MERGED), None);
    }

    #[test]
    fn an_inserted_row_gets_its_number() {
        let numbered = Form { numbered: true, merged: false };
        for (sql, args, expected) in [
            (
                "INSERT INTO events(session, at)\n VALUES (?1, ?2)",
                3,
                "INSERT INTO events(id, session, at)\n VALUES ($3, $1, $2)",
            ),
            ("INSERT INTO tasks(id) VALUES (?1)", 2, "INSERT INTO tasks(row, id) VALUES ($2, $1)"),
            (
                "INSERT INTO sessions(row, id) VALUES (1 + (SELECT a, b), ?1)",
                2,
                "INSERT INTO sessions(row, id) VALUES ($2, $1)",
            ),
        ] {
            assert_eq!(text(sql, &vec![INT; args], numbered), expected);
        }
    }

    #[test]
    fn statements_of_several_rows_are_merged() {
        let types = [INT, ArgType::Text];
        let given = "unnest($1::bigint[], $2::text[]) AS given(p1, p2)";
        assert_eq!(
            text("INSERT INTO t(a, b) VALUES (?2, (SELECT MAX(b), ?1))", &types, MERGED),
            format!("INSERT INTO t(a, b) SELECT given.p2, (SELECT MAX(b), given.p1) FROM {given}")
        );
        let sql = "INSERT INTO t(a, b)\n VALUES (?1, ?2)\n ON CONFLICT(a) DO UPDATE SET b = ?2";
        assert_eq!(
            text(sql, &types, MERGED),
            format!(
                "INSERT INTO t(a, b)\n SELECT given.p1, given.p2 FROM {given}\n \
                 ON CONFLICT(a) DO UPDATE SET b = excluded.b"
            )
        );
        let sql = "INSERT INTO t(a) VALUES (?1) ON CONFLICT(a) DO UPDATE SET a = CASE ?2 END";
        assert_eq!(translate(sql, &types, MERGED), None);
        assert_eq!(
            text("UPDATE t SET b = ?2 WHERE a = ?1", &types, MERGED),
            format!("UPDATE t SET b = given.p2 FROM {given} WHERE a = given.p1")
        );
        assert_eq!(
            text("DELETE FROM t WHERE a = ?1 AND b = ?2", &types, MERGED),
            format!("DELETE FROM t USING {given} WHERE a = given.p1 AND b = given.p2")
        );
        let sql = "DELETE FROM t WHERE a IN (SELECT a FROM b WHERE c = ?1)";
        assert_eq!(translate(sql, &[INT], MERGED), None);
        assert_eq!(
            translate("UPDATE t SET a = 1 WHERE b IN LIST(?1)", &[ArgType::Ints], MERGED),
            None
        );
        assert_eq!(
            text("SELECT a FROM t WHERE b IN LIST(?1) LIMIT 1", &[INT], MERGED),
            "SELECT q.*, given.nth FROM unnest($1::bigint[]) WITH ORDINALITY AS given(p1, nth) \
             CROSS JOIN LATERAL (SELECT a FROM t WHERE b = given.p1 LIMIT 1) AS q"
        );
    }
}
