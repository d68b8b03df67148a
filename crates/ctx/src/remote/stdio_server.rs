//! The other end of ssh: answers the requests of one client on standard input and output.

use ctx_engine::exchange::{Peer, PeerError};
use tokio::io::{BufReader, BufWriter, stdin, stdout};

use super::wire::{Answer, PROTOCOL, answer, decode, encode, read_frame, write_frame};

/// Answers requests until the client closes the connection.
pub(crate) async fn serve(peer: &dyn Peer) -> Result<(), PeerError> {
    let (mut input, mut output) = (BufReader::new(stdin()), BufWriter::new(stdout()));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let hello = encode(&Answer::Hello { protocol: PROTOCOL, version }, &[])?;
    write_frame(&mut output, &hello).await.map_err(cut)?;
    while let Some(message) = read_frame(&mut input).await.map_err(cut)? {
        let (document, parts) = match decode(&message) {
            Ok((request, bytes)) => answer(peer, request, &bytes).await,
            Err(error) => (Answer::Failed { error }, Vec::new()),
        };
        let message = match encode(&document, &parts) {
            Ok(message) => message,
            Err(error) => encode(&Answer::Failed { error }, &[])?,
        };
        write_frame(&mut output, &message).await.map_err(cut)?;
    }
    Ok(())
}

fn cut(error: std::io::Error) -> PeerError {
    PeerError::new("remote_cut", format!("the connection was cut off: {error}"))
}
