//! Driver: appends audit events to a file or to standard output.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use steersman_apiserver::ApiServer;
use tokio_util::sync::CancellationToken;

use super::audit_event;
use super::options::AuditTarget;
use crate::program::flag_file::FlagFile;
use crate::program::problem::Outcome;
use crate::program::process::{every, report};
use crate::program::request_news::RequestNews;

const WRITE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct AuditLog {
    file: Option<File>,
    news: RequestNews,
    /// The number of events that were lost since the last successful write.
    lost: usize,
}

impl AuditLog {
    /// Opens the file of the audit log to append to it, and creates its folder. Standard output needs no file.
    pub(super) fn open(target: &AuditTarget) -> Outcome<Self> {
        let file = match target {
            AuditTarget::StandardOutput => None,
            AuditTarget::File(path) => {
                let flag = FlagFile::new("--audit-log-path", path);
                if let Some(folder) = path.parent()
                    && !folder.as_os_str().is_empty()
                {
                    // Like a kube-apiserver, creates the folder if it does not exist.
                    std::fs::create_dir_all(folder).map_err(|error| flag.problem(error))?;
                }
                let mut options = OpenOptions::new();
                options.append(true).create(true);
                // Only the owner may read the file, because it contains query strings.
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let file = options.open(path);
                Some(file.map_err(|error| flag.problem(error))?)
            }
        };
        Ok(Self {
            file,
            news: RequestNews::default(),
            lost: 0,
        })
    }

    /// Appends the events of requests until the token is cancelled, and then once more for the last requests.
    pub(super) async fn run(mut self, server: ApiServer, stop: CancellationToken) {
        let mut writes = every(WRITE);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = writes.tick() => self.write(&server),
            }
        }
        self.write(&server);
    }

    fn write(&mut self, server: &ApiServer) {
        let (run, now) = (std::process::id(), server.now());
        let mut text = String::new();
        let mut events = 0;
        for record in self.news.next(server) {
            events += 1;
            text.push_str(&audit_event::event(&record, run, now).to_string());
            text.push('\n');
        }
        if text.is_empty() {
            return;
        }
        let written = match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()),
            None => std::io::stdout().write_all(text.as_bytes()),
        };
        match written {
            Ok(()) if self.lost > 0 => {
                let lost = self.lost;
                let news = format!("the audit log is written again; {lost} events are missing");
                report("kube-apiserver", news);
                self.lost = 0;
            }
            Ok(()) => {}
            Err(error) => {
                // Reports a failure only once, until a write succeeds again.
                if self.lost == 0 {
                    let news = format!("cannot write the audit log: {error}");
                    report("kube-apiserver", news);
                }
                self.lost += events;
            }
        }
    }
}
