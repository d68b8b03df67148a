//! An ssh command that runs the remote command on this machine, in an environment of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::PROGRAM;

/// Writes the script and returns its path. `ctx` is on the PATH of the other machine, whose home
/// is `home`. `filter` is a shell pipe that the answers go through, or empty.
pub(crate) fn fake_ssh(home: &Path, filter: &str) -> PathBuf {
    std::fs::create_dir_all(home).expect("a home directory");
    let programs = Path::new(PROGRAM).parent().expect("a directory").display().to_string();
    // The other side waits for requests behind a filter that ended; real ssh would end both.
    let limit = if filter.is_empty() { "" } else { "timeout 2" };
    let script = format!(
        "#!/bin/sh\n\
         # Leaves out the options and the host.\n\
         while [ $# -gt 1 ]; do shift; done\n\
         cd '{home}' && env -i HOME='{home}' PATH='{programs}:/usr/bin:/bin' \
         CTX_DISCOVERY_ENABLED=false {limit} sh -c \"$1\" {filter}\n",
        home = home.display(),
    );
    let path = home.join("ssh");
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("executable");
    path
}
