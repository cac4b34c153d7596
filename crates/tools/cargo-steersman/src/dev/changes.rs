//! Driver: waits for changes of the sources.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::OptionFuture;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::error::Error;

/// Reports changes of sources until it is dropped.
#[derive(Debug)]
pub(crate) struct SourceChanges {
    changed: UnboundedReceiver<PathBuf>,
    /// The first change that was not returned yet, and when the changes count as ended.
    pending: Option<(PathBuf, Instant)>,
    _watcher: RecommendedWatcher,
}

/// The folders below that of the operator with its sources and samples.
const FOLDERS: [&str; 2] = ["src", "config/samples"];
/// The files in the folder of the operator that decide what is built.
const FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "build.rs"];
/// An editor writes several files, and a file several times: the time without another change.
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
                // Without a receiver the watcher is about to be dropped.
                let _ = sender.send(path);
            }
        };
        let failed = |source| Error::Watch {
            path: folder.to_owned(),
            source,
        };
        let mut watcher = notify::recommended_watcher(report).map_err(failed)?;
        // Not the files themselves: an editor puts another file in their place.
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(failed)?;
        for path in FOLDERS.map(|part| folder.join(part)) {
            if path.exists() {
                watcher
                    .watch(&path, RecursiveMode::Recursive)
                    .map_err(failed)?;
            }
        }
        Ok(Self {
            changed,
            pending: None,
            _watcher: watcher,
        })
    }

    /// Waits for a change and for the end of the changes, and returns the first changed file. Cancel safe: a change
    /// that was seen is returned by a later call, at the same moment.
    pub(crate) async fn next(&mut self) -> PathBuf {
        loop {
            let end = self.pending.as_ref().map(|(_, end)| *end);
            let ended = OptionFuture::from(end.map(sleep_until));
            tokio::select! {
                // The watcher, which holds the sender, is a field of this value: there is always a next change.
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
        // No source.
        std::fs::write(folder.join("notes.txt"), "a").unwrap();
        std::fs::write(folder.join("src/main.rs"), "a").unwrap();
        // As `dev` cuts it; shorter than the pause, so that no single wait lasts until the end of the changes.
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
