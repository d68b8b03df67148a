//! Messages between two machines: a JSON document and the parts that belong to it, compressed.
//!
//! ```text
//! message = zstd( length of the document, 4 bytes, little endian · document · parts )
//! frame   = length of the message, 4 bytes, big endian · message          (over ssh only)
//! ```
//! A message is refused while it is decompressed if it is larger than [`MESSAGE_MAX_BYTES`].

use std::io::Read;

use ctx_engine::core::exchange::{
    PART_BYTES, PART_MAX_BYTES, PartRequest, PathQuery, Placement, SessionHead, TaskMark,
};
use ctx_engine::core::id::{SessionId, TaskId, TurnId};
use ctx_engine::exchange::{PartStored, Peer, PeerError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Version of the protocol.
pub(crate) const PROTOCOL: u32 = 1;
/// Maximum size of a message in bytes, compressed and decompressed.
pub(crate) const MESSAGE_MAX_BYTES: usize = PART_MAX_BYTES + 4 * PART_BYTES;
const COMPRESSION_LEVEL: i32 = 3;

/// What one machine asks the other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Heads {},
    Paths {
        queries: Vec<PathQuery>,
    },
    Have {
        turns: Vec<TurnId>,
    },
    Tasks {
        sessions: Vec<SessionId>,
    },
    TaskMarks {
        tasks: Vec<TaskId>,
    },
    Read {
        requests: Vec<PartRequest>,
    },
    /// The parts follow the document, in the order of the placements.
    Write {
        placements: Vec<Placement>,
        sizes: Vec<usize>,
    },
}

/// The answer to a [`Request`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// The first message of a server over ssh.
    Hello {
        protocol: u32,
        version: String,
    },
    Heads {
        heads: Vec<SessionHead>,
    },
    Paths {
        turns: Vec<Vec<Option<TurnId>>>,
    },
    Have {
        stored: Vec<bool>,
    },
    Tasks {
        tasks: Vec<Vec<TaskMark>>,
    },
    TaskMarks {
        marks: Vec<Option<TaskMark>>,
    },
    /// The parts follow the document.
    Parts {
        sizes: Vec<usize>,
    },
    Written {
        results: Vec<Result<PartStored, PeerError>>,
    },
    Failed {
        error: PeerError,
    },
}

/// Encodes a message.
pub(crate) fn encode(document: &impl Serialize, parts: &[Vec<u8>]) -> Result<Vec<u8>, PeerError> {
    let document = serde_json::to_vec(document).map_err(PeerError::protocol)?;
    let length = u32::try_from(document.len()).map_err(PeerError::protocol)?;
    let mut raw = length.to_le_bytes().to_vec();
    raw.extend(document);
    parts.iter().for_each(|part| raw.extend_from_slice(part));
    if raw.len() > MESSAGE_MAX_BYTES {
        return Err(too_large());
    }
    zstd::bulk::compress(&raw, COMPRESSION_LEVEL).map_err(PeerError::protocol)
}

/// Decodes a message into its document and the bytes after it.
pub(crate) fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<(T, Vec<u8>), PeerError> {
    let mut raw = decompress(message, MESSAGE_MAX_BYTES)?;
    let cut = || PeerError::protocol("the message is truncated");
    let length = raw.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let end = length.and_then(|length| length.checked_add(4)).ok_or_else(cut)?;
    let document = raw.get(4..end).ok_or_else(cut)?;
    let document = serde_json::from_slice(document).map_err(PeerError::protocol)?;
    Ok((document, raw.split_off(end)))
}

/// Decompresses at most `max` bytes.
pub(super) fn decompress(bytes: &[u8], max: usize) -> Result<Vec<u8>, PeerError> {
    let mut raw = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(PeerError::protocol)?;
    let read = decoder.take(max as u64 + 1).read_to_end(&mut raw);
    read.map_err(|error| PeerError::protocol(format!("it cannot be decompressed: {error}")))?;
    if raw.len() > max { Err(too_large()) } else { Ok(raw) }
}

pub(super) fn compress(bytes: &[u8]) -> Result<Vec<u8>, PeerError> {
    zstd::bulk::compress(bytes, COMPRESSION_LEVEL).map_err(PeerError::protocol)
}

fn too_large() -> PeerError {
    let message = format!("a message is too large: the limit is {MESSAGE_MAX_BYTES} bytes");
    PeerError::new("remote_too_large", message)
}

/// Splits bytes into parts of the given sizes.
pub(super) fn split(bytes: &[u8], sizes: &[usize]) -> Result<Vec<Vec<u8>>, PeerError> {
    let mut rest = bytes;
    let mut parts = Vec::with_capacity(sizes.len().min(1024));
    for size in sizes {
        let (part, after) = rest
            .split_at_checked(*size)
            .ok_or_else(|| PeerError::protocol("the message is truncated"))?;
        parts.push(part.to_vec());
        rest = after;
    }
    if rest.is_empty() { Ok(parts) } else { Err(PeerError::protocol("the sizes are wrong")) }
}

/// Answers a request from a store of this machine.
pub(crate) async fn answer(
    peer: &dyn Peer,
    request: Request,
    bytes: &[u8],
) -> (Answer, Vec<Vec<u8>>) {
    match try_answer(peer, request, bytes).await {
        Ok(answer) => answer,
        Err(error) => (Answer::Failed { error }, Vec::new()),
    }
}

async fn try_answer(
    peer: &dyn Peer,
    request: Request,
    bytes: &[u8],
) -> Result<(Answer, Vec<Vec<u8>>), PeerError> {
    let answer = match request {
        Request::Heads {} => Answer::Heads { heads: peer.heads().await? },
        Request::Paths { queries } => Answer::Paths { turns: peer.paths(&queries).await? },
        Request::Have { turns } => Answer::Have { stored: peer.have(&turns).await? },
        Request::Tasks { sessions } => Answer::Tasks { tasks: peer.tasks(&sessions).await? },
        Request::TaskMarks { tasks } => Answer::TaskMarks { marks: peer.task_marks(&tasks).await? },
        Request::Read { requests } => {
            let parts = peer.read(&requests).await?;
            return Ok((Answer::Parts { sizes: parts.iter().map(Vec::len).collect() }, parts));
        }
        Request::Write { placements, sizes } => {
            let parts = split(bytes, &sizes)?;
            if parts.len() != placements.len() {
                return Err(PeerError::protocol("wrong number of parts"));
            }
            let placed: Vec<_> = placements.into_iter().zip(parts).collect();
            Answer::Written { results: peer.write(&placed).await? }
        }
    };
    Ok((answer, Vec::new()))
}

/// Writes a frame.
pub(super) async fn write_frame(
    to: &mut (impl AsyncWrite + Unpin),
    message: &[u8],
) -> std::io::Result<usize> {
    let length = u32::try_from(message.len()).map_err(std::io::Error::other)?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(message).await?;
    to.flush().await?;
    Ok(message.len() + 4)
}

/// Reads a frame; `None` at the end of the stream.
pub(super) async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX_BYTES {
        let why = "the other side does not speak the protocol of ctx";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
    }
    let mut message = Vec::new();
    from.take(length as u64).read_to_end(&mut message).await?;
    if message.len() == length {
        Ok(Some(message))
    } else {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_grows_too_large_is_refused_while_it_is_read() {
        let bomb = zstd::bulk::compress(&vec![0; MESSAGE_MAX_BYTES + 1], 1).expect("compressed");
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let error = decode::<Request>(&bomb).expect_err("refused");
        assert_eq!(error.code, "remote_too_large");
    }

    #[test]
    fn a_changed_message_is_refused() {
        let parts = [b"one".to_vec(), b"two".to_vec()];
        let document = Answer::Parts { sizes: vec![3, 3] };
        let message = encode(&document, &parts).expect("encoded");
        let (Answer::Parts { sizes }, rest) = decode(&message).expect("decoded") else {
            panic!("parts")
        };
        assert_eq!(split(&rest, &sizes), Ok(parts.to_vec()));
        assert!(split(&rest, &[3, 4]).is_err() && split(&rest, &[3]).is_err());
        assert!(split(&rest, &[usize::MAX, 7]).is_err());
        for cut in 0..message.len() {
            assert!(decode::<Answer>(&message[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode::<Request>(&message).is_err(), "another document");
    }
}
