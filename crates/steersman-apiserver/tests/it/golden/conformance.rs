//! `cargo xtask conformance`: every conversation, against the embedded server and a real one, with
//! what differs; and a proof that the way over HTTPS is as good as the one in process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_testenv::{Backend, TestEnv};

use super::case::Case;
use super::https::Remote;
use super::replay::{Mismatch, replay};
use super::{cases_in, exceptions, folder, pending, report, server};

/// Set by `cargo xtask conformance`, which documents them.
const RUN: &str = "STEERSMAN_CONFORMANCE";
const KUBECONFIG: &str = "STEERSMAN_CONFORMANCE_KUBECONFIG";
const FILTER: &str = "STEERSMAN_CONFORMANCE_FILTER";
const CASES: &str = "STEERSMAN_CONFORMANCE_CASES";

/// How many conversations are had with embedded servers at a time: most of them wait.
const AT_A_TIME: usize = 16;

/// Every conversation in a folder, by its path.
fn all(folder: &Path, filter: &str) -> BTreeMap<String, Case> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let topic = path.file_name().unwrap().to_str().unwrap();
            all.extend(cases_in(folder, topic));
        }
    }
    all.retain(|path, _| path.starts_with(filter));
    all
}

/// Has a conversation with a new embedded server over its own socket, as its administrator.
async fn over_https(case: &Case, ignored: &[String]) -> Vec<Mismatch> {
    let server = server();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let config = configuration(Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap()).await;
    let remote = Remote::new(config, Some(server), 0);
    replay(&remote, case, ignored).await
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
    wrong: usize,
}

impl Summary {
    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn add(&mut self, path: &str, case: &Case, mismatches: &[Mismatch], pending: Option<&String>) {
        let topic = path.split('/').next().unwrap_or_default();
        let (passed, all) = self.topics.entry(topic.to_owned()).or_default();
        *all += 1;
        *passed += usize::from(mismatches.is_empty());
        if !mismatches.is_empty() {
            self.wrong += usize::from(pending.is_none());
            println!("{}", report(path, case, mismatches));
            if let Some(reason) = pending {
                println!("  known: {reason}\n");
            }
        }
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn print(&self, server: &str) {
        println!("{server}:");
        for (topic, (passed, all)) in &self.topics {
            println!("  {topic}: {passed} of {all} as recorded");
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
    assert!(!all.is_empty(), "no case begins so");
    let summary = embedded(&all);
    summary.print("the embedded server");
    let wrong = summary.wrong + other(variable(KUBECONFIG), &all);
    assert_eq!(wrong, 0, "so many cases differ");
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

#[tokio::test]
async fn over_https_conversations_are_as_in_process() {
    let (exceptions, pending) = (exceptions(), pending());
    let mut cases = BTreeMap::new();
    for topic in ["verbs", "watches", "apply"] {
        cases.extend(cases_in(&folder(), topic));
    }
    // What the server ends by its own clock, a busy machine may be too late for.
    let timed = |case: &Case| format!("{case:?}").contains("timeoutSeconds");
    cases.retain(|path, case| !pending.contains_key(path) && !timed(case));
    let mut replays = futures::stream::iter(&cases)
        .map(async |(path, case)| {
            let ignored = exceptions.get(path).map_or(&[][..], Vec::as_slice);
            let mismatches = over_https(case, ignored).await;
            (!mismatches.is_empty()).then(|| report(path, case, &mismatches))
        })
        .buffered(AT_A_TIME);
    let mut wrong = Vec::new();
    while let Some(differs) = replays.next().await {
        wrong.extend(differs);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}
