//! The age file format, version 1 (age-encryption.org/v1), with X25519 recipients: what the `age`
//! program reads and writes. The crate of that name brings a hundred others for translations of its
//! messages; the format itself is small.
//!
//! A header wraps a random file key for each recipient. The payload is encrypted in chunks, each
//! with its number and a mark of the last one, so that a truncated or reordered file is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ctx_engine::exchange::PeerError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use x25519_dalek::{PublicKey, StaticSecret};

use super::age_keys::{Identity, Recipient};

const VERSION_LINE: &str = "age-encryption.org/v1\n";
const STANZA: &str = "X25519";
const WRAP_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const FILE_KEY_LEN: usize = 16;
const NONCE_LEN: usize = 16;
const TAG_LEN: usize = 16;
const CHUNK_LEN: usize = 64 << 10;
/// Columns of a stanza's body.
const COLUMNS: usize = 64;
/// Maximum size of a header in bytes.
const HEADER_MAX_BYTES: usize = 64 << 10;

/// Encrypts for all recipients.
pub(super) fn encrypt(plain: &[u8], recipients: &[Recipient]) -> Result<Vec<u8>, PeerError> {
    let random = SystemRandom::new();
    let mut file_key = [0; FILE_KEY_LEN];
    let mut nonce = [0; NONCE_LEN];
    random.fill(&mut file_key).and_then(|()| random.fill(&mut nonce)).map_err(|_| no_random())?;
    let mut header = VERSION_LINE.to_owned();
    for recipient in recipients {
        let mut secret = [0; 32];
        random.fill(&mut secret).map_err(|_| no_random())?;
        let secret = StaticSecret::from(secret);
        let share = PublicKey::from(&secret);
        let shared = secret.diffie_hellman(&recipient.0);
        let key = wrap_key(shared.as_bytes(), &share, &recipient.0);
        let mut body = file_key.to_vec();
        seal(&key, [0; 12], &mut body)?;
        let body = STANDARD_NO_PAD.encode(body);
        header.push_str(&format!("-> {STANZA} {}\n", STANDARD_NO_PAD.encode(share.as_bytes())));
        for line in body.as_bytes().chunks(COLUMNS) {
            header.push_str(&format!("{}\n", String::from_utf8_lossy(line)));
        }
    }
    header.push_str("---");
    let mac = hmac::sign(&mac_key(&file_key), header.as_bytes());
    header.push_str(&format!(" {}\n", STANDARD_NO_PAD.encode(mac.as_ref())));
    let mut out = header.into_bytes();
    out.extend_from_slice(&nonce);
    let key = derived::<32>(&nonce, &file_key, b"payload");
    let mut chunks = plain.chunks(CHUNK_LEN).peekable();
    let mut counter = 0;
    loop {
        let mut chunk = chunks.next().unwrap_or_default().to_vec();
        let is_last = chunks.peek().is_none();
        seal(&key, chunk_nonce(counter, is_last), &mut chunk)?;
        out.extend(chunk);
        counter += 1;
        if is_last {
            return Ok(out);
        }
    }
}

/// Decrypts with the first identity that fits; `None` if none does.
pub(super) fn decrypt(bytes: &[u8], identities: &[Identity]) -> Result<Option<Vec<u8>>, PeerError> {
    let header = Header::parse(bytes).ok_or_else(|| damaged("its header is invalid"))?;
    let Some(file_key) = header.file_key(identities) else { return Ok(None) };
    hmac::verify(&mac_key(&file_key), header.signed, &header.mac)
        .map_err(|_| damaged("its header was changed"))?;
    let (nonce, mut rest) =
        header.payload.split_at_checked(NONCE_LEN).ok_or_else(|| damaged("it is truncated"))?;
    let key = derived::<32>(nonce, &file_key, b"payload");
    let mut plain = Vec::with_capacity(rest.len());
    let mut counter = 0;
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK_LEN + TAG_LEN));
        let is_last = after.is_empty();
        let mut chunk = chunk.to_vec();
        let opened = open(&key, chunk_nonce(counter, is_last), &mut chunk);
        let opened = opened.ok_or_else(|| damaged("it was truncated or changed"))?;
        if opened.is_empty() && counter > 0 {
            return Err(damaged("its last chunk is empty"));
        }
        plain.extend_from_slice(opened);
        if is_last {
            return Ok(Some(plain));
        }
        rest = after;
        counter += 1;
    }
}

struct Header<'a> {
    /// Each X25519 stanza: share and wrapped file key.
    stanzas: Vec<([u8; 32], Vec<u8>)>,
    /// Everything that the code authenticates.
    signed: &'a [u8],
    mac: Vec<u8>,
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut at = VERSION_LINE.len();
        bytes.strip_prefix(VERSION_LINE.as_bytes())?;
        let mut stanzas = Vec::new();
        loop {
            let line = line_at(bytes, at)?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let mac = STANDARD_NO_PAD.decode(mac).ok()?;
                let payload = &bytes[at + line.len() + 1..];
                return Some(Self { stanzas, signed: &bytes[..at + 3], mac, payload });
            }
            let arguments: Vec<&str> = line.strip_prefix("-> ")?.split(' ').collect();
            at += line.len() + 1;
            let mut body = String::new();
            loop {
                let line = line_at(bytes, at)?;
                at += line.len() + 1;
                body.push_str(line);
                if line.len() < COLUMNS {
                    break;
                }
            }
            // Other kinds of recipients are skipped.
            if let [STANZA, share] = arguments[..] {
                let share = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
                stanzas.push((share, STANDARD_NO_PAD.decode(body).ok()?));
            }
        }
    }

    fn file_key(&self, identities: &[Identity]) -> Option<[u8; FILE_KEY_LEN]> {
        for identity in identities {
            let public = identity.recipient().0;
            for (share, body) in &self.stanzas {
                let share = PublicKey::from(*share);
                let shared = identity.0.diffie_hellman(&share);
                if !shared.was_contributory() || body.len() != FILE_KEY_LEN + TAG_LEN {
                    continue;
                }
                let key = wrap_key(shared.as_bytes(), &share, &public);
                let mut body = body.clone();
                if let Some(file_key) = open(&key, [0; 12], &mut body) {
                    return (&*file_key).try_into().ok();
                }
            }
        }
        None
    }
}

fn line_at(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..bytes.len().min(HEADER_MAX_BYTES))?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The length of a derived key.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derived<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    let derived = Salt::new(HKDF_SHA256, salt).extract(secret);
    derived
        .expand(&[info], Length(N))
        .and_then(|okm| okm.fill(&mut key))
        .expect("HKDF-SHA-256 derives up to 8,160 bytes");
    key
}

fn wrap_key(shared: &[u8], share: &PublicKey, recipient: &PublicKey) -> [u8; 32] {
    derived(&[share.as_bytes().as_slice(), recipient.as_bytes()].concat(), shared, WRAP_INFO)
}

fn mac_key(file_key: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derived::<32>(&[], file_key, b"header"))
}

/// The number of a chunk and the mark of the last one.
fn chunk_nonce(counter: u64, is_last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&counter.to_be_bytes());
    nonce[11] = u8::from(is_last);
    nonce
}

fn key(key: &[u8; 32]) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key);
    LessSafeKey::new(key.expect("the key has 32 bytes"))
}

fn seal(with: &[u8; 32], nonce: [u8; 12], bytes: &mut Vec<u8>) -> Result<(), PeerError> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = key(with).seal_in_place_append_tag(nonce, Aad::empty(), bytes);
    sealed.map_err(|_| PeerError::new("internal", "failed to encrypt"))
}

fn open<'a>(with: &[u8; 32], nonce: [u8; 12], bytes: &'a mut [u8]) -> Option<&'a mut [u8]> {
    key(with).open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), bytes).ok()
}

fn no_random() -> PeerError {
    PeerError::new("internal", "failed to encrypt: the system gives no random numbers")
}

fn damaged(why: &str) -> PeerError {
    PeerError::new("remote_damaged", format!("cannot decrypt a file of the remote: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key pair of `age-keygen`, for this test only, and a file that `age` 1.1 encrypted with it.
    const SECRET: &str =
        "AGE-SECRET-KEY-1M50SG66VNUR6TDWTE560S6RGATH0R5TFP2HU5PDKW99HL2P8NKAS5WNR50";
    const PUBLIC: &str = "age18a29d0w46mczwk2pn8m5gev9ffk42wrjstcrs7ng6j6p3z0mfawscvw7ue";
    const FILE: &str = "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBWTkVPY0VXM05tSEt5VWxXV3VhdG9v\
        NTEySVBxM3dCV09oWXdjMXBQU2hrCnRod2dxUTZkaVQxekdOOEZFY3ByQ2xaRklnSUFVVkVRMXg2S2hMQzRFYlkK\
        LS0tIEh2WEd4T25FbnlrelhoVEpxcU9pMXZxN0RObDlGa3JvRXF0QTV3YldhUzAKECYunU1vKxNqBh0kfrKMd8OB\
        p9t6/d2nAU+YZ03UWTpuhcr4+j1070WYItI=";

    fn identity(byte: u8) -> Identity {
        Identity(StaticSecret::from([byte; 32]))
    }

    #[test]
    fn a_file_is_read_by_every_recipient_and_nobody_else() {
        let (one, two, other) = (identity(1), identity(2), identity(3));
        for size in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 3 * CHUNK_LEN] {
            let plain: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let file = encrypt(&plain, &[one.recipient(), two.recipient()]).expect("encrypted");
            for reader in [&one, &two] {
                let reader = std::slice::from_ref(reader);
                assert_eq!(decrypt(&file, reader), Ok(Some(plain.clone())), "{size}");
            }
            assert_eq!(decrypt(&file, std::slice::from_ref(&other)), Ok(None));
        }
    }

    #[test]
    fn a_changed_or_truncated_file_is_refused() {
        let reader = [identity(1)];
        let file = encrypt(&[7; 200], &[reader[0].recipient()]).expect("encrypted");
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert!(!matches!(decrypt(&bad, &reader), Ok(Some(_))), "byte {at}");
            assert!(!matches!(decrypt(&file[..at], &reader), Ok(Some(_))), "cut at {at}");
        }
        let long = encrypt(&vec![7; 2 * CHUNK_LEN], &[reader[0].recipient()]).expect("encrypted");
        let without_last = &long[..long.len() - CHUNK_LEN - TAG_LEN];
        assert!(decrypt(without_last, &reader).is_err(), "whole chunks were cut off");
    }

    #[test]
    fn a_file_of_the_age_program_is_read() {
        let file = base64::engine::general_purpose::STANDARD.decode(FILE).expect("base64");
        let reader = [Identity::parse(SECRET).expect("an identity")];
        assert_eq!(Recipient::parse(PUBLIC).ok(), Some(reader[0].recipient()));
        assert_eq!(decrypt(&file, &reader), Ok(Some(b"kept by ctx\n".to_vec())));
    }

    #[test]
    fn keys_with_a_wrong_letter_are_refused() {
        for at in PUBLIC.char_indices().map(|(at, _)| at) {
            let mut bad = PUBLIC.to_owned();
            let other = if &bad[at..=at] == "q" { "p" } else { "q" };
            bad.replace_range(at..=at, other);
            assert!(Recipient::parse(&bad).is_err(), "{bad}");
        }
        for bad in ["", "age1", "age1qqqq", "ssh-ed25519 AAAA"] {
            assert!(Recipient::parse(bad).is_err(), "{bad}");
        }
    }
}
