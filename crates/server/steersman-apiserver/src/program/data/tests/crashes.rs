//! Tests of the states in which a crash may leave a data directory: after every operation, within every
//! append, and, for a power cut, with any selection of the operations that were not synced.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use steersman_registry::{ObjectTarget, Registry, RegistryOptions, WriteOptions};

use super::simulated::{FolderOperation, SimulatedDisk, SimulatedFolder, UnsyncedBytes};
use super::*;
use crate::program::durability::Durability;

/// A server with its state in a simulated folder.
struct SimulatedServer {
    registry: Registry,
    folder: SimulatedFolder,
    data: Arc<DataDir<SimulatedFolder>>,
    log: LogWriter<SimulatedFolder>,
    is_cut: bool,
    /// For each answered transaction, the number of operations on the folder before its answer.
    answered: Vec<usize>,
}

type Loaded = (Arc<DataDir<SimulatedFolder>>, Option<SavedState>);

fn load(folder: SimulatedFolder) -> Outcome<Loaded> {
    let (data, saved) = DataDir::load(folder, Path::new("/data"))?;
    Ok((Arc::new(data), saved))
}

impl SimulatedServer {
    fn start(durability: Durability) -> Self {
        let folder = SimulatedFolder::default();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let mut registry = Registry::new(RegistryOptions::default(), now);
        registry.record_transactions();
        let (data, saved) = load(folder.clone()).unwrap();
        assert!(saved.is_none());
        data.save(&registry.snapshot()).unwrap();
        let log = data.log_writer(None, durability).unwrap();
        Self {
            registry,
            folder,
            data,
            log,
            is_cut: false,
            answered: Vec::new(),
        }
    }

    /// Writes an object. Returns the number and the text of its transaction.
    fn transaction(&mut self) -> (u64, Vec<u8>) {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let maps = self.registry.resource("", "v1", "configmaps").unwrap();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"generateName": "a-"}, "data": {"a": "x".repeat(60)}});
        let target = ObjectTarget::collection(&maps, Some("default"));
        let options = WriteOptions::default();
        self.registry.create(target, object, &options, now).unwrap();
        let transaction = self.registry.take_transaction().unwrap();
        let mut text = Vec::new();
        transaction.write(&mut text).unwrap();
        (transaction.number(), text)
    }

    fn append(&mut self, (number, text): &(u64, Vec<u8>)) -> io::Result<()> {
        let starts_file = std::mem::take(&mut self.is_cut);
        self.log.append(*number, text, starts_file)?;
        self.answered.push(self.folder.operations().len());
        Ok(())
    }

    fn write(&mut self) {
        let transaction = self.transaction();
        self.append(&transaction).unwrap();
    }

    fn snapshot(&mut self) -> Snapshot {
        self.is_cut = true;
        self.registry.snapshot()
    }

    /// Writes and saves; some writes are between a snapshot and its save.
    fn live(&mut self) {
        for _ in 0..3 {
            self.write();
        }
        for between in [1, 0, 2] {
            let snapshot = self.snapshot();
            for _ in 0..between {
                self.write();
            }
            self.data.save(&snapshot).unwrap();
            self.write();
        }
    }

    /// Returns the number of transactions that were answered when `operation` operations on the folder were done.
    fn answered_before(&self, operation: usize) -> u64 {
        let answered = self.answered.iter();
        answered.filter(|before| **before <= operation).count() as u64
    }
}

/// Starts a server from a disk, writes one more transaction, and reads the disk again. Returns the number of the last
/// transaction before that write; `None` for a disk without a save.
fn restart(disk: SimulatedDisk, durability: Durability) -> Outcome<Option<u64>> {
    let folder = SimulatedFolder::of(disk);
    let (data, saved) = load(folder.clone())?;
    let Some(saved) = saved else {
        return Ok(None);
    };
    let last = saved.recovery.transactions();
    let mut registry = Registry::new(RegistryOptions::default(), jiff::Timestamp::UNIX_EPOCH);
    registry.recover(&saved.recovery);
    registry.record_transactions();
    let log = data.log_writer(Some(&saved), durability).unwrap();
    let mut server = SimulatedServer {
        registry,
        folder: folder.clone(),
        data,
        log,
        is_cut: false,
        answered: Vec::new(),
    };
    server.write();
    let (_, again) = load(folder)?;
    let again = again.unwrap().recovery;
    assert_eq!(again.transactions(), last + 1);
    assert_eq!(again.revision(), server.registry.revision());
    Ok(Some(last))
}

fn check(disk: SimulatedDisk, server: &SimulatedServer, done: usize, place: &str) {
    let answered = server.answered_before(done);
    match restart(disk, Durability::Kernel) {
        // Before the first save there is nothing to lose.
        Ok(None) => assert_eq!(answered, 0, "{place}"),
        Ok(Some(last)) => assert!(
            (answered..=answered + 1).contains(&last),
            "{place}: {answered} transactions were answered, but {last} are left"
        ),
        Err(error) => panic!("{place}: {}", crate::program::chain(&error)),
    }
}

// WAL-2: a process is killed after every operation and within every append, while the operating system continues.
#[test]
fn a_kill_at_any_moment_loses_no_answered_write() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.live();
    let operations = server.folder.operations();
    for done in 0..=operations.len() {
        let next = operations.get(done);
        let lengths = match next {
            Some(FolderOperation::Append(_, bytes)) => bytes.len(),
            _ => 1,
        };
        // The tests of `frame.rs` cut appends at every byte; here some prefixes of each append are enough.
        let step = if lengths > 2000 { 701 } else { 19 };
        for length in (0..lengths).step_by(step) {
            let disk =
                SimulatedDisk::after_kill(&operations[..done], next.map(|one| (one, length)));
            check(
                disk,
                &server,
                done,
                &format!("{length} bytes of {done} {next:?}"),
            );
        }
    }
}

// WAL-2: a power cut after every operation keeps any selection of unsynced renames, creations and removals.
#[test]
fn a_power_cut_at_any_moment_loses_no_synced_write() {
    let mut server = SimulatedServer::start(Durability::Fsync);
    server.live();
    let operations = server.folder.operations();
    for done in 0..=operations.len() {
        for unsynced in [
            UnsyncedBytes::Lost,
            UnsyncedBytes::Half,
            UnsyncedBytes::Zero,
            UnsyncedBytes::Kept,
        ] {
            let disks = SimulatedDisk::after_power_cut(&operations[..done], unsynced);
            for (selection, disk) in disks.into_iter().enumerate() {
                let place = format!(
                    "{selection:b} of {done} {:?}, {unsynced:?}",
                    operations.get(done)
                );
                check(disk, &server, done, &place);
            }
        }
    }
}

// WAL-2: a log is replayed to its last complete append, or not at all.
#[test]
fn damage_is_an_error_that_names_file_and_offset() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.live();
    let disk = server.folder.disk();
    let files: Vec<String> = disk.file_names();
    let files: Vec<&String> = files
        .iter()
        .filter(|name| name.starts_with("wal."))
        .collect();
    assert!(files.len() > 1, "{files:?}");
    let newest = load(SimulatedFolder::of(disk.clone())).unwrap().1.unwrap();
    let mut found = 0;
    for name in files {
        let length = disk.clone().file_mut(name).len();
        for at in (0..length).step_by(7) {
            let mut damaged = disk.clone();
            damaged.file_mut(name)[at] ^= 4;
            match load(SimulatedFolder::of(damaged)) {
                Err(ProgramProblem::Damaged { path, offset, .. }) => {
                    assert_eq!(path, Path::new("/data").join(name));
                    assert!(offset <= at, "{offset} is after {at}");
                    found += 1;
                }
                Err(other) => panic!("{other}"),
                // The damaged file is one that only the previous save needs, so the newest state is still read.
                Ok((_, saved)) => {
                    let left = saved.unwrap().recovery;
                    assert_eq!(left.transactions(), newest.recovery.transactions());
                }
            }
        }
    }
    assert!(found > 100);
}

#[test]
fn a_missing_file_of_the_log_is_an_error() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.live();
    let first = |number: u64| saved_state::file_name(number);
    let mut cut = SimulatedServer::start(Durability::Kernel);
    cut.write();
    cut.is_cut = true;
    cut.write();
    cut.folder.remove(&first(1)).unwrap();
    let error = load(cut.folder.clone()).unwrap_err();
    let text = crate::program::chain(&error);
    assert!(
        text.contains("wal.00000000000000000002 does not continue the state before offset 26"),
        "{text}"
    );
    assert!(
        text.contains("transaction 2 follows, but the next one is 1"),
        "{text}"
    );
    server.folder.remove(STATE).unwrap();
    server.folder.remove(BEFORE).unwrap();
    let text = load(server.folder.clone()).unwrap_err().to_string();
    assert!(
        text.contains("has a write-ahead log but no state.json"),
        "{text}"
    );
}

// WAL-2: the previous save and the log give the newest state as well.
#[test]
fn the_previous_save_loses_nothing_either() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.live();
    server.folder.remove(STATE).unwrap();
    let (_, saved) = load(server.folder.clone()).unwrap();
    let recovery = saved.unwrap().recovery;
    assert_eq!(recovery.revision(), server.registry.revision());
    assert!(recovery.replayed() > 1);
}

#[test]
fn files_of_the_log_that_no_save_needs_are_removed() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    for _ in 0..5 {
        let snapshot = server.snapshot();
        server.write();
        server.data.save(&snapshot).unwrap();
    }
    let files = log_files(&server.folder).unwrap();
    let firsts: Vec<u64> = files.iter().map(|(first, _)| *first).collect();
    assert_eq!(firsts, [4, 5]);
}

// WAL-4: an append that a full disk stops in the middle is repeated, and no part of the first attempt is read.
#[test]
fn a_full_disk_refuses_the_append_and_the_next_attempt_is_whole() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.write();
    let before = load(server.folder.clone()).unwrap().1.unwrap();
    let next = server.transaction();
    for space in (0..next.1.len()).step_by(13) {
        server.folder.limit_space(Some(space));
        let error = server.append(&next).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let saved = load(server.folder.clone()).unwrap().1.unwrap();
        assert_eq!(
            saved.recovery.transactions(),
            before.recovery.transactions(),
            "{space}"
        );
    }
    server.folder.limit_space(None);
    server.append(&next).unwrap();
    server.write();
    let saved = load(server.folder.clone()).unwrap().1.unwrap();
    assert_eq!(saved.recovery.revision(), server.registry.revision());
}

// WAL-4: the new file of the log, which begins after a snapshot, cannot be created at first.
#[test]
fn a_full_disk_at_the_start_of_a_file_loses_nothing() {
    let mut server = SimulatedServer::start(Durability::Kernel);
    server.write();
    let _ = server.snapshot();
    let next = server.transaction();
    server.folder.limit_space(Some(9));
    server.log.append(next.0, &next.1, true).unwrap_err();
    server.folder.limit_space(None);
    server.append(&next).unwrap();
    server.write();
    let saved = load(server.folder.clone()).unwrap().1.unwrap();
    assert_eq!(saved.recovery.revision(), server.registry.revision());
}
