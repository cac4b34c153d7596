//! Driver: merges permissions into the file of observed permissions.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use steersman_testenv::RbacRules;

use crate::error::HarnessError;

const HEAD: &str = "\
# The permissions that the operator asked for in its tests. The tests add to this file when they end: commit it.
# To begin anew, delete it and run all tests.
";

/// Held during a merge, because some platforms do not lock a file against threads of the same process.
static MERGE: Mutex<()> = Mutex::new(());

/// Adds rules to a file, and creates the file if it does not exist. A file with all these rules is not written
/// (HARNESS-4). Blocks until other threads and processes have finished their merges into the file.
///
/// # Errors
///
/// [`HarnessError::RbacFile`], and [`HarnessError::RbacSyntax`] for a file that is not a list of rules. The file is
/// unchanged then.
pub(crate) fn merge(path: &Path, seen: RbacRules) -> Result<(), HarnessError> {
    let failed = |source| HarnessError::RbacFile {
        path: path.to_owned(),
        source,
    };
    let _guard = MERGE.lock();
    let real = real_path(path).map_err(failed)?;
    // Closing the lock file at the end of the function releases the lock.
    let _lock = lock(&real).map_err(failed)?;
    let before = match fs::read_to_string(&real) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let mut rules = match &before {
        Some(text) => RbacRules::parse(text).map_err(|problem| HarnessError::RbacSyntax {
            path: path.to_owned(),
            problem,
        })?,
        None => RbacRules::default(),
    };
    rules.merge(seen);
    let after = format!("{HEAD}{rules}");
    if before.is_some_and(|before| before == after) {
        return Ok(());
    }
    replace(&real, &after).map_err(failed)
}

/// Returns the path with symbolic links resolved. The file need not exist, but its folder must.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    Ok(fs::canonicalize(folder.unwrap_or(Path::new(".")))?.join(name))
}

/// Locks a path against merges of other processes. The lock is on a separate file in the temporary folder, because the
/// file at the path is replaced.
fn lock(path: &Path) -> io::Result<File> {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let name = format!("steersman-rbac-{:016x}.lock", hasher.finish());
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(std::env::temp_dir().join(name))?;
    lock.lock()?;
    Ok(lock)
}

/// Replaces the content of a file atomically: readers get the old content or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // A failed removal is ignored, because the error of the write is reported.
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    const FILE: &str = "rbac.observed.yaml";
    /// Set in child processes of a test: the path of the file and the number of the process.
    const CHILD: &str = "STEERSMAN_RBAC_FILE_TEST";

    fn rules(resource: &str, verb: &str) -> RbacRules {
        let mut rules = RbacRules::default();
        rules.allow("", resource, verb);
        rules
    }

    /// HARNESS-4: the file of observed permissions only gains permissions.
    #[test]
    fn a_merge_adds_what_the_file_lacks() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        merge(&path, rules("configmaps", "patch")).unwrap();
        merge(&path, rules("configmaps", "get")).unwrap();
        let expected = "\
# The permissions that the operator asked for in its tests. The tests add to this file when they end: commit it.
# To begin anew, delete it and run all tests.
rules:
- apiGroups: [\"\"]
  resources: [configmaps]
  verbs: [get, patch]
";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no other file stays"
        );
    }

    /// HARNESS-4: the file of observed permissions only gains permissions.
    #[test]
    fn a_file_with_all_permissions_is_not_written() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        merge(&path, rules("configmaps", "patch")).unwrap();
        let old = std::time::UNIX_EPOCH;
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(old).unwrap();
        merge(&path, rules("configmaps", "patch")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
        merge(&path, rules("configmaps", "get")).unwrap();
        assert_ne!(fs::metadata(&path).unwrap().modified().unwrap(), old);
    }

    /// HARNESS-4: the file of observed permissions only gains permissions.
    #[test]
    fn a_broken_file_stays_and_the_error_names_the_place() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        let broken = "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps]\n<<<<<<< HEAD\n  verbs: [get]\n";
        fs::write(&path, broken).unwrap();
        let error = merge(&path, rules("configmaps", "patch")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(FILE) && text.contains("line 4"), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), broken);
    }

    #[test]
    fn a_folder_that_does_not_exist_gives_an_error() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("absent").join(FILE);
        let error = merge(&path, rules("configmaps", "patch")).unwrap_err();
        assert!(matches!(error, HarnessError::RbacFile { .. }), "{error}");
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_stays_a_link() {
        let folder = TempDir::new().unwrap();
        let (path, link) = (folder.path().join(FILE), folder.path().join("link.yaml"));
        merge(&path, rules("configmaps", "patch")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        merge(&link, rules("configmaps", "get")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&path).unwrap().contains("[get, patch]"));
    }

    /// Merges distinct permissions from several threads.
    fn merge_from_threads(path: &Path, process: &str) {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for turn in 0..5 {
                        let resource = format!("r{process}-{thread}-{turn}");
                        merge(path, rules(&resource, "get")).unwrap();
                    }
                });
            }
        });
    }

    /// HARNESS-4: the file of observed permissions only gains permissions.
    #[test]
    fn merges_of_several_processes_lose_nothing() {
        if let Ok(child) = std::env::var(CHILD) {
            let (process, path) = child.split_once(':').unwrap();
            return merge_from_threads(Path::new(path), process);
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        let program = std::env::current_exe().unwrap();
        let start = |process: usize| {
            let name = "rbac_file::tests::merges_of_several_processes_lose_nothing";
            let child = Command::new(&program)
                .args(["--exact", name])
                .env(CHILD, format!("{process}:{}", path.display()))
                .stdout(std::process::Stdio::null())
                .spawn();
            child.unwrap()
        };
        let children: Vec<_> = (0..4).map(start).collect();
        merge_from_threads(&path, "own");
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let text = fs::read_to_string(&path).unwrap();
        let merged = RbacRules::parse(&text).unwrap();
        let mut expected = RbacRules::default();
        for process in ["0", "1", "2", "3", "own"] {
            for (thread, turn) in (0..4).flat_map(|thread| (0..5).map(move |turn| (thread, turn))) {
                expected.allow("", &format!("r{process}-{thread}-{turn}"), "get");
            }
        }
        assert_eq!(merged, expected);
    }
}
