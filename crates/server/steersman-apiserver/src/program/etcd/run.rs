//! Driver: etcd from its arguments to its end.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::options::{EtcdOptions, ListenUrl, flags};
use super::service::{EtcdService, accept};
use super::snapshot_hold::SnapshotHold;
use crate::program::data::{DataDir, LogWriter};
use crate::program::durability::Durability;
use crate::program::problem::{Outcome, ProgramProblem};
use crate::program::process::{report, say, stopped};

/// Time that an attached kube-apiserver has for its last save when both programs are stopped.
const LAST_SAVE: Duration = Duration::from_secs(2);
/// The folder in which a real etcd keeps its data. A data directory with this folder is refused.
const MEMBER: &str = "member";

const INTRODUCTION: &str = "Keeps the objects of one kube-apiserver of this program, in place of etcd.\n\n\
    Usage:\n  etcd [flags]";

pub(crate) async fn run(arguments: impl Iterator<Item = OsString>) -> Outcome {
    let table = flags();
    let line = table.parse(arguments)?;
    if line.asks("help") {
        say(std::io::stdout(), &table.help(INTRODUCTION));
        return Ok(());
    }
    if line.last("version").is_some_and(|value| value != "false") {
        let version = concat!(
            "etcd Version: 3.6.0\nsteersman-apiserver ",
            env!("CARGO_PKG_VERSION")
        );
        say(std::io::stdout(), version);
        return Ok(());
    }
    for warning in &line.warnings {
        report("etcd", warning);
    }
    let options = EtcdOptions::of(&line)?;
    let stop = stopped()?;
    // Occupies the ports of peers to the end, so that no other program gets them.
    for listener in bind(&options.peers).await? {
        tokio::spawn(close_each(listener));
    }
    let listeners = bind(&options.clients).await?;
    let (hold, kept) = match &options.data_dir {
        Some(folder) => {
            let (hold, data, writer) = open(folder, &options)?;
            (hold, Some((data, writer)))
        }
        None => Default::default(),
    };
    let service = Arc::new(EtcdService::new(hold, options.durability, kept));
    // The guard cancels the token at the end of this function, so that no more connections are accepted.
    let accepting = CancellationToken::new();
    let _accepting = accepting.clone().drop_guard();
    for listener in listeners {
        let address = listener.local_addr();
        tokio::spawn(accept(listener, Arc::clone(&service), accepting.clone()));
        if let Ok(address) = address {
            report("etcd", format_args!("listens on http://{address}"));
        }
    }
    stop.await;
    // Waits until the kube-apiserver has detached: if both programs are stopped at once, it saves once more.
    let _ = tokio::time::timeout(LAST_SAVE, service.freed()).await;
    Ok(())
}

/// Closes each connection at once, so that no client waits for an answer.
async fn close_each(listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        drop(socket);
    }
}

async fn bind(urls: &[ListenUrl]) -> Outcome<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for url in urls {
        let listener = TcpListener::bind(&url.address).await;
        listeners.push(listener.map_err(|source| ProgramProblem::Listen {
            flag: url.flag,
            url: url.url.clone(),
            source,
        })?);
    }
    Ok(listeners)
}

type OpenedFolder = (SnapshotHold, Arc<DataDir>, Option<LogWriter>);

fn open(folder: &Path, options: &EtcdOptions) -> Outcome<OpenedFolder> {
    if folder.join(MEMBER).exists() {
        let path = folder.to_owned();
        return Err(ProgramProblem::RealEtcd { path });
    }
    let (data, saved) = DataDir::open(folder)?;
    for message in saved.iter().flat_map(|saved| saved.messages(folder)) {
        report("etcd", message);
    }
    let data = Arc::new(match options.is_synced {
        true => data,
        false => data.without_sync(),
    });
    let writer = match options.durability {
        Durability::None => None,
        durability => Some(data.log_writer(saved.as_ref(), durability)?),
    };
    let hold = saved.map_or_else(SnapshotHold::default, |saved| SnapshotHold {
        text: Some(saved.snapshot.into()),
        in_snapshot: saved.in_snapshot,
        log: saved.groups,
        holder: None,
    });
    Ok((hold, data, writer))
}
