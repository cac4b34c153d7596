//! Words: the failures that an answered write survives.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// Writes are in the log, and the log in the kernel, before they are answered: they survive kill -9 of the program.
    Kernel,
    /// Writes are in the log, and the log on the disk, before they are answered: they survive a power cut as well.
    Fsync,
    /// There is no log: a killed program loses the writes since the last save.
    None,
}

impl Durability {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Fsync => "fsync",
            Self::None => "none",
        }
    }
}
