//! Machine: reads the last save and the write-ahead log of a data directory.

use std::path::Path;

use bytes::Bytes;

use steersman_registry::{Recovery, Snapshot};

use super::folder::Folder;
use super::frame::{FORMAT, FileEnd, scan};
use crate::program::flag_file::FlagFile;
use crate::program::problem::{Outcome, ProgramProblem};

pub(super) const STATE: &str = "state.json";
pub(super) const BEFORE: &str = "state.before.json";
/// The beginning of the names of the log's files; the number of the first transaction follows.
const LOG: &str = "wal.";

#[derive(Debug)]
pub(crate) struct SavedState {
    /// The state after the last transaction of the log.
    pub(crate) recovery: Recovery,
    pub(crate) snapshot: Vec<u8>,
    /// The transactions after the snapshot, in groups that were appended together.
    pub(crate) groups: Vec<SavedGroup>,
    pub(crate) in_snapshot: u64,
    pub(super) last_file: Option<LastFile>,
}

#[derive(Debug)]
pub(crate) struct SavedGroup {
    pub(crate) last: u64,
    pub(crate) payload: Bytes,
}

/// The file of the log to which transactions are appended.
#[derive(Debug)]
pub(super) struct LastFile {
    pub(super) name: String,
    /// The number of bytes up to the end of the last complete append; 0 if the first line is incomplete.
    pub(super) length: usize,
    /// The number of bytes of an incomplete append at the end; 0 if there is none.
    pub(super) torn: usize,
}

/// Returns the name of the log's file that starts with this transaction. Names are padded, so they sort by number.
pub(super) fn file_name(first: u64) -> String {
    format!("{LOG}{first:020}")
}

pub(super) fn log_files<F: Folder>(folder: &F) -> std::io::Result<Vec<(u64, String)>> {
    let names = folder.names()?.into_iter();
    let numbered = |name: String| Some((name.strip_prefix(LOG)?.parse().ok()?, name));
    let mut files: Vec<(u64, String)> = names.filter_map(numbered).collect();
    files.sort();
    Ok(files)
}

/// Returns how many of `files`, the files of the log in their order, hold only transactions up to `number`.
pub(super) fn count_before(files: &[(u64, String)], number: u64) -> usize {
    let later = files.iter().skip(1);
    later
        .take_while(|(first, _)| *first <= number.saturating_add(1))
        .count()
}

/// Reads the last save and the transactions after it; `None` for a folder that has neither a save nor a log.
///
/// # Errors
/// A file cannot be read, is damaged, or does not continue the files before it (WAL-2).
pub(super) fn read<F: Folder>(folder: &F, path: &Path) -> Outcome<Option<SavedState>> {
    let failed = |source: std::io::Error| FlagFile::new("--data-dir", path).problem(source);
    let files = log_files(folder).map_err(failed)?;
    // A process that died between the two renames of a save left only the previous save, as `BEFORE`.
    let mut found = None;
    for name in [STATE, BEFORE] {
        if let Some(text) = folder.read(name).map_err(failed)? {
            found = Some((name, text));
            break;
        }
    }
    let Some((name, text)) = found else {
        return match files.is_empty() {
            true => Ok(None),
            false => Err(ProgramProblem::NoSnapshot {
                path: path.to_owned(),
            }),
        };
    };
    let snapshot = match Snapshot::read(&text) {
        Ok(snapshot) => snapshot,
        // SRV-DATA-1: the program ends here, before a save could overwrite the file that does not parse.
        Err(source) => {
            let is_state = name == STATE;
            let has_before = is_state && folder.read(BEFORE).map_err(failed)?.is_some();
            return Err(ProgramProblem::Corrupt {
                path: path.join(name),
                before: has_before.then(|| path.join(BEFORE)),
                source,
            });
        }
    };
    let mut state = SavedState {
        in_snapshot: snapshot.transactions(),
        recovery: snapshot.into(),
        snapshot: text,
        groups: Vec::new(),
        last_file: None,
    };
    let needed = count_before(&files, state.in_snapshot);
    for (at, (_, name)) in files.iter().enumerate().skip(needed) {
        let bytes = folder.read(name).map_err(failed)?.unwrap_or_default();
        state.add_file(&path.join(name), &bytes, at + 1 == files.len())?;
    }
    Ok(Some(state))
}

impl SavedState {
    pub(crate) fn messages(&self, folder: &Path) -> Vec<String> {
        let mut messages = Vec::new();
        let replayed = self.recovery.replayed();
        if replayed > 0 {
            messages.push(format!(
                "replayed {replayed} transactions of the write-ahead log in {}, up to revision {}",
                folder.display(),
                self.recovery.revision()
            ));
        }
        if let Some(last) = self.last_file.as_ref().filter(|last| last.torn > 0) {
            messages.push(format!(
                "the write-ahead log {} ends with an incomplete record at offset {}; its last {} \
                 bytes are cut off: they are of a write that was not answered, or, without --durability=fsync, of one before \
                 a power cut",
                folder.join(&last.name).display(),
                last.length,
                last.torn
            ));
        }
        messages
    }

    fn add_file(&mut self, path: &Path, bytes: &[u8], is_last: bool) -> Outcome {
        let (frames, end) = scan(bytes);
        for frame in frames {
            let payload = &bytes[frame.payload];
            for text in payload.split_inclusive(|byte| *byte == b'\n') {
                let added = self.recovery.add(text);
                added.map_err(|source| ProgramProblem::Discontinued {
                    path: path.to_owned(),
                    offset: frame.offset,
                    source,
                })?;
            }
            let last = self.recovery.transactions();
            if last > self.in_snapshot {
                self.groups.push(SavedGroup {
                    last,
                    payload: Bytes::copy_from_slice(payload),
                });
            }
        }
        let damaged = |offset, why| ProgramProblem::Damaged {
            path: path.to_owned(),
            offset,
            why,
        };
        let length = match end {
            FileEnd::Whole => bytes.len(),
            FileEnd::Torn(length) if is_last => length,
            // Only the last file may end with an incomplete append: a new file is begun after the last append to the
            // previous one has ended.
            FileEnd::Torn(offset) => {
                let why = "its end is missing, but another file follows";
                return Err(damaged(offset, why));
            }
            FileEnd::Damaged(offset, why) => return Err(damaged(offset, why)),
        };
        let name = path.file_name().unwrap_or_default();
        self.last_file = Some(LastFile {
            name: name.to_string_lossy().into_owned(),
            length: if length < FORMAT.len() { 0 } else { length },
            torn: bytes.len() - length,
        });
        Ok(())
    }
}
