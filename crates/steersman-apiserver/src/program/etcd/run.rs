//! Driver: etcd from its arguments to its end.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::options::{EtcdOptions, ListenUrl, flags};
use super::service::{EtcdService, accept};
use crate::program::data::DataDir;
use crate::program::flag_file::FlagFile;
use crate::program::problem::Problem;
use crate::program::process::{say, stopped};

/// Time that an attached kube-apiserver has for its last save when both programs are stopped.
const LAST_SAVE: Duration = Duration::from_secs(2);
/// The folder of a data directory in which a real etcd keeps its data.
const MEMBER: &str = "member";

const INTRODUCTION: &str = "Keeps the objects of one kube-apiserver of this program, in place of etcd.\n\n\
    Usage:\n  etcd [flags]";

/// Serves until a signal asks to stop.
///
/// # Errors
/// A flag, an address or a folder that cannot be used.
pub(crate) async fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), Problem> {
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
        say(std::io::stderr(), &format!("etcd: {warning}"));
    }
    let options = EtcdOptions::of(&line)?;
    let stop = stopped()?;
    // Taken to the end, so that another program cannot have the ports.
    for listener in bind(&options.peers).await? {
        tokio::spawn(close_each(listener));
    }
    let listeners = bind(&options.clients).await?;
    let (text, data) = match &options.data_dir {
        Some(folder) => open(folder, options.is_synced)?,
        None => (None, None),
    };
    let service = Arc::new(EtcdService::new(text, data));
    // Dropped, and so cancelled, at the end.
    let accepting = CancellationToken::new();
    let _accepting = accepting.clone().drop_guard();
    for listener in listeners {
        let url = listener
            .local_addr()
            .map(|address| format!("http://{address}"));
        tokio::spawn(accept(listener, Arc::clone(&service), accepting.clone()));
        if let Ok(url) = url {
            say(std::io::stderr(), &format!("etcd: listens on {url}"));
        }
    }
    stop.await;
    // If both programs are stopped at once, the kube-apiserver saves once more.
    let _ = tokio::time::timeout(LAST_SAVE, service.freed()).await;
    Ok(())
}

/// Closes each connection at once, so that no client waits for an answer.
async fn close_each(listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        drop(socket);
    }
}

async fn bind(urls: &[ListenUrl]) -> Result<Vec<TcpListener>, Problem> {
    let mut listeners = Vec::new();
    for url in urls {
        let listener = TcpListener::bind(&url.address).await;
        listeners.push(listener.map_err(|source| Problem::Listen {
            flag: url.flag,
            url: url.url.clone(),
            source,
        })?);
    }
    Ok(listeners)
}

fn open(folder: &Path, is_synced: bool) -> Result<(Option<Bytes>, Option<DataDir>), Problem> {
    if folder.join(MEMBER).exists() {
        let path = folder.to_owned();
        return Err(Problem::RealEtcd { path });
    }
    let (data, saved) = DataDir::open(folder)?;
    let data = if is_synced { data } else { data.without_sync() };
    let text = saved.map(|snapshot| {
        let mut text = Vec::new();
        let written = snapshot.write(&mut text);
        written.map(|()| Bytes::from(text))
    });
    let text = text.transpose();
    let text = text.map_err(|error| FlagFile::new("--data-dir", folder).problem(error))?;
    Ok((text, Some(data)))
}
