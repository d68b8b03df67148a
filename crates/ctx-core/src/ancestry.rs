//! Common ancestors of two nodes in a tree, and the files that tool calls write.

use serde_json::Value;

/// A node of a tree with its depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct TreePosition<T> {
    pub id: T,
    /// Number of nodes on the path from the root, 1 for the root.
    pub depth: u64,
}

/// The result of a limited search for a common ancestor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AncestorSearch<T> {
    /// The nearest common ancestor.
    Found(TreePosition<T>),
    /// The nodes belong to different trees.
    Unrelated,
    /// The step limit was reached. The search can be continued from these nodes.
    LimitReached(TreePosition<T>, TreePosition<T>),
}

/// Searches the nearest common ancestor of two nodes.
///
/// The deeper node moves to its parent first, so the cost is the distance to the common ancestor
/// and not the depth. At most `steps` parents are read.
///
/// # Errors
/// If a parent cannot be read.
pub fn common_ancestor<T: Copy + PartialEq, E>(
    mut a: TreePosition<T>,
    mut b: TreePosition<T>,
    steps: usize,
    mut parent: impl FnMut(T) -> Result<Option<T>, E>,
) -> Result<AncestorSearch<T>, E> {
    for _ in 0..steps {
        if a.id == b.id {
            return Ok(AncestorSearch::Found(a));
        }
        let deeper = if a.depth >= b.depth { &mut a } else { &mut b };
        match parent(deeper.id)? {
            Some(id) => *deeper = TreePosition { id, depth: deeper.depth.saturating_sub(1) },
            // The deeper node is a root, and the other node is not equal to it: two trees.
            None => return Ok(AncestorSearch::Unrelated),
        }
    }
    Ok(AncestorSearch::LimitReached(a, b))
}

/// A tool whose name contains one of these words writes files.
const WRITES: [&str; 5] = ["write", "edit", "patch", "create", "save"];
/// Parameters of such tools that contain the file path.
const PATHS: [&str; 5] = ["path", "file_path", "filePath", "filename", "file"];

/// The file that a tool call writes, guessed from the name and the parameters of the tool.
pub fn file_written_by<'a>(tool: &str, params: &'a Value) -> Option<&'a str> {
    let tool = tool.to_ascii_lowercase();
    if !WRITES.iter().any(|word| tool.contains(word)) {
        return None;
    }
    PATHS.iter().find_map(|key| params.get(key)?.as_str()).filter(|path| !path.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A tree of numbers: a chain 1…100, a branch 150…199 from 50, and another tree from 1001 on.
    fn parent(id: u32) -> Result<Option<u32>, ()> {
        Ok(match id {
            1 | 1001 => None,
            150 => Some(50),
            id => Some(id - 1),
        })
    }

    fn at(id: u32) -> TreePosition<u32> {
        let depth = match id {
            150..=199 => id - 99,
            1001.. => id - 1000,
            id => id,
        };
        TreePosition { id, depth: depth.into() }
    }

    #[test]
    fn common_ancestor_is_where_two_branches_start() {
        let table = [
            (100, 199, Some(50), "two branches"),
            (60, 199, Some(50), "one branch much longer"),
            (50, 199, Some(50), "one is the start of the other"),
            (30, 90, Some(30), "one is an ancestor of the other"),
            (77, 77, Some(77), "the same"),
            (1, 199, Some(1), "the root"),
            (100, 1080, None, "two trees"),
            (1, 1001, None, "two roots"),
        ];
        for (a, b, expected, what) in table {
            for (a, b) in [(a, b), (b, a)] {
                let met = common_ancestor(at(a), at(b), 1000, parent).expect("read");
                assert_eq!(
                    met,
                    expected.map_or(AncestorSearch::Unrelated, |id| AncestorSearch::Found(at(id))),
                    "{what}"
                );
            }
        }
    }

    #[test]
    fn a_search_in_small_steps_finds_the_same_ancestor() {
        for steps in [1, 2, 7] {
            let (mut a, mut b, mut pieces) = (at(100), at(199), 0);
            let met = loop {
                match common_ancestor(a, b, steps, parent).expect("read") {
                    AncestorSearch::LimitReached(x, y) => (a, b) = (x, y),
                    met => break met,
                }
                pieces += 1;
            };
            assert_eq!(met, AncestorSearch::Found(at(50)));
            assert_eq!(pieces, 100 / steps, "fifty steps back on either side");
        }
    }

    #[test]
    fn only_nodes_below_the_ancestor_are_read() {
        let mut reads = 0;
        let count = |id| {
            reads += 1;
            parent(id)
        };
        assert_eq!(
            common_ancestor(at(52), at(151), 1000, count).expect("read"),
            AncestorSearch::Found(at(50))
        );
        assert_eq!(reads, 4);
    }

    #[test]
    fn written_file_is_found_by_tool_name_and_parameters() {
        let table = [
            ("write_file", json!({"path": "a.rs", "content": "x"}), Some("a.rs")),
            ("Edit", json!({"file_path": "b.rs"}), Some("b.rs")),
            ("apply_patch", json!({"input": "…"}), None),
            ("read_file", json!({"path": "a.rs"}), None),
            ("write_file", json!({"path": 5}), None),
            ("write_file", json!("a.rs"), None),
            ("write_file", json!({"path": " "}), None),
        ];
        for (tool, params, file) in table {
            assert_eq!(file_written_by(tool, &params), file, "{tool} {params}");
        }
    }
}
