//! Project instructions for models: `AGENTS.md`, else `CLAUDE.md`, of the working directory. Agents
//! read these files themselves.

use std::path::Path;

use tokio::io::AsyncReadExt;

/// File names in order of preference.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Most bytes of a file that are sent.
const MAX_BYTES: u64 = 32 * 1024;

/// The instructions of a directory, with the name of their file.
pub(crate) async fn read(dir: &str) -> Option<String> {
    for name in NAMES {
        if let Some(text) = file(&Path::new(dir).join(name)).await {
            return Some(format!("Instructions of this project, from {name}:\n\n{text}"));
        }
    }
    None
}

async fn file(path: &Path) -> Option<String> {
    // Reading a pipe or a device would not end.
    if !tokio::fs::metadata(path).await.ok()?.is_file() {
        return None;
    }
    let (mut bytes, file) = (Vec::new(), tokio::fs::File::open(path).await.ok()?);
    let whole = file.metadata().await.ok()?.len();
    file.take(MAX_BYTES).read_to_end(&mut bytes).await.ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.is_empty() {
        return None;
    }
    Some(if whole > MAX_BYTES { format!("{text}\n[clipped: {whole} bytes in all]") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_file_with_content_is_used_up_to_the_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().to_str().expect("a name").to_owned();
        assert_eq!(read(&at).await, None);
        std::fs::write(dir.path().join("CLAUDE.md"), "use tabs").expect("written");
        assert!(read(&at).await.is_some_and(|text| text.ends_with("CLAUDE.md:\n\nuse tabs")));
        std::fs::write(dir.path().join("AGENTS.md"), " \n").expect("written");
        assert!(
            read(&at).await.is_some_and(|text| text.contains("use tabs")),
            "an empty one says nothing"
        );
        std::fs::write(dir.path().join("AGENTS.md"), "é".repeat(40_000)).expect("written");
        let text = read(&at).await.expect("there");
        assert!(
            text.len() < 40_000
                && text.contains("AGENTS.md")
                && text.ends_with("[clipped: 80000 bytes in all]")
        );
        assert_eq!(read("/nowhere at all").await, None);
    }
}
