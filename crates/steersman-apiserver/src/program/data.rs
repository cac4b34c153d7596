//! Driver: the data directory: one file, written under another name and then renamed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use steersman_registry::Snapshot;

use super::flag_file::FlagFile;
use super::problem::Problem;

const STATE: &str = "state.json";
const BEFORE: &str = "state.before.json";
const NEXT: &str = "state.next.json";
const LOCK: &str = "lock";

/// A folder to which only this process saves.
#[derive(Debug)]
pub(crate) struct DataDir {
    folder: PathBuf,
    /// Whether a save waits until the disk has stored it.
    synced: bool,
    // Held for the lifetime of this value; the operating system releases it when the process ends.
    _lock: File,
}

impl DataDir {
    /// Creates the folder if it does not exist, and reads the last save.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Option<Snapshot>), Problem> {
        std::fs::create_dir_all(folder).map_err(file(folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(file(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = folder.to_owned();
                return Err(Problem::InUse { path });
            }
            Err(TryLockError::Error(source)) => return Err(file(&path)(source)),
        }
        let data = Self {
            folder: folder.to_owned(),
            synced: true,
            _lock: lock,
        };
        // A process that died between the two renames of a save left the state under the other
        // name.
        for name in [STATE, BEFORE] {
            if let Some(snapshot) = data.read(name)? {
                return Ok((data, Some(snapshot)));
            }
        }
        Ok((data, None))
    }

    /// Leaves it to the operating system when saves reach the disk.
    pub(crate) fn without_sync(mut self) -> Self {
        self.synced = false;
        self
    }

    fn read(&self, name: &str) -> Result<Option<Snapshot>, Problem> {
        let path = self.folder.join(name);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(&path)(error)),
        };
        match Snapshot::read(&text) {
            Ok(snapshot) => Ok(Some(snapshot)),
            // SRV-DATA-1: the program ends here, before it could overwrite the file.
            Err(source) => {
                let before = Some(self.folder.join(BEFORE));
                let before = before.filter(|before| *before != path && before.exists());
                Err(Problem::Corrupt {
                    before,
                    path,
                    source,
                })
            }
        }
    }

    /// Saves a snapshot, and keeps the previous save beside it. If the process dies at any moment,
    /// one of the two files is complete (SRV-DATA-1).
    pub(crate) fn save(&self, snapshot: &Snapshot) -> Result<(), Problem> {
        self.replace(|out| snapshot.write(out))
    }

    /// Saves the text of a snapshot, like [`save`](Self::save).
    pub(crate) fn save_text(&self, text: &[u8]) -> Result<(), Problem> {
        self.replace(|out| out.write_all(text))
    }

    fn replace(
        &self,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Problem> {
        let [state, before, next] = [STATE, BEFORE, NEXT].map(|name| self.folder.join(name));
        if let Err(error) = write(&next, self.synced, content) {
            // Frees the space on a full disk; the error below is reported instead of this one.
            let _ = std::fs::remove_file(&next);
            return Err(file(&next)(error));
        }
        match std::fs::rename(&state, &before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file(&state)(error));
            }
            Ok(()) | Err(_) => {}
        }
        std::fs::rename(&next, &state).map_err(file(&next))
    }
}

fn write(
    path: &Path,
    synced: bool,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // The file contains Secrets.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = BufWriter::new(options.open(path)?);
    content(&mut out)?;
    out.flush()?;
    if synced {
        out.get_ref().sync_all()?;
    }
    Ok(())
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> Problem {
    let file = FlagFile::new("--data-dir", path);
    move |error| file.problem(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_apiserver::ApiServer;

    use super::*;

    fn config(name: &str) -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    // SRV-DATA-1.
    #[tokio::test]
    async fn a_file_that_does_not_parse_is_kept_with_the_previous_save() {
        let folder = tempfile::TempDir::new().unwrap();
        let (data, nothing) = DataDir::open(folder.path()).unwrap();
        assert!(nothing.is_none());
        let server = ApiServer::new();
        data.save(&server.snapshot()).unwrap();
        server.create(config("a")).unwrap();
        data.save(&server.snapshot()).unwrap();
        drop(data);

        let state = folder.path().join(STATE);
        let whole = std::fs::read(&state).unwrap();
        std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
        let problem = DataDir::open(folder.path()).unwrap_err();
        let text = super::super::chain(&problem);
        assert!(
            text.contains("state.json; the file is left unchanged"),
            "{text}"
        );
        assert!(text.contains("moving "), "{text}");
        assert_eq!(std::fs::read(&state).unwrap().len(), whole.len() / 2);

        // As the message advises, and as after a crash between the renames.
        std::fs::remove_file(&state).unwrap();
        let (_data, before) = DataDir::open(folder.path()).unwrap();
        assert_eq!(before.unwrap().revision() + 1, server.revision());
    }

    #[test]
    fn the_error_offers_only_an_existing_previous_save() {
        let folder = tempfile::TempDir::new().unwrap();
        for name in [STATE, BEFORE] {
            let path = folder.path().join(name);
            std::fs::write(&path, "{").unwrap();
            let problem = DataDir::open(folder.path()).unwrap_err();
            let text = super::super::chain(&problem);
            assert!(text.contains(name) && !text.contains("moving"), "{text}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_failed_save_leaves_no_file_on_a_full_disk() {
        let folder = tempfile::TempDir::new().unwrap();
        let (data, _) = DataDir::open(folder.path()).unwrap();
        let snapshot = ApiServer::new().snapshot();
        let next = folder.path().join(NEXT);
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let text = super::super::chain(&data.save(&snapshot).unwrap_err());
        assert!(text.contains("No space left"), "{text}");
        assert!(next.symlink_metadata().is_err());
        data.save(&snapshot).unwrap();
    }

    #[test]
    fn a_data_directory_is_locked_by_one_process() {
        let folder = tempfile::TempDir::new().unwrap();
        let _first = DataDir::open(folder.path()).unwrap();
        let problem = DataDir::open(folder.path()).unwrap_err();
        assert!(
            problem
                .to_string()
                .ends_with("is in use by another steersman-apiserver")
        );
    }
}
