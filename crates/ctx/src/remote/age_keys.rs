//! Keys of age files: X25519 recipients (`age1…`) and identities (`AGE-SECRET-KEY-1…`), in Bech32.

use std::path::Path;

use x25519_dalek::{PublicKey, StaticSecret};

use crate::problem::Problem;

const RECIPIENT_PREFIX: &str = "age";
const IDENTITY_PREFIX: &str = "age-secret-key-";
/// Maximum size of an identity file in bytes.
const IDENTITY_FILE_MAX_BYTES: u64 = 1 << 20;
const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM_LEN: usize = 6;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipient(pub(super) PublicKey);

impl Recipient {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let key = decode(RECIPIENT_PREFIX, text.trim());
        let key = key.ok_or_else(|| {
            Problem::wrong_use("bad_recipient", "invalid age recipient")
                .hint("use a public key that begins with `age1`, as `age-keygen` prints it")
        })?;
        Ok(Self(PublicKey::from(key)))
    }
}

/// A secret key.
pub(crate) struct Identity(pub(super) StaticSecret);

impl Identity {
    pub(super) fn parse(text: &str) -> Option<Self> {
        decode(IDENTITY_PREFIX, text.trim()).map(|key| Self(StaticSecret::from(key)))
    }

    pub(crate) fn recipient(&self) -> Recipient {
        Recipient(PublicKey::from(&self.0))
    }

    /// Reads an identity file: one identity per line, and comments.
    pub(crate) fn read_file(path: &Path) -> Result<Vec<Self>, Problem> {
        let unreadable = |why: String| {
            let message = format!("cannot read the identity {}: {why}", path.display());
            Problem::failed("bad_identity", message)
                .hint("create an identity with `age-keygen -o FILE`")
        };
        let size = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
        if size > IDENTITY_FILE_MAX_BYTES {
            return Err(unreadable("it is too large".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
        let lines = text.lines().map(str::trim);
        let identities: Option<Vec<Self>> = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(Self::parse)
            .collect();
        match identities {
            Some(identities) if !identities.is_empty() => Ok(identities),
            _ => Err(unreadable("it holds no X25519 identity".to_owned())),
        }
    }
}

/// Decodes the 32 bytes of a Bech32 text, which is all lower case or all upper case.
fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let lower = text.to_ascii_lowercase();
    if lower != text && text.to_ascii_uppercase() != text {
        return None;
    }
    let data = lower.strip_prefix(prefix)?.strip_prefix('1')?;
    let value = |c: u8| CHARSET.iter().position(|known| *known == c).map(|at| at as u8);
    let values: Vec<u8> = data.bytes().map(value).collect::<Option<_>>()?;
    let payload = values.len().checked_sub(CHECKSUM_LEN)?;
    let expanded = prefix.bytes().map(|c| c >> 5).chain([0]).chain(prefix.bytes().map(|c| c & 31));
    if polymod(expanded.chain(values.iter().copied())) != 1 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(32), 0_u32, 0);
    for value in &values[..payload] {
        bits = (bits << 5) | u32::from(*value);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    if count >= 5 || bits != 0 {
        return None;
    }
    bytes.try_into().ok()
}

/// The checksum of Bech32 (BIP 173).
fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    values.fold(1, |sum, value| {
        let top = sum >> 25;
        let sum = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let mix = |sum: u32, (bit, generator): (usize, &u32)| {
            if (top >> bit) & 1 == 1 { sum ^ generator } else { sum }
        };
        GENERATOR.iter().enumerate().fold(sum, mix)
    })
}
