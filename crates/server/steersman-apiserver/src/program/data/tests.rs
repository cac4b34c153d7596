//! Tests of saves, and of the state that a start reads from a data directory.

mod simulated;
mod crashes;

use serde_json::json;
use steersman_apiserver::ApiServer;

use super::*;

fn config(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

// SRV-DATA-1: a file that cannot be read is never overwritten.
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

    // Without `state.json`, as after a crash between the two renames of a save, the previous save is read.
    std::fs::remove_file(&state).unwrap();
    let (_data, before) = DataDir::open(folder.path()).unwrap();
    assert_eq!(before.unwrap().recovery.revision() + 1, server.revision());
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
fn a_save_that_failed_is_due_until_it_succeeds() {
    let folder = tempfile::TempDir::new().unwrap();
    let (data, _) = DataDir::open(folder.path()).unwrap();
    let data = Arc::new(data);
    let mut log = data.log_writer(None, Durability::Kernel).unwrap();
    let long = vec![b' '; LOG_MIN as usize];
    log.append(1, &long, true).unwrap();
    assert!(data.is_save_due());

    // Makes the save fail: no file can be created under the name of a folder.
    let next = folder.path().join(NEXT);
    std::fs::create_dir(&next).unwrap();
    let snapshot = ApiServer::new().snapshot();
    data.save(&snapshot).unwrap_err();
    // The failed save began a new file of the log. That the file is short does not hide that a save is due.
    log.append(2, b"{}", true).unwrap();
    assert!(data.is_save_due());

    std::fs::remove_dir(&next).unwrap();
    data.save(&snapshot).unwrap();
    assert!(!data.is_save_due());
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
