//! Files of packages, in memory.

use flate2::Compression;

const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

/// A file of a package, or a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackedFile {
    /// The path in the package, separated by `/`.
    pub(super) name: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl PackedFile {
    pub(super) fn program(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            mode: EXECUTABLE,
            ..Self::data(name, bytes)
        }
    }

    pub(super) fn data(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            mode: READABLE,
            bytes: bytes.into(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Packing {
    /// The time of every file, in seconds since 1970.
    pub(super) time: i64,
    pub(super) level: Compression,
}
