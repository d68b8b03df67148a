//! Record actions of the agent, in any state of the task. Consecutive entries of one kind make one
//! step.

use crate::object::Named;
use crate::refusal::Refusal;
use crate::step::Entry;
use crate::stored_content::Content;
use crate::task::Task;
use crate::text_limits::{BadText, TEXT_MAX_BYTES};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Most entries that one transaction records.
pub const OBSERVATIONS_MAX: usize = 10_000;

/// Larger contents are recorded by hash and size only.
const CONTENT_MAX_BYTES: usize = 16 << 20;

/// The content of an observed file or output, and the blob to store with it, if it needs one.
pub fn observed_content(bytes: Vec<u8>) -> (Content, Option<Named>) {
    let (content, blob) = Content::split(bytes);
    match (content, blob) {
        (Content::Blob { blob: id, bytes }, Some(blob))
            if blob.object().bytes.len() > CONTENT_MAX_BYTES =>
        {
            (Content::Omitted { omitted: id, bytes }, None)
        }
        split => split,
    }
}

/// Checks the texts of observations.
///
/// Fails if a text is empty, too long or has a NUL character.
pub fn check_observations(entries: &[Entry]) -> Result<(), Refusal> {
    entries.iter().try_for_each(check_entry)
}

fn check_entry(entry: &Entry) -> Result<(), Refusal> {
    match entry {
        Entry::Note { text: note, .. } => text("note", note).map(drop),
        Entry::Plan { text: plan } => text("plan", plan).map(drop),
        Entry::FileRead { path, .. } | Entry::FileWrite { path, .. } => {
            text("path", path).map(drop)
        }
        Entry::Command { argv, .. } => check_command(argv),
        Entry::Task { .. } | Entry::Relation(_) | Entry::Moved { .. } => Ok(()),
    }
}

fn check_command(argv: &[String]) -> Result<(), Refusal> {
    let bad = |why| Err(Refusal::BadText { what: "command", why });
    let bytes: usize = argv.iter().map(String::len).sum();
    if bytes > TEXT_MAX_BYTES {
        return bad(BadText::TooLong { bytes, max: TEXT_MAX_BYTES });
    }
    if argv.iter().any(|arg| arg.contains('\0')) {
        return bad(BadText::Nul);
    }
    text("command", argv.first().map_or("", String::as_str)).map(drop)
}

/// Appends the observations; an empty list changes nothing.
///
/// Fails if no task is open, there are too many, a text is not valid, or one is a transition of the
/// task, which only a rule makes.
pub fn observe(view: &SessionView, entries: &[Entry], invocation: &Invocation) -> Decided<Task> {
    if entries.len() > OBSERVATIONS_MAX {
        return Err(Refusal::TooMany {
            what: "observations",
            count: entries.len(),
            max: OBSERVATIONS_MAX,
        });
    }
    if entries.iter().any(|entry| matches!(entry, Entry::Task { .. } | Entry::Moved { .. })) {
        return Err(Refusal::NotObservable);
    }
    check_observations(entries)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.open_task()?;
    add(&mut changes, entries)?;
    changes.finish_open()
}

pub(super) fn add(changes: &mut TaskChanges<'_>, entries: &[Entry]) -> Result<(), Refusal> {
    for run in entries.chunk_by(|a, b| a.kind() == b.kind()) {
        changes.append(run[0].kind(), run.to_vec())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::{note, wrote};

    fn command(argv: &[&str]) -> Entry {
        let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
        Entry::Command { argv, exit: None, output: None }
    }

    #[test]
    fn texts_of_observations_are_bounded() {
        let long = "x".repeat(TEXT_MAX_BYTES + 1);
        let half = "x".repeat(TEXT_MAX_BYTES / 2 + 1);
        let good = [note(1, "x"), wrote("a.rs"), command(&["ls", "-l"]), command(&["ls", ""])];
        assert_eq!(check_observations(&good), Ok(()));
        for (entry, what) in [
            (note(1, ""), "note"),
            (note(1, &long), "note"),
            (Entry::Plan { text: " ".to_owned() }, "plan"),
            (wrote(""), "path"),
            (wrote("a\0b"), "path"),
            (command(&[]), "command"),
            (command(&[""]), "command"),
            (command(&["ls", "a\0b"]), "command"),
            (command(&[&half, &half]), "command"),
        ] {
            let refused = check_observations(&[wrote("a.rs"), entry]);
            assert!(
                matches!(refused, Err(Refusal::BadText { what: w, .. }) if w == what),
                "{what}"
            );
        }
    }

    #[test]
    fn large_contents_are_blobs_and_very_large_ones_are_left_out() {
        let kind = |bytes: usize| match observed_content(vec![b'x'; bytes]) {
            (Content::Text(_), None) => "text",
            (Content::Blob { .. }, Some(_)) => "blob",
            (Content::Omitted { .. }, None) => "omitted",
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(10), "text");
        assert_eq!(kind(100_000), "blob");
        assert_eq!(kind(CONTENT_MAX_BYTES), "blob");
        assert_eq!(kind(CONTENT_MAX_BYTES + 1), "omitted");
    }
}
