//! Images in messages: accepted formats, size limits and format detection.
//!
//! The media type of the sender is not trusted: it must match the format that the first bytes show.

/// Maximum size of an image.
pub const IMAGE_MAX_BYTES: usize = 5 * 1024 * 1024;
/// Maximum number of images in one message.
pub const IMAGES_MAX: usize = 20;

/// An image format that models accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the formats")]
pub enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// Why an image was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImage {
    /// Larger than [`IMAGE_MAX_BYTES`].
    #[error("{bytes} bytes exceed the limit of {IMAGE_MAX_BYTES} bytes")]
    TooLarge {
        /// Size of the image.
        bytes: usize,
    },
    /// The media type is not supported.
    #[error(
        "unsupported media type `{media_type}`; supported are {}",
        Format::ALL.map(Format::media_type).join(", ")
    )]
    UnknownType {
        /// The media type that the sender gave, truncated.
        media_type: String,
    },
    /// The bytes have another format.
    #[error("the bytes are not of type {}", declared.media_type())]
    TypeMismatch {
        /// The format that the sender gave.
        declared: Format,
    },
}

impl Format {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [Format; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The format with this media type.
    pub fn named(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.media_type() == media_type)
    }

    /// Detects the format from the first bytes.
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

/// Checks size and format of an image.
///
/// # Errors
/// If it is too large, its media type is not supported, or the bytes have another format.
pub fn check(media_type: &str, bytes: &[u8]) -> Result<Format, BadImage> {
    if bytes.len() > IMAGE_MAX_BYTES {
        return Err(BadImage::TooLarge { bytes: bytes.len() });
    }
    let declared = Format::named(media_type).ok_or_else(|| BadImage::UnknownType {
        media_type: media_type.chars().take(80).filter(|c| !c.is_control()).collect(),
    })?;
    if Format::of(bytes) == Some(declared) {
        Ok(declared)
    } else {
        Err(BadImage::TypeMismatch { declared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_detected_from_the_bytes() {
        let samples: [(&[u8], Format); 5] = [
            (b"\x89PNG\r\n\x1a\nrest", Format::Png),
            (b"\xff\xd8\xff\xe0", Format::Jpeg),
            (b"GIF87a", Format::Gif),
            (b"GIF89a...", Format::Gif),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", Format::Webp),
        ];
        for (bytes, format) in samples {
            assert_eq!(check(format.media_type(), bytes), Ok(format));
            let another = Format::ALL.into_iter().find(|other| *other != format).expect("another");
            assert_eq!(
                check(another.media_type(), bytes),
                Err(BadImage::TypeMismatch { declared: another })
            );
        }
        for bytes in [&b""[..], b"<svg>", b"GIF88a", b"RIFF\x01\x02\x03\x04WAVE"] {
            assert_eq!(Format::of(bytes), None);
        }
    }

    #[test]
    fn invalid_images_have_specific_errors() {
        let mut large = b"\xff\xd8\xff".to_vec();
        large.resize(IMAGE_MAX_BYTES, 0);
        assert_eq!(check("image/jpeg", &large), Ok(Format::Jpeg));
        large.push(0);
        assert_eq!(
            check("image/jpeg", &large),
            Err(BadImage::TooLarge { bytes: IMAGE_MAX_BYTES + 1 })
        );
        let message = check("image/svg+xml", b"<svg>").expect_err("not an image").to_string();
        assert_eq!(
            message,
            "unsupported media type `image/svg+xml`; supported are image/png, image/jpeg, \
             image/gif, image/webp"
        );
    }
}
