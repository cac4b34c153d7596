//! Driver: the operations on a data directory, on disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

/// The operations on a data directory. Tests use a simulated folder, which can stop after each operation.
pub(crate) trait Folder: std::fmt::Debug + Send + Sync + 'static {
    /// An open file, to which writes append.
    type File: OpenFile;

    fn names(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Creates an empty file, or empties an existing one.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file, and replaces an existing file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Waits until the disk has stored the names of the files in the folder.
    fn sync(&self) -> io::Result<()>;
}

pub(crate) trait OpenFile: io::Write + std::fmt::Debug + Send + 'static {
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct DiskFolder(pub(super) PathBuf);

impl Folder for DiskFolder {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            // Skips names that are not UTF-8: no file of this program has such a name.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.0.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let path = self.0.join(name);
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        // Only the owner may read the file, because it contains Secrets.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        // Empties an existing file, but not a device such as `/dev/full`, with which a test simulates a full disk: a
        // device cannot be shortened.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().append(true).open(self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        // Only Unix can open, and so sync, a folder like a file.
        #[cfg(unix)]
        File::open(&self.0)?.sync_all()?;
        Ok(())
    }
}

impl OpenFile for File {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
