//! Driver: a data directory in memory, and the states in which a crash may leave it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::program::data::folder::{Folder, OpenFile};

/// A folder in memory that records every operation, so that tests can replay any part of the operations.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedFolder {
    shared: Arc<Mutex<SharedFolder>>,
}

#[derive(Debug, Default)]
struct SharedFolder {
    disk: SimulatedDisk,
    operations: Vec<FolderOperation>,
    /// The number of bytes that can still be written; `None` for no limit.
    space: Option<usize>,
}

/// An operation that changes a folder. Files have numbers, because a rename changes their names.
#[derive(Debug, Clone)]
pub(super) enum FolderOperation {
    Create(String, usize),
    Append(usize, Vec<u8>),
    Truncate(usize, usize),
    SyncFile(usize),
    Rename(String, String),
    Remove(String),
    SyncFolder,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimulatedDisk {
    names: BTreeMap<String, usize>,
    files: BTreeMap<usize, Vec<u8>>,
}

/// What a power cut leaves of the bytes that were appended to a file since it was synced.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnsyncedBytes {
    Lost,
    Half,
    Zero,
    Kept,
}

impl SimulatedDisk {
    fn apply(&mut self, operation: &FolderOperation) {
        match operation {
            FolderOperation::Create(name, file) => {
                self.names.insert(name.clone(), *file);
                self.files.entry(*file).or_default();
            }
            FolderOperation::Append(file, bytes) => {
                self.files.entry(*file).or_default().extend(bytes);
            }
            FolderOperation::Truncate(file, length) => {
                self.files.entry(*file).or_default().truncate(*length);
            }
            FolderOperation::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            FolderOperation::Remove(name) => drop(self.names.remove(name)),
            FolderOperation::SyncFile(_) | FolderOperation::SyncFolder => {}
        }
    }

    /// Returns the disk after the process was killed in the operation `next`: the operations `done` are complete, and
    /// if `next` is an append, the given number of its bytes is written.
    pub(super) fn after_kill(
        done: &[FolderOperation],
        next: Option<(&FolderOperation, usize)>,
    ) -> Self {
        let mut disk = Self::default();
        done.iter().for_each(|operation| disk.apply(operation));
        if let Some((FolderOperation::Append(file, bytes), length)) = next {
            disk.apply(&FolderOperation::Append(*file, bytes[..length].to_vec()));
        }
        disk
    }

    /// Returns the disks that a power cut after the operations `done` may leave: any selection of the creations,
    /// renames and removals since the folder was synced, and of each file the synced bytes and what `unsynced` leaves
    /// of the others.
    pub(super) fn after_power_cut(done: &[FolderOperation], unsynced: UnsyncedBytes) -> Vec<Self> {
        let changes_names = |operation: &&FolderOperation| {
            matches!(
                operation,
                FolderOperation::Create(..)
                    | FolderOperation::Rename(..)
                    | FolderOperation::Remove(_)
            )
        };
        let is_sync =
            |operation: &FolderOperation| matches!(operation, FolderOperation::SyncFolder);
        let synced = done.iter().rposition(is_sync).map_or(0, |at| at + 1);
        let open: Vec<&FolderOperation> = done[synced..].iter().filter(changes_names).collect();
        assert!(open.len() < 12, "{} changes without a sync", open.len());
        let selections = 0_u32..1 << open.len();
        let disks = selections.map(|selection| {
            let mut disk = Self::default();
            done[..synced]
                .iter()
                .filter(changes_names)
                .for_each(|one| disk.apply(one));
            for (at, one) in open.iter().enumerate() {
                if selection & (1 << at) != 0 {
                    disk.apply(one);
                }
            }
            for file in disk.names.values() {
                disk.files
                    .insert(*file, bytes_after_power_cut(done, *file, unsynced));
            }
            disk
        });
        disks.collect()
    }

    pub(super) fn file_mut(&mut self, name: &str) -> &mut Vec<u8> {
        self.files.get_mut(&self.names[name]).unwrap()
    }

    pub(super) fn file_names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }
}

fn bytes_after_power_cut(
    done: &[FolderOperation],
    file: usize,
    unsynced: UnsyncedBytes,
) -> Vec<u8> {
    let (mut bytes, mut synced) = (Vec::new(), 0);
    for operation in done {
        match operation {
            FolderOperation::Append(own, more) if *own == file => bytes.extend(more),
            FolderOperation::Truncate(own, length) if *own == file => bytes.truncate(*length),
            FolderOperation::SyncFile(own) if *own == file => synced = bytes.len(),
            _ => {}
        }
    }
    let synced = synced.min(bytes.len());
    match unsynced {
        UnsyncedBytes::Lost => bytes.truncate(synced),
        UnsyncedBytes::Half => bytes.truncate(synced.midpoint(bytes.len())),
        UnsyncedBytes::Zero => bytes[synced..].fill(0),
        UnsyncedBytes::Kept => {}
    }
    bytes
}

impl SimulatedFolder {
    /// Creates a folder with the content of a disk, as a program finds it at its start: no operations are recorded yet.
    pub(super) fn of(disk: SimulatedDisk) -> Self {
        let folder = Self::default();
        folder.shared.lock().disk = disk;
        folder
    }

    pub(super) fn operations(&self) -> Vec<FolderOperation> {
        self.shared.lock().operations.clone()
    }

    pub(super) fn disk(&self) -> SimulatedDisk {
        self.shared.lock().disk.clone()
    }

    /// Limits the number of bytes that can be written from now on, like a full disk; `None` removes the limit.
    pub(super) fn limit_space(&self, bytes: Option<usize>) {
        self.shared.lock().space = bytes;
    }
}

impl SharedFolder {
    fn perform(&mut self, operation: FolderOperation) {
        self.disk.apply(&operation);
        self.operations.push(operation);
    }
}

impl Folder for SimulatedFolder {
    type File = SimulatedFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.lock().disk.file_names())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let shared = self.shared.lock();
        let file = shared.disk.names.get(name);
        Ok(file.and_then(|file| shared.disk.files.get(file).cloned()))
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut shared = self.shared.lock();
        // An existing file is emptied, as `DiskFolder` does.
        let existing = shared.disk.names.get(name).copied();
        let file = existing.unwrap_or(shared.disk.files.len());
        shared.perform(match existing {
            Some(file) => FolderOperation::Truncate(file, 0),
            None => FolderOperation::Create(name.to_owned(), file),
        });
        let folder = self.clone();
        Ok(SimulatedFile { folder, file })
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let file = self.shared.lock().disk.names[name];
        let folder = self.clone();
        Ok(SimulatedFile { folder, file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut shared = self.shared.lock();
        if !shared.disk.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        shared.perform(FolderOperation::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let remove = FolderOperation::Remove(name.to_owned());
        self.shared.lock().perform(remove);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.lock().perform(FolderOperation::SyncFolder);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct SimulatedFile {
    folder: SimulatedFolder,
    file: usize,
}

impl Write for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = self.folder.shared.lock();
        let length = bytes.len().min(shared.space.unwrap_or(usize::MAX));
        if length == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(space) = &mut shared.space {
            *space -= length;
        }
        shared.perform(FolderOperation::Append(self.file, bytes[..length].to_vec()));
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OpenFile for SimulatedFile {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        let truncate = FolderOperation::Truncate(self.file, length);
        self.folder.shared.lock().perform(truncate);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let sync = FolderOperation::SyncFile(self.file);
        self.folder.shared.lock().perform(sync);
        Ok(())
    }
}
