//! Machine: the options of etcd.

use std::path::PathBuf;

use http::Uri;

use crate::program::command_line::{CommandLine, FlagProblem, FlagTable};
use crate::program::durability::Durability;

/// The client URL on which etcd listens if no flag names one.
const CLIENT_URL: &str = "http://localhost:2379";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct EtcdOptions {
    /// The folder of the snapshot; `None` keeps the snapshot in memory.
    pub(super) data_dir: Option<PathBuf>,
    pub(super) durability: Durability,
    pub(super) is_synced: bool,
    pub(super) clients: Vec<ListenUrl>,
    /// The URLs of peers. Their ports are only occupied, and nothing is served there.
    pub(super) peers: Vec<ListenUrl>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListenUrl {
    pub(super) flag: &'static str,
    pub(super) url: String,
    pub(super) address: String,
}

pub(crate) fn flags() -> FlagTable {
    FlagTable::read(include_str!("flags.txt"))
}

impl EtcdOptions {
    pub(super) fn of(line: &CommandLine) -> Result<Self, FlagProblem> {
        let mut clients = urls(line, "listen-client-urls")?;
        if clients.is_empty() {
            clients.push(listen("listen-client-urls", CLIENT_URL)?);
        }
        let durability = line.last("durability").unwrap_or("kernel");
        let durability = Durability::named(durability).ok_or_else(|| {
            let why = "it is none of kernel, fsync and none";
            FlagProblem::invalid("durability", durability, why)
        })?;
        Ok(Self {
            data_dir: line.path("data-dir"),
            durability,
            is_synced: durability == Durability::Fsync || !line.asks("unsafe-no-fsync"),
            clients,
            peers: urls(line, "listen-peer-urls")?,
        })
    }
}

fn urls(line: &CommandLine, flag: &'static str) -> Result<Vec<ListenUrl>, FlagProblem> {
    let urls = line.last_entries(flag);
    urls.map(|url| listen(flag, url)).collect()
}

fn listen(flag: &'static str, url: &str) -> Result<ListenUrl, FlagProblem> {
    Ok(ListenUrl {
        flag,
        url: url.to_owned(),
        address: address_of(flag, url)?,
    })
}

/// Returns the host and port of an `http://` URL in a flag.
pub(crate) fn address_of(flag: &'static str, url: &str) -> Result<String, FlagProblem> {
    let wrong = |why: &str| FlagProblem::invalid(flag, url, why);
    let parsed: Uri = url
        .parse()
        .map_err(|_| wrong("it is no URL such as http://127.0.0.1:2379"))?;
    let why = match (parsed.scheme_str(), parsed.host(), parsed.port_u16()) {
        (Some("http"), Some(host), Some(port)) => return Ok(format!("{host}:{port}")),
        (Some("http"), ..) => "it has no port; use one such as http://127.0.0.1:2379",
        (Some(_), ..) => {
            "the programs connect without TLS; use an http:// URL such as http://127.0.0.1:2379"
        }
        (None, ..) => "it has no scheme; use http://, as in http://127.0.0.1:2379",
    };
    Err(wrong(why))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn options(arguments: &[&str]) -> Result<EtcdOptions, FlagProblem> {
        let line = flags().parse(arguments.iter().map(OsString::from));
        EtcdOptions::of(&line.unwrap())
    }

    #[test]
    fn each_line_of_the_table_is_a_flag() {
        let lines = include_str!("flags.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#')).count();
        assert_eq!(flags().rows().len(), rows);
    }

    #[test]
    fn the_flags_of_test_environments_are_understood() {
        let envtest = options(&[
            "--advertise-client-urls=http://127.0.0.1:1",
            "--data-dir=/tmp/x",
            "--listen-client-urls=http://127.0.0.1:1",
            "--listen-peer-urls=http://localhost:2",
            "--unsafe-no-fsync=true",
        ]);
        let envtest = envtest.unwrap();
        assert_eq!(envtest.clients[0].address, "127.0.0.1:1");
        assert_eq!(envtest.peers[0].address, "localhost:2");
        assert!(!envtest.is_synced && envtest.durability == Durability::Kernel);
        let fsync = options(&["--durability=fsync", "--unsafe-no-fsync=true"]);
        assert!(fsync.unwrap().is_synced);
        let problem = options(&["--durability", "disk"]).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "--durability=disk is refused: it is none of kernel, fsync and none"
        );

        let java = options(&[
            "-data-dir",
            "/tmp/x",
            "-wal-dir",
            "/tmp/y",
            "--listen-client-urls",
            "http://0.0.0.0:1,http://[::1]:1",
            "--initial-cluster",
            "default=http://localhost:2",
        ]);
        let java = java.unwrap();
        assert_eq!(java.data_dir, Some(PathBuf::from("/tmp/x")));
        assert_eq!(java.clients[1].address, "[::1]:1");
        assert!(java.is_synced && java.peers.is_empty());
        assert_eq!(options(&[]).unwrap().clients[0].address, "localhost:2379");
    }

    #[test]
    fn a_url_that_nothing_can_listen_on_is_refused() {
        for (url, why) in [
            ("https://127.0.0.1:1", "without TLS"),
            ("unix:///tmp/x", "it is no URL"),
            ("127.0.0.1", "it has no scheme"),
            ("http://127.0.0.1", "it has no port"),
            ("http://127.0.0.1:99999", "it has no port"),
            ("http://[", "it is no URL"),
        ] {
            let problem = options(&["--listen-client-urls", url]).unwrap_err();
            let text = problem.to_string();
            let flag = format!("--listen-client-urls={url} is refused: ");
            assert!(text.starts_with(&flag) && text.contains(why), "{text}");
        }
    }
}
