//! Files of a working directory: found by a part of their path, read as text, never outside of it.

use serde_json::json;

use crate::harness::server::{Server, configure, home};

#[test]
fn files_are_found_and_read_only_under_the_working_directory() {
    let home = home();
    let work = home.path().join("work");
    std::fs::create_dir_all(work.join("src/.hidden")).expect("directories");
    std::fs::create_dir_all(work.join("node_modules")).expect("directories");
    for (path, text) in [
        ("work/src/main.rs", "fn main() {}"),
        ("work/src/.hidden/main.rs", "hidden"),
        ("work/node_modules/main.rs", "dependency"),
        ("work/notes.md", "# Notes"),
        ("outside.txt", "outside"),
    ] {
        std::fs::write(home.path().join(path), text).expect("a file");
    }
    std::os::unix::fs::symlink(home.path().join("outside.txt"), work.join("link.txt"))
        .expect("a link");
    configure(home.path(), &format!("[server]\nroots = [{work:?}]\n"));
    let (work, outside) = (work.display().to_string(), home.path().display().to_string());
    let server = Server::in_dir(home);
    let all = server.get(&format!("/api/files?working_dir={work}")).is(200);
    assert_eq!(
        (&all["files"], &all["truncated"], &all["text"]),
        (&json!(["notes.md", "src/main.rs"]), &json!(false), &json!(null)),
    );
    let main = server.get(&format!("/api/files?working_dir={work}&q=MAIN")).is(200);
    assert_eq!(main["files"], json!(["src/main.rs"]));
    let read = server.get(&format!("/api/files?working_dir={work}&path=src/main.rs")).is(200);
    assert_eq!(read["text"], "fn main() {}");
    for path in ["../outside.txt", "link.txt", "src", "missing.rs", "/etc/passwd"] {
        server.get(&format!("/api/files?working_dir={work}&path={path}")).refuses(404, "not_found");
    }
    server
        .get(&format!("/api/files?working_dir={outside}"))
        .refuses(403, "working_dir_outside_roots");
}
