//! Pictures that people send: which kinds are taken, how large, and how their bytes are told apart.
//!
//! What a sender says about a picture is not believed: its first bytes say what it is.

/// The largest picture that is taken.
pub const IMAGE_MAX_BYTES: usize = 5 * 1024 * 1024;
/// The most pictures in one message.
pub const IMAGES_MAX: usize = 20;

/// A kind of picture that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the formats'")]
pub enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// Why a picture was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImage {
    /// Past its bound.
    #[error("it has {bytes} bytes, and at most {IMAGE_MAX_BYTES} are taken")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A kind that is not taken.
    #[error("its media type is `{media_type}`, and only {known} are taken", known = Format::ALL.map(Format::media_type).join(", "))]
    UnknownType {
        /// What the sender said.
        media_type: String,
    },
    /// Its bytes are something else.
    #[error("its bytes are not of type {}", said.media_type())]
    NotWhatItSays {
        /// What the sender said.
        said: Format,
    },
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// As it is written.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The format of that name.
    pub fn named(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.media_type() == media_type)
    }

    /// The format that the first bytes tell.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }
}

/// Takes a picture, if it is what it says and keeps within its bound.
///
/// # Errors
/// If it is too large, of another kind, or not what it says.
pub fn check(media_type: &str, bytes: &[u8]) -> Result<Format, BadImage> {
    if bytes.len() > IMAGE_MAX_BYTES {
        return Err(BadImage::TooLarge { bytes: bytes.len() });
    }
    let said = Format::named(media_type).ok_or_else(|| BadImage::UnknownType {
        media_type: media_type.chars().take(80).filter(|c| !c.is_control()).collect(),
    })?;
    if Format::of(bytes) == Some(said) { Ok(said) } else { Err(BadImage::NotWhatItSays { said }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_tell_what_a_picture_is() {
        let pictures: [(&[u8], Format); 5] = [
            (b"\x89PNG\r\n\x1a\nrest", Format::Png),
            (b"\xff\xd8\xff\xe0", Format::Jpeg),
            (b"GIF87a", Format::Gif),
            (b"GIF89a...", Format::Gif),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", Format::Webp),
        ];
        for (bytes, format) in pictures {
            assert_eq!(check(format.media_type(), bytes), Ok(format));
            let another = Format::ALL.into_iter().find(|other| *other != format).expect("another");
            assert_eq!(
                check(another.media_type(), bytes),
                Err(BadImage::NotWhatItSays { said: another })
            );
        }
        for bytes in [&b""[..], b"<svg>", b"GIF88a", b"RIFF\x01\x02\x03\x04WAVE"] {
            assert_eq!(Format::of(bytes), None);
        }
    }

    #[test]
    fn bad_pictures_are_told_apart() {
        let mut large = b"\xff\xd8\xff".to_vec();
        large.resize(IMAGE_MAX_BYTES, 0);
        assert_eq!(check("image/jpeg", &large), Ok(Format::Jpeg));
        large.push(0);
        assert_eq!(
            check("image/jpeg", &large),
            Err(BadImage::TooLarge { bytes: IMAGE_MAX_BYTES + 1 })
        );
        let told = check("image/svg+xml", b"<svg>").expect_err("no picture").to_string();
        assert_eq!(
            told,
            "its media type is `image/svg+xml`, and only image/png, image/jpeg, image/gif, image/webp are taken"
        );
    }
}
