//! The change of a recorded file as a unified diff.

use ctx_engine::Engine;
use ctx_engine::core::stored_content::Content;
use similar::{ChangeTag, TextDiff};

use crate::problem::Problem;

use super::output::{BOLD, CYAN, DIM, GREEN, plural, visible_text};
use crate::task_record::FileRecord;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Lines of one diff that are shown.
const LINES_MAX: usize = 400;
/// Larger files are not compared.
const BYTES_MAX: usize = 1 << 20;

/// A version of a file.
enum Version {
    Text(String),
    /// The file does not exist.
    Missing,
    /// Why the content cannot be shown.
    Unknown(String),
}

/// The lines of the diff of a file that the task wrote.
pub(super) async fn lines(engine: &Engine, file: &FileRecord) -> Result<Vec<String>, Problem> {
    let Some(written) = &file.written else { return Ok(Vec::new()) };
    let path = visible_text(&file.path).replace(['\n', '\t'], " ");
    let after = match written {
        Some(content) => version(engine, content).await?,
        None => Version::Missing,
    };
    let before = match &file.before {
        Some(content) => version(engine, content).await?,
        None => Version::Missing,
    };
    let is_first = file.before.is_none();
    let mut lines = vec![format!("{BOLD}diff {path}{BOLD:#}")];
    match (before, after) {
        (Version::Text(before), Version::Text(after)) => lines.extend(hunks(&before, &after)),
        (Version::Missing, Version::Text(after)) => {
            lines.push(format!("{DIM}(no earlier version was recorded){DIM:#}"));
            lines.extend(hunks("", &after));
        }
        (Version::Text(before), Version::Missing) => {
            lines.push(format!("{DIM}(deleted){DIM:#}"));
            lines.extend(hunks(&before, ""));
        }
        (_, Version::Missing) if is_first => lines.push(format!("{DIM}(deleted){DIM:#}")),
        (Version::Unknown(why), _) | (_, Version::Unknown(why)) => {
            lines.push(format!("{DIM}({why}){DIM:#}"));
        }
        (Version::Missing, Version::Missing) => {}
    }
    Ok(lines)
}

async fn version(engine: &Engine, content: &Content) -> Result<Version, Problem> {
    Ok(match content {
        Content::Text(text) => Version::Text(text.clone()),
        Content::Omitted { bytes, .. } => {
            Version::Unknown(format!("{}, not stored", plural(*bytes, "byte")))
        }
        Content::Blob { blob, bytes } => {
            let too_large = *bytes > BYTES_MAX as u64;
            let object = match too_large {
                true => None,
                false => engine.records().object(blob.0).await?,
            };
            let text = object.and_then(|object| String::from_utf8(object.bytes).ok());
            match text.filter(|text| !text.contains('\0')) {
                Some(text) => Version::Text(text),
                None => Version::Unknown(format!(
                    "{}, show the content with `ctx show {}`",
                    plural(*bytes, "byte"),
                    blob.0.short()
                )),
            }
        }
    })
}

fn hunks(before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        lines.push(format!("{CYAN}{}{CYAN:#}", hunk.header()));
        for change in hunk.iter_changes() {
            let text = visible_text(change.value().trim_end_matches(['\n', '\r']));
            lines.push(match change.tag() {
                ChangeTag::Delete => format!("{RED_LINE}-{text}{RED_LINE:#}"),
                ChangeTag::Insert => format!("{GREEN}+{text}{GREEN:#}"),
                ChangeTag::Equal => format!(" {text}"),
            });
        }
    }
    if lines.len() > LINES_MAX {
        let more = (lines.len() - LINES_MAX) as u64;
        lines.truncate(LINES_MAX);
        let lines_left = plural(more, "more line");
        lines.push(format!("{DIM}… {lines_left}{DIM:#}"));
    }
    if lines.is_empty() {
        lines.push(format!("{DIM}(unchanged){DIM:#}"));
    }
    lines
}

const RED_LINE: anstyle::Style = anstyle::AnsiColor::Red.on_default();

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: &[String]) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = before.replace("e\n", "E\u{1b}[31m\n");
        assert_eq!(
            plain(&hunks(before, &after)),
            "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E␛[31m\n f\n g\n h"
        );
        assert_eq!(plain(&hunks(before, before)), "(unchanged)");
    }

    #[test]
    fn a_long_diff_is_cut() {
        let lines = hunks("", &"x\n".repeat(1000));
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(plain(&lines).ends_with("… 601 more lines"), "{}", plain(&lines[LINES_MAX..]));
    }
}
