//! Driver: waits for changes of the operator's source files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::OptionFuture;
use notify::RecursiveMode::{NonRecursive, Recursive};
use notify::{Event, RecommendedWatcher, Watcher as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::error::Error;

/// Watches the source files until it is dropped.
#[derive(Debug)]
pub(crate) struct SourceChanges {
    changed: UnboundedReceiver<PathBuf>,
    /// The first changed file since the last result of `next`, and the instant at which the burst of changes is over.
    pending: Option<(PathBuf, Instant)>,
    _watcher: RecommendedWatcher,
}

/// The folders of the operator that are watched.
const FOLDERS: [&str; 2] = ["src", "config/samples"];
/// The files in the root folder of the operator that are watched, because they affect the build.
const FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "build.rs"];
/// The time without a change after which a burst is over. One save in an editor may write a file several times.
const PAUSE: Duration = Duration::from_millis(150);

impl SourceChanges {
    pub(crate) fn watch(folder: &Path) -> Result<Self, Error> {
        let (sender, changed) = unbounded_channel();
        let top = folder.to_owned();
        let report = move |event: notify::Result<Event>| {
            let event = event.ok().filter(|event| !event.kind.is_access());
            let is_source = |path: &PathBuf| {
                let file = path.strip_prefix(&top).unwrap_or(path);
                file.components().count() > 1 || FILES.iter().any(|name| file == Path::new(name))
            };
            let paths = event.into_iter().flat_map(|event| event.paths);
            for path in paths.filter(is_source) {
                // A failed send means that `SourceChanges` is being dropped.
                let _ = sender.send(path);
            }
        };
        let failed = |source| Error::Watch {
            path: folder.to_owned(),
            source,
        };
        let mut watcher = notify::recommended_watcher(report).map_err(failed)?;
        // The folder is watched and not its files, because an editor replaces a file by another one.
        watcher.watch(folder, NonRecursive).map_err(failed)?;
        for path in FOLDERS.map(|part| folder.join(part)) {
            if path.exists() {
                watcher.watch(&path, Recursive).map_err(failed)?;
            }
        }
        Ok(Self {
            changed,
            pending: None,
            _watcher: watcher,
        })
    }

    /// Waits until a burst of changes is over, and returns the first changed file. Cancel safe: the next call returns a
    /// change that a dropped future has seen, at the same instant.
    pub(crate) async fn next(&mut self) -> PathBuf {
        loop {
            let end = self.pending.as_ref().map(|(_, end)| *end);
            let ended = OptionFuture::from(end.map(sleep_until));
            tokio::select! {
                // `recv` never returns `None`, because the watcher in this struct holds the sender.
                Some(changed) = self.changed.recv() => {
                    let first = self.pending.take().map_or(changed, |(first, _)| first);
                    self.pending = Some((first, Instant::now() + PAUSE));
                }
                Some(()) = ended => {
                    if let Some((first, _)) = self.pending.take() {
                        return first;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_change_is_reported_although_the_wait_is_cut_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("src")).unwrap();
        let mut changes = SourceChanges::watch(&folder).unwrap();
        // A file that is no source is written.
        std::fs::write(folder.join("notes.txt"), "a").unwrap();
        std::fs::write(folder.join("src/main.rs"), "a").unwrap();
        // The timeout drops the future before the pause is over, as `dev` does: no single call sees the end of the
        // burst.
        let changed = timeout(Duration::from_secs(60), async {
            loop {
                if let Ok(changed) = timeout(PAUSE / 3, changes.next()).await {
                    return changed;
                }
            }
        });
        let changed = changed.await.unwrap();
        assert_eq!(changed, folder.join("src/main.rs"));
    }
}
