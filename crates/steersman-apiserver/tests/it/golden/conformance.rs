//! `cargo xtask conformance`: every conversation, against the embedded server and a real one, with
//! what differs; and a proof that the way over HTTPS is as good as the one in process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_testenv::{Backend, TestEnv};

use super::case::Case;
use super::https::{Embedded, Remote};
use super::replay::{Mismatch, replay};
use super::{builder, case_at, cases_in, exceptions, folder, pending, report, server};

/// Set by `cargo xtask conformance`, which documents them.
const RUN: &str = "STEERSMAN_CONFORMANCE";
const KUBECONFIG: &str = "STEERSMAN_CONFORMANCE_KUBECONFIG";
const FILTER: &str = "STEERSMAN_CONFORMANCE_FILTER";
const CASES: &str = "STEERSMAN_CONFORMANCE_CASES";

/// How many conversations are had with embedded servers at a time: most of them wait.
const AT_A_TIME: usize = 16;

/// Every conversation in a folder and those below it, by its path without the extension; the first
/// problem where one cannot be read. Other files may lie beside them.
fn all(folder: &Path, filter: &str) -> Result<BTreeMap<String, Case>, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next);
        for entry in entries.map_err(|error| format!("{}: {error}", next.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let below = path.strip_prefix(folder).unwrap().with_extension("");
                let name = below.to_string_lossy().into_owned();
                if name.starts_with(filter) {
                    all.insert(name, case_at(&path)?);
                }
            }
        }
    }
    if all.is_empty() {
        let folder = folder.display();
        return Err(format!(
            "no case in {folder} has a path that begins with \"{filter}\""
        ));
    }
    Ok(all)
}

/// Has a conversation with a new embedded server over its own socket, as its administrator.
async fn over_https(case: &Case, ignored: &[String]) -> Vec<Mismatch> {
    let embedded = Embedded::new(builder());
    let serving = embedded.server().serve("127.0.0.1:0").await.unwrap();
    let config = configuration(Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap()).await;
    replay(&Remote::new(config, Some(embedded), 0), case, ignored).await
}

/// Has conversations with embedded servers over their sockets.
async fn all_over_https(all: &BTreeMap<String, Case>) -> Summary {
    let (exceptions, pending) = (exceptions(), pending());
    let mut replays = futures::stream::iter(all)
        .map(async |(path, case)| {
            let ignored = exceptions.get(path).map_or(&[][..], Vec::as_slice);
            (path, case, over_https(case, ignored).await)
        })
        .buffered(AT_A_TIME);
    let mut summary = Summary::default();
    while let Some((path, case, mismatches)) = replays.next().await {
        summary.add(path, case, &mismatches, pending.get(path));
    }
    summary
}

async fn configuration(kubeconfig: Kubeconfig) -> Config {
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

/// What differs, printed, and how many of each topic are as recorded.
#[derive(Default)]
struct Summary {
    topics: BTreeMap<String, (usize, usize)>,
    /// Those that are not, by their paths.
    differ: Vec<String>,
    /// How many of them are no known ones.
    wrong: usize,
}

impl Summary {
    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn add(&mut self, path: &str, case: &Case, mismatches: &[Mismatch], pending: Option<&String>) {
        let topic = path.rsplit_once('/').map_or(".", |(topic, _)| topic);
        let (passed, all) = self.topics.entry(topic.to_owned()).or_default();
        *all += 1;
        *passed += usize::from(mismatches.is_empty());
        if !mismatches.is_empty() {
            let known = if pending.is_some() { " (known)" } else { "" };
            self.differ.push(format!("{path}{known}"));
            self.wrong += usize::from(pending.is_none());
            println!("{}", report(path, case, mismatches));
            if let Some(reason) = pending {
                println!("  known: {reason}\n");
            }
        }
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn print(&self, server: &str) {
        let width = self
            .topics
            .keys()
            .map(String::len)
            .max()
            .unwrap_or_default();
        let mut total = (0, 0);
        println!("{server}:");
        for (topic, (passed, all)) in &self.topics {
            println!("  {topic:width$}  {passed:4} of {all:4} as recorded");
            total = (total.0 + passed, total.1 + all);
        }
        println!("  {:width$}  {:4} of {:4}", "all", total.0, total.1);
        for path in &self.differ {
            println!("  differs: {path}");
        }
    }
}

/// In process, on a clock that does not wait.
fn embedded(all: &BTreeMap<String, Case>) -> Summary {
    let (exceptions, pending) = (exceptions(), pending());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut summary = Summary::default();
    for (path, case) in all {
        let ignored = exceptions.get(path).map_or(&[][..], Vec::as_slice);
        let mismatches = runtime.block_on(async { replay(&server(), case, ignored).await });
        summary.add(path, case, &mismatches, pending.get(path));
    }
    summary
}

/// One after the other, because they share the server.
async fn real(config: Config, all: &BTreeMap<String, Case>) -> Summary {
    let remote = Remote::new(config, None, std::process::id());
    let mut summary = Summary::default();
    for (path, case) in all {
        let mismatches = replay(&remote, case, &[]).await;
        summary.add(path, case, &mismatches, None);
    }
    summary
}

#[test]
fn conformance() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if variable(RUN).is_none() {
        // Only `cargo xtask conformance` asks; the topics above are replayed in any case.
        return;
    }
    let folder = variable(CASES).map_or_else(folder, PathBuf::from);
    let all = all(&folder, &variable(FILTER).unwrap_or_default());
    let all = all.unwrap_or_else(|problem| panic!("{problem}"));
    let summary = embedded(&all);
    summary.print("the embedded server");
    let https = embedded_over_https(&all);
    https.print("the embedded server over HTTPS");
    let wrong = summary.wrong + https.wrong + other(variable(KUBECONFIG), &all);
    assert_eq!(wrong, 0, "so many cases differ");
}

#[tokio::main(flavor = "current_thread")]
async fn embedded_over_https(all: &BTreeMap<String, Case>) -> Summary {
    all_over_https(all).await
}

/// How many cases differ on the server of the kubeconfig or of the binaries, if there is one.
#[tokio::main(flavor = "current_thread")]
async fn other(kubeconfig: Option<String>, all: &BTreeMap<String, Case>) -> usize {
    // Lives as long as its server is asked.
    let env;
    let config = if let Some(path) = kubeconfig {
        configuration(Kubeconfig::read_from(path).unwrap()).await
    } else if let backend @ Backend::Binaries(_) = Backend::from_env() {
        env = TestEnv::builder().backend(backend).start().await.unwrap();
        env.config().unwrap().clone()
    } else {
        return 0;
    };
    let server = format!("the server at {}", config.cluster_url);
    let summary = real(config, all).await;
    summary.print(&server);
    summary.wrong
}

/// The way over HTTPS is as good as the one in process. These topics stand for all, which `cargo xtask
/// conformance` tries: they take a while.
#[tokio::test]
async fn over_https_conversations_are_as_in_process() {
    let mut cases = BTreeMap::new();
    for topic in ["verbs", "watches", "apply"] {
        cases.extend(cases_in(&folder(), topic));
    }
    let summary = all_over_https(&cases).await;
    summary.print("the embedded server over HTTPS");
    assert_eq!(summary.wrong, 0, "so many cases differ");
}
