//! `ctx remote add NAME ADDRESS`.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::{Context, init};
use crate::problem::Problem;
use crate::remote::{Address, Identity, Recipient, Remote, Remotes};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Name the remote
    name: String,
    /// Exchange sessions with this machine (ssh://HOST[/PATH]), ctx server (https://SERVER) or
    /// directory
    address: String,
    /// Read the token for a ctx server from this environment variable
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// Encrypt a directory for this age recipient; repeat it for several
    #[arg(long, value_name = "RECIPIENT")]
    encrypt: Vec<String>,
    /// Decrypt a directory with the age identity in this file, and encrypt for it
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    Remotes::check_name(&args.name)?;
    let address = Address::parse(&args.address)?;
    let is_encrypted = !args.encrypt.is_empty() || args.identity.is_some();
    if is_encrypted && !matches!(address, Address::Directory(_)) {
        let message = "only a directory can be encrypted: ctx on the other machine reads sessions";
        return Err(Problem::wrong_use("bad_remote", message)
            .hint("use ssh:// or https:// without `--encrypt` for a machine that you trust"));
    }
    if args.token_env.is_some() && !matches!(address, Address::Http(_)) {
        return Err(Problem::wrong_use("bad_remote", "only a ctx server takes a token")
            .hint("leave out `--token-env`"));
    }
    for recipient in &args.encrypt {
        Recipient::parse(recipient)?;
    }
    let identity = args.identity.as_deref().map(std::path::absolute).transpose();
    let identity = identity.map_err(|e| Problem::wrong_use("bad_identity", e.to_string()))?;
    if let Some(file) = &identity {
        Identity::read_file(file)?;
    }
    init::ensure_store(context).await?;
    let mut remotes = Remotes::load(&context.data)?;
    if remotes.remotes.contains_key(&args.name) {
        return Err(Problem::failed("remote_exists", "a remote with this name exists")
            .hint(format!("remove it first: `ctx remote remove {}`", args.name)));
    }
    let url = match address {
        Address::Directory(dir) => dir.to_string_lossy().into_owned(),
        _ => args.address.clone(),
    };
    let recipients = args.encrypt.iter().map(|text| text.trim().to_owned()).collect();
    let remote = Remote { url, token_env: args.token_env.clone(), recipients, identity };
    remotes.remotes.insert(args.name.clone(), remote.clone());
    std::fs::create_dir_all(&context.data).map_err(|error| {
        Problem::failed("unwritable", format!("cannot create {}: {error}", context.data.display()))
    })?;
    remotes.save(&context.data)?;
    context.out.print(
        || json!({"remote": super::list::document(&args.name, &remote)}),
        || format!("Added the remote {}: {}", args.name, remote.url),
    )
}
