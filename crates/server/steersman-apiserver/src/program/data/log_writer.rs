//! Driver: appends to the write-ahead log of a data directory.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::DataDir;
use super::folder::{DiskFolder, Folder, OpenFile};
use super::frame::{FORMAT, encode};
use super::saved_state::{LastFile, file_name};

#[derive(Debug)]
pub(crate) struct LogWriter<F: Folder = DiskFolder> {
    data: Arc<DataDir<F>>,
    /// Whether an append waits until the disk has stored it.
    is_synced: bool,
    file: Option<LogFile<F::File>>,
}

#[derive(Debug)]
struct LogFile<T> {
    name: String,
    file: T,
    /// The number of bytes up to the end of the last complete append.
    length: u64,
    /// Whether bytes of a failed append may follow behind `length`; the next append cuts them off.
    is_dirty: bool,
}

impl<F: Folder> LogWriter<F> {
    /// Opens the last file of the log, and truncates it behind its last complete append.
    pub(super) fn open(
        data: Arc<DataDir<F>>,
        last: Option<&LastFile>,
        is_synced: bool,
    ) -> io::Result<Self> {
        let mut writer = Self {
            data,
            is_synced,
            file: None,
        };
        // A file without its first line is not used: the next append creates it anew, under the same name.
        if let Some(last) = last.filter(|last| last.length > 0) {
            let folder = &writer.data.folder;
            let mut file = folder.open(&last.name)?;
            let length = last.length as u64;
            if last.torn > 0 {
                file.truncate(length)?;
            }
            if is_synced {
                file.sync()?;
            }
            writer.file = Some(LogFile {
                name: last.name.clone(),
                file,
                length,
                is_dirty: false,
            });
        }
        Ok(writer)
    }

    /// Appends a payload, which begins with transaction number `first`. After an error no part of the payload is kept,
    /// and it may be appended again (WAL-4).
    pub(crate) fn append(
        &mut self,
        first: u64,
        payload: &[u8],
        starts_file: bool,
    ) -> io::Result<()> {
        let Some(frame) = encode(payload) else {
            return Err(io::Error::other("the transactions have 4 GiB or more"));
        };
        let name = file_name(first);
        let is_begun = self.file.as_ref().is_some_and(|file| file.name == name);
        if self.file.is_none() || (starts_file && !is_begun) {
            self.begin(name)?;
        }
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the log has no file"));
        };
        if file.is_dirty {
            file.file.truncate(file.length)?;
        }
        file.is_dirty = true;
        file.file.write_all(&frame)?;
        if self.is_synced {
            file.file.sync()?;
        }
        file.is_dirty = false;
        file.length += frame.len() as u64;
        self.data.log_bytes.store(file.length, Ordering::Relaxed);
        Ok(())
    }

    fn begin(&mut self, name: String) -> io::Result<()> {
        let folder = &self.data.folder;
        let mut file = folder.create(&name)?;
        file.write_all(FORMAT)?;
        if self.is_synced {
            file.sync()?;
            folder.sync()?;
        }
        self.file = Some(LogFile {
            name,
            file,
            length: FORMAT.len() as u64,
            is_dirty: false,
        });
        Ok(())
    }

    /// Returns the path of the file that is appended to; before the first append, the path of the data directory.
    pub(crate) fn path(&self) -> PathBuf {
        let name = self.file.as_ref().map(|file| file.name.as_str());
        self.data.path.join(name.unwrap_or_default())
    }
}
