//! Markers.

use super::List;

/// Phrases.
pub(super) const LISTS: &[List] = &[];
