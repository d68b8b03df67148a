//! Where two lines of turns meet, and what a line changed on its way.

use serde_json::Value;

/// A place in a tree: a node and how many nodes lead to it, itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<T> {
    /// Which.
    pub id: T,
    /// From 1 at the root.
    pub depth: u64,
}

/// What came of some steps back towards the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk<T> {
    /// The two lines meet here.
    Meet(Node<T>),
    /// They have nothing in common.
    Apart,
    /// The steps were used up; go on from here.
    Further(Node<T>, Node<T>),
}

/// Walks two lines back until they meet, the deeper one first: the cost is how far they have gone since, not how long they are.
/// At most `steps` parents are asked for.
///
/// # Errors
/// If a parent cannot be told.
pub fn meet<T: Copy + PartialEq, E>(
    mut a: Node<T>,
    mut b: Node<T>,
    steps: usize,
    mut parent: impl FnMut(T) -> Result<Option<T>, E>,
) -> Result<Walk<T>, E> {
    for _ in 0..steps {
        if a.id == b.id {
            return Ok(Walk::Meet(a));
        }
        let behind = if a.depth >= b.depth { &mut a } else { &mut b };
        match parent(behind.id)? {
            Some(above) => *behind = Node { id: above, depth: behind.depth.saturating_sub(1) },
            // A root that is not the other line's root, or the other would have been here first.
            None => return Ok(Walk::Apart),
        }
    }
    Ok(Walk::Further(a, b))
}

/// Words in the name of a tool that writes files.
const WRITES: [&str; 5] = ["write", "edit", "patch", "create", "save"];
/// Where such tools say which file.
const PATHS: [&str; 5] = ["path", "file_path", "filePath", "filename", "file"];

/// The file that a tool call writes, as far as its name and parameters tell: every tool has its own words.
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

    /// A tree of numbers: a chain 1…100, from 50 a branch 150…199, another tree 1001….
    fn parent(id: u32) -> Result<Option<u32>, ()> {
        Ok(match id {
            1 | 1001 => None,
            150 => Some(50),
            id => Some(id - 1),
        })
    }

    fn at(id: u32) -> Node<u32> {
        let depth = match id {
            150..=199 => id - 99,
            1001.. => id - 1000,
            id => id,
        };
        Node { id, depth: depth.into() }
    }

    #[test]
    fn two_lines_meet_where_they_parted() {
        let table = [
            (100, 199, Some(50), "two branches"),
            (60, 199, Some(50), "one much longer"),
            (50, 199, Some(50), "one is where the other began"),
            (30, 90, Some(30), "one leads to the other"),
            (77, 77, Some(77), "the same"),
            (1, 199, Some(1), "the root"),
            (100, 1080, None, "two trees"),
            (1, 1001, None, "two roots"),
        ];
        for (a, b, expected, what) in table {
            for (a, b) in [(a, b), (b, a)] {
                let met = meet(at(a), at(b), 1000, parent).expect("told");
                assert_eq!(met, expected.map_or(Walk::Apart, |id| Walk::Meet(at(id))), "{what}");
            }
        }
    }

    #[test]
    fn a_walk_in_small_pieces_comes_to_the_same_place() {
        for steps in [1, 2, 7] {
            let (mut a, mut b, mut pieces) = (at(100), at(199), 0);
            let met = loop {
                match meet(a, b, steps, parent).expect("told") {
                    Walk::Further(x, y) => (a, b) = (x, y),
                    met => break met,
                }
                pieces += 1;
            };
            assert_eq!(met, Walk::Meet(at(50)));
            assert_eq!(pieces, 100 / steps, "fifty steps back on either side");
        }
    }

    #[test]
    fn only_what_is_beyond_the_meeting_is_walked() {
        let mut asked = 0;
        let count = |id| {
            asked += 1;
            parent(id)
        };
        assert_eq!(meet(at(52), at(151), 1000, count).expect("told"), Walk::Meet(at(50)));
        assert_eq!(asked, 4);
    }

    #[test]
    fn a_tool_that_writes_says_which_file() {
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
