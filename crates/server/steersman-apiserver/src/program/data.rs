//! Driver: the data directory: the last save, the save before it, and the write-ahead log.
//!
//! A save is a file with the whole state. It is written under another name and then renamed. The log has the
//! transactions after a save. Each transaction has a number, and a save names the last transaction that it includes: a
//! start reads one consistent state or reports an error, whichever files a crash leaves (WAL-2).

mod folder;
mod frame;
mod saved_state;
mod log_writer;

use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use steersman_registry::Snapshot;

use folder::{DiskFolder, Folder, OpenFile as _};
use saved_state::{BEFORE, STATE, count_before, log_files};

pub(crate) use log_writer::LogWriter;
pub(crate) use saved_state::{SavedGroup, SavedState};

use super::durability::Durability;
use super::flag_file::FlagFile;
use super::problem::{Outcome, ProgramProblem};

const NEXT: &str = "state.next.json";
const LOCK: &str = "lock";

/// Size, in bytes, up to which the log's last file makes no save due, however small the last save is: 16 MiB.
pub(crate) const LOG_MIN: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct DataDir<F: Folder = DiskFolder> {
    folder: F,
    path: PathBuf,
    /// Whether a save waits until the disk has stored the files (fsync).
    synced: bool,
    /// The number of the last transaction in the last save; `None` if there is no save.
    saved: Mutex<Option<u64>>,
    /// The size of the last save, in bytes.
    save_bytes: AtomicU64,
    /// The size of the log's last file, in bytes.
    log_bytes: AtomicU64,
    /// Whether the last save failed, so that a new one is due. The size of the log's last file does not show this,
    /// because the failed save began a new file, which is short.
    has_failed: AtomicBool,
    // The lock on the directory. The operating system releases it when the process ends.
    _lock: Option<File>,
}

impl DataDir {
    pub(crate) fn open(path: &Path) -> Outcome<(Self, Option<SavedState>)> {
        std::fs::create_dir_all(path).map_err(file(path))?;
        let lock_path = path.join(LOCK);
        let lock = File::create(&lock_path).map_err(file(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = path.to_owned();
                return Err(ProgramProblem::InUse { path });
            }
            Err(TryLockError::Error(source)) => return Err(file(&lock_path)(source)),
        }
        let (mut data, saved) = Self::load(DiskFolder(path.to_owned()), path)?;
        data._lock = Some(lock);
        Ok((data, saved))
    }

    /// Makes saves faster: they do not wait until the disk has stored them, and a power cut may lose them.
    pub(crate) fn without_sync(mut self) -> Self {
        self.synced = false;
        self
    }
}

impl<F: Folder> DataDir<F> {
    fn load(folder: F, path: &Path) -> Outcome<(Self, Option<SavedState>)> {
        let saved = saved_state::read(&folder, path)?;
        let log_bytes = saved.as_ref().and_then(|saved| saved.last_file.as_ref());
        let save_bytes = saved.as_ref().map_or(0, |saved| saved.snapshot.len());
        let data = Self {
            folder,
            path: path.to_owned(),
            synced: true,
            saved: Mutex::new(saved.as_ref().map(|saved| saved.in_snapshot)),
            save_bytes: AtomicU64::new(save_bytes as u64),
            log_bytes: AtomicU64::new(log_bytes.map_or(0, |last| last.length as u64)),
            has_failed: AtomicBool::new(false),
            _lock: None,
        };
        Ok((data, saved))
    }

    /// Opens the log to append to it. An incomplete append at its end is cut off.
    pub(crate) fn log_writer(
        self: &Arc<Self>,
        saved: Option<&SavedState>,
        durability: Durability,
    ) -> Outcome<LogWriter<F>> {
        let last = saved.and_then(|saved| saved.last_file.as_ref());
        let is_synced = durability == Durability::Fsync;
        let opened = LogWriter::open(Arc::clone(self), last, is_synced);
        opened.map_err(file(&self.path))
    }

    /// Saves a snapshot, and keeps the previous save beside it. If the process dies at any moment, one of the two files
    /// is complete (SRV-DATA-1). Then removes the files of the log that neither of the two saves needs.
    pub(crate) fn save(&self, snapshot: &Snapshot) -> Outcome {
        self.replace(snapshot.transactions(), |out| snapshot.write(out))
    }

    /// Saves `text`, a snapshot with the transactions up to number `transactions`; keeps the previous save beside it.
    pub(crate) fn save_text(&self, transactions: u64, text: &[u8]) -> Outcome {
        self.replace(transactions, |out| out.write_all(text))
    }

    /// Returns whether a save is due: the last save failed, or the log's last file is larger than the last save and
    /// than `LOG_MIN`.
    pub(crate) fn is_save_due(&self) -> bool {
        if self.has_failed.load(Ordering::Relaxed) {
            return true;
        }
        let limit = self.save_bytes.load(Ordering::Relaxed).max(LOG_MIN);
        self.log_bytes.load(Ordering::Relaxed) > limit
    }

    fn replace(
        &self,
        transactions: u64,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Outcome {
        let replaced = self.try_replace(transactions, content);
        self.has_failed.store(replaced.is_err(), Ordering::Relaxed);
        replaced
    }

    fn try_replace(
        &self,
        transactions: u64,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Outcome {
        // Locked until this function returns, so that saves do not overlap.
        let mut saved = self.saved.lock();
        let path = |name: &str| self.path.join(name);
        let written = self.write(NEXT, content);
        let bytes = written.map_err(|error| {
            // Removes the incomplete file, to free space on a full disk. An error of the removal is ignored, because
            // the error of the write is returned.
            let _ = self.folder.remove(NEXT);
            file(&path(NEXT))(error)
        })?;
        if let Err(error) = self.folder.rename(STATE, BEFORE)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(file(&path(STATE))(error));
        }
        let renamed = self.folder.rename(NEXT, STATE);
        renamed.map_err(file(&path(NEXT)))?;
        if self.synced {
            // The save that the first rename replaces needs the log files that are removed next. A crash that undoes
            // the renames brings that save back, so both renames must be on the disk first.
            self.folder.sync().map_err(file(&self.path))?;
        }
        self.save_bytes.store(bytes, Ordering::Relaxed);
        let previous = saved.replace(transactions);
        self.remove_log(previous.unwrap_or(transactions))
            .map_err(file(&self.path))
    }

    fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut out = CountingWriter {
            inner: BufWriter::new(self.folder.create(name)?),
            bytes: 0,
        };
        content(&mut out)?;
        out.inner.flush()?;
        if self.synced {
            out.inner.get_mut().sync()?;
        }
        Ok(out.bytes)
    }

    /// Removes the files of the log that hold only transactions up to this number.
    fn remove_log(&self, number: u64) -> io::Result<()> {
        let files = log_files(&self.folder)?;
        let count = count_before(&files, number);
        for (_, name) in &files[..count] {
            self.folder.remove(name)?;
        }
        Ok(())
    }
}

struct CountingWriter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> ProgramProblem {
    let file = FlagFile::new("--data-dir", path);
    move |error| file.problem(error)
}

#[cfg(test)]
mod tests;
