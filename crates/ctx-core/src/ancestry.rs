//! Ancestors of nodes in a tree, and the files that tool calls write.

use serde_json::Value;

/// A node of a tree as it is stored, with the links towards the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links<T> {
    /// Number of nodes on the path from the root, 1 for the root.
    pub depth: u64,
    /// `None` for the root.
    pub parent: Option<T>,
    /// The ancestor at [`skip_depth`]; `None` where that is 0.
    pub skip: Option<T>,
}

/// The depth of the ancestor that a node at `depth` refers to besides its parent; 0 for none.
///
/// A depth is a sum of numbers 2^k - 1, the largest first. The link skips the smallest of them, so
/// an ancestor at any depth is reached in a number of steps that grows with the logarithm of the
/// distance. The link of a node is its parent, or the link of the link of its parent.
pub const fn skip_depth(depth: u64) -> u64 {
    let mut rest = depth;
    let mut smallest = 0;
    while rest > 0 {
        smallest = u64::MAX >> (rest + 1).leading_zeros() >> 1;
        rest -= smallest;
    }
    depth - smallest
}

/// The ancestor of a node at a depth, or the node itself if it is at that depth or above it.
/// `None` if the links end before.
///
/// # Errors
/// If a node cannot be read.
pub fn ancestor_at<T: Copy, E>(
    node: T,
    depth: u64,
    mut links: impl FnMut(T) -> Result<Links<T>, E>,
) -> Result<Option<T>, E> {
    let mut at = node;
    loop {
        let found = links(at)?;
        if found.depth <= depth {
            return Ok(Some(at));
        }
        let skipped = found.skip.filter(|_| skip_depth(found.depth) >= depth);
        match skipped.or(found.parent) {
            Some(above) => at = above,
            None => return Ok(None),
        }
    }
}

/// The nearest common ancestor of two nodes, which may be one of them; `None` if they belong to
/// different trees.
///
/// # Errors
/// If a node cannot be read.
pub fn common_ancestor<T: Copy + PartialEq, E>(
    a: T,
    b: T,
    mut links: impl FnMut(T) -> Result<Links<T>, E>,
) -> Result<Option<T>, E> {
    let depth = links(a)?.depth.min(links(b)?.depth);
    let (Some(mut a), Some(mut b)) =
        (ancestor_at(a, depth, &mut links)?, ancestor_at(b, depth, &mut links)?)
    else {
        return Ok(None);
    };
    while a != b {
        // Nodes at one depth have links to one depth.
        let (from_a, from_b) = (links(a)?, links(b)?);
        let (above_a, above_b) = match from_a.skip == from_b.skip {
            true => (from_a.parent, from_b.parent),
            false => (from_a.skip, from_b.skip),
        };
        match above_a.zip(above_b) {
            Some(above) => (a, b) = above,
            None => return Ok(None),
        }
    }
    Ok(Some(a))
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

    /// A tree of numbers: a chain 1…1000, a branch 2050…2999 from 50, and another tree from 5001
    /// on.
    fn links(id: u32) -> Result<Links<u32>, ()> {
        let depth = u64::from(match id {
            2050..=4999 => id - 1999,
            5000.. => id - 5000,
            id => id,
        });
        let above = |to: u64| {
            let up = (depth - to) as u32;
            let on_branch = id - up;
            match id {
                2050..=4999 if on_branch < 2050 => on_branch - 1999,
                _ => on_branch,
            }
        };
        let link = |to: u64| (to > 0).then(|| above(to));
        Ok(Links { depth, parent: link(depth - 1), skip: link(skip_depth(depth)) })
    }

    #[test]
    fn the_link_of_a_node_is_its_parent_or_the_link_of_its_parents_link() {
        let depths: Vec<u64> = (0..=15).map(skip_depth).collect();
        assert_eq!(depths, [0, 0, 1, 0, 3, 4, 3, 0, 7, 8, 7, 10, 11, 10, 7, 0]);
        for depth in 1..100_000 {
            let skip = skip_depth(depth);
            let parent = depth - 1;
            assert!(skip == parent || skip == skip_depth(skip_depth(parent)), "{depth}");
        }
        assert!(skip_depth(u64::MAX - 1) < u64::MAX);
    }

    #[test]
    fn an_ancestor_is_found_in_few_steps() {
        for (node, depth, expected) in
            [(1000, 1, 1), (1000, 999, 999), (1000, 1000, 1000), (2999, 50, 50), (2999, 51, 2050)]
        {
            let mut reads = 0;
            let counted = |id| {
                reads += 1;
                links(id)
            };
            let found = ancestor_at(node, depth, counted).expect("read");
            assert_eq!(found, Some(expected), "{node} {depth}");
            // At most three for each doubling of the distance.
            assert!(reads <= 30, "{reads}");
        }
        for node in (1..=1000).step_by(7) {
            for depth in 1..=u64::from(node) {
                let found = ancestor_at(node, depth, links).expect("read");
                assert_eq!(found.map(u64::from), Some(depth));
            }
        }
        let above = ancestor_at(7, 30, links).expect("read");
        assert_eq!(above, Some(7), "the node is not so deep");
    }

    #[test]
    fn common_ancestor_is_where_two_branches_start() {
        let table = [
            (1000, 2999, Some(50), "two branches"),
            (60, 2999, Some(50), "one branch much longer"),
            (50, 2999, Some(50), "one is the start of the other"),
            (30, 90, Some(30), "one is an ancestor of the other"),
            (77, 77, Some(77), "the same"),
            (1, 2999, Some(1), "the root"),
            (100, 5080, None, "two trees"),
            (1, 5001, None, "two roots"),
        ];
        for (a, b, expected, what) in table {
            for (a, b) in [(a, b), (b, a)] {
                assert_eq!(common_ancestor(a, b, links), Ok(expected), "{what}");
            }
        }
        for a in (1..1000).step_by(13) {
            for b in (2050..3000).step_by(17) {
                assert_eq!(common_ancestor(a, b, links), Ok(Some(a.min(50))), "{a} {b}");
            }
        }
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
