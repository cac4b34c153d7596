//! `cargo xtask conformance`: replays every conversation against the embedded server and a real one
//! and reports differences; and a test that replays over HTTPS give the same results as in process.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{self, Verb};
use steersman_testenv::{Backend, TestEnv};

use super::case::Case;
use super::https::{Embedded, Remote};
use super::ledger::{self, Ledger};
use super::replay::{Mismatch, replay};
use super::transport::{Answer, Ask, NAMESPACE, Transport};
use super::{builder, case_at, cases_in, exceptions, folder, pending, report, server};

/// Set by `cargo xtask conformance`, which documents the values.
const RUN: &str = "STEERSMAN_CONFORMANCE";
const KUBECONFIG: &str = "STEERSMAN_CONFORMANCE_KUBECONFIG";
const FILTER: &str = "STEERSMAN_CONFORMANCE_FILTER";
const CASES: &str = "STEERSMAN_CONFORMANCE_CASES";

/// Number of conversations with embedded servers that run concurrently: most of the time they wait.
const AT_A_TIME: usize = 16;

/// Reads every conversation in a folder and its subfolders, by path without extension. Fails with
/// the first that does not parse. Other files are ignored.
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

/// Replays a conversation against a new embedded server over HTTPS, as its administrator.
async fn over_https(case: &Case, ignored: &[String]) -> Vec<Mismatch> {
    let embedded = Embedded::new(builder());
    let serving = embedded.server().serve("127.0.0.1:0").await.unwrap();
    let config = configuration(Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap()).await;
    replay(&Remote::new(config, Some(embedded), 0), case, ignored).await
}

/// Replays conversations against embedded servers over HTTPS.
async fn all_over_https(all: &BTreeMap<String, Case>) -> Summary {
    let (exceptions, pending) = (exceptions(), pending());
    let mut replays = futures::stream::iter(all)
        .map(async |(path, case)| {
            let ignored = exceptions.get(path).map_or(&[][..], Vec::as_slice);
            (path, case, over_https(case, ignored).await)
        })
        .buffered(AT_A_TIME);
    let mut summary = Summary::of("the embedded server over HTTPS");
    while let Some((path, case, mismatches)) = replays.next().await {
        summary.add(path, case, &mismatches, pending.get(path));
    }
    summary.end();
    summary
}

pub(super) async fn configuration(kubeconfig: Kubeconfig) -> Config {
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

/// Prints the differences, and after the last case of each topic the number of cases as recorded.
#[derive(Default)]
struct Summary {
    /// The current topic, the number of its cases as recorded, and the number of its cases.
    topic: Option<(String, usize, usize)>,
    /// The number of cases as recorded and of all cases, for finished topics.
    total: (usize, usize),
    /// The paths of the cases that differ.
    differ: Vec<String>,
    /// The number of those that are not known to differ.
    wrong: usize,
}

impl Summary {
    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn of(server: &str) -> Self {
        println!("{server}:");
        Self::default()
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn add(&mut self, path: &str, case: &Case, mismatches: &[Mismatch], pending: Option<&String>) {
        let topic = path.rsplit_once('/').map_or(".", |(topic, _)| topic);
        if self.topic.as_ref().is_some_and(|(name, ..)| name != topic) {
            self.end_topic();
        }
        let (_, passed, all) = self.topic.get_or_insert_with(|| (topic.to_owned(), 0, 0));
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
    fn end_topic(&mut self) {
        if let Some((topic, passed, all)) = self.topic.take() {
            println!("  {topic:16}  {passed:4} of {all:4} as recorded");
            self.total = (self.total.0 + passed, self.total.1 + all);
        }
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn end(&mut self) {
        self.end_topic();
        println!("  {:16}  {:4} of {:4}", "all", self.total.0, self.total.1);
        for path in &self.differ {
            println!("  differs: {path}");
        }
    }
}

/// Replays in process, on a paused clock.
fn embedded(all: &BTreeMap<String, Case>) -> Summary {
    let (exceptions, pending) = (exceptions(), pending());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut summary = Summary::of("the embedded server");
    for (path, case) in all {
        let ignored = exceptions.get(path).map_or(&[][..], Vec::as_slice);
        let mismatches = runtime.block_on(async { replay(&server(), case, ignored).await });
        summary.add(path, case, &mismatches, pending.get(path));
    }
    summary.end();
    summary
}

/// The result of replays against a server that outlives them.
struct Outcome {
    summary: Summary,
    /// The reason why the replays stopped early.
    stopped: Option<String>,
    /// The paths of objects that still exist, or may exist.
    left: Vec<String>,
}

/// Replays the conversations one after the other, because they share the server, and removes the
/// objects they created, also after an `interrupt`. A second interrupt ends the removal.
async fn shared(
    server: &impl Transport,
    name: &str,
    all: &BTreeMap<String, Case>,
    interrupt: impl AsyncFn(),
) -> Outcome {
    let mut summary = Summary::of(name);
    let mut stopped = None;
    {
        let mut interrupted = pin!(interrupt());
        for (path, case) in all {
            // A panic in one replay must not prevent the removal of objects.
            let replay = AssertUnwindSafe(replay(server, case, &[])).catch_unwind();
            let mismatches = tokio::select! {
                biased;
                () = &mut interrupted => {
                    stopped = Some(format!("interrupted in {path}"));
                    break;
                }
                mismatches = replay => mismatches,
            };
            match mismatches {
                Ok(mismatches) => summary.add(path, case, &mismatches, None),
                Err(_) => {
                    stopped = Some(format!("panicked in {path}"));
                    break;
                }
            }
        }
    }
    summary.end();
    let Some(ledger) = server.ledger() else {
        return Outcome {
            summary,
            stopped,
            left: Vec::new(),
        };
    };
    say("  removing what the cases created");
    let cleaning = async {
        ledger::clean(server, ledger).await;
        ledger::left(server, ledger).await
    };
    let left = tokio::select! {
        left = cleaning => left,
        () = interrupt() => ledger.paths(),
    };
    for path in &left {
        say(&format!("  left: {path}"));
    }
    Outcome {
        summary,
        stopped,
        left,
    }
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
pub(super) fn say(text: &str) {
    println!("{text}");
}

/// Waits for ctrl-c or SIGTERM.
async fn interrupt() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let [mut interrupt, mut terminate] = [SignalKind::interrupt(), SignalKind::terminate()]
            .map(|kind| signal(kind).expect("the signal can be handled"));
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

/// Returns a number that distinguishes this run's namespaces from those of other runs on the
/// server.
pub(super) fn run() -> u32 {
    let nanoseconds = Timestamp::now().subsec_nanosecond().unsigned_abs();
    nanoseconds ^ std::process::id().rotate_left(16)
}

#[test]
fn conformance() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if variable(RUN).is_none() {
        // Only `cargo xtask conformance` sets the variable; without it the tests of each topic still
        // replay the conversations.
        return;
    }
    let folder = variable(CASES).map_or_else(folder, PathBuf::from);
    let all = all(&folder, &variable(FILTER).unwrap_or_default());
    let all = all.unwrap_or_else(|problem| panic!("{problem}"));
    let wrong =
        embedded(&all).wrong + embedded_over_https(&all).wrong + other(variable(KUBECONFIG), &all);
    assert_eq!(wrong, 0, "the number of cases that differ");
}

#[tokio::main(flavor = "current_thread")]
async fn embedded_over_https(all: &BTreeMap<String, Case>) -> Summary {
    all_over_https(all).await
}

/// Returns the number of cases that differ on the server of the kubeconfig or of the binaries, if
/// there is one.
#[tokio::main(flavor = "current_thread")]
async fn other(kubeconfig: Option<String>, all: &BTreeMap<String, Case>) -> usize {
    // Keeps the environment's server alive.
    let env;
    let config = if let Some(path) = kubeconfig {
        configuration(Kubeconfig::read_from(path).unwrap()).await
    } else if let backend @ Backend::Binaries(_) = Backend::from_env() {
        env = TestEnv::builder().backend(backend).start().await.unwrap();
        env.config().unwrap().clone()
    } else {
        return 0;
    };
    let name = format!("the server at {}", config.cluster_url);
    let remote = Remote::new(config, None, run());
    let outcome = shared(&remote, &name, all, interrupt).await;
    if let Some(why) = outcome.stopped {
        panic!("{why}");
    }
    outcome.summary.wrong
}

/// Replays over HTTPS give the same results as in process. Replaying all topics, as `cargo xtask
/// conformance` does, takes too long here.
#[tokio::test]
async fn conversations_give_the_same_answers_over_https() {
    let mut cases = BTreeMap::new();
    for topic in ["verbs", "watches", "apply"] {
        cases.extend(cases_in(&folder(), topic));
    }
    let summary = all_over_https(&cases).await;
    assert_eq!(summary.wrong, 0, "the number of cases that differ");
}

/// An embedded server in process that all conversations share, like a real one.
pub(super) struct Shared {
    server: ApiServer,
    ledger: Ledger,
    run: u32,
    conversations: AtomicU32,
}

impl Shared {
    pub(super) fn new(server: &ApiServer, run: u32) -> Self {
        Self {
            server: server.clone(),
            ledger: Ledger::default(),
            run,
            conversations: AtomicU32::new(0),
        }
    }
}

impl Transport for Shared {
    async fn send(&self, ask: Ask<'_>) -> Answer {
        self.server.send(ask).await
    }

    async fn age(&self) {
        self.server.age().await;
    }

    fn has_own_clock(&self) -> bool {
        true
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn namespace(&self) -> String {
        let number = self.conversations.fetch_add(1, Ordering::Relaxed);
        format!("{NAMESPACE}-{:x}-{number}", self.run)
    }
}

#[tokio::test(start_paused = true)]
async fn cases_can_be_replayed_twice_on_one_server_and_leave_no_objects() {
    let server = server();
    let cases = all(&folder(), "").unwrap();
    for run in 1..=2 {
        let conversations = Shared::new(&server, run);
        let outcome = shared(&conversations, "one server", &cases, std::future::pending).await;
        assert_eq!(outcome.summary.differ, [""; 0], "run {run}");
        assert_eq!(outcome.left, [""; 0], "run {run}");
    }
    assert_eq!(server.list("namespaces", "").len(), 4);
    assert_eq!(
        server.list("customresourcedefinitions", ""),
        [Value::Null; 0]
    );
}

/// Returns a case that creates a cluster-scoped object, an object with a finalizer and an object
/// with a generated name, and then waits.
fn untidy() -> BTreeMap<String, Case> {
    let created = json!({"status": 201});
    let config_map = json!({"generateName": "c-", "finalizers": ["golden.example.com/hold"]});
    let case = json!({"about": "A case that ends before it is tidy.", "steps": [
        {"do": "POST /api/v1/namespaces/{{ns}}/configmaps", "body": {"metadata": config_map}, "got": created},
        {"do": "POST /apis/rbac.authorization.k8s.io/v1/clusterroles",
            "body": {"metadata": {"name": "golden-untidy"}}, "got": created},
        {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "default"}}, "got": {"status": 409}},
        {"sleep": 60.0},
    ]});
    let case = serde_json::from_value(case).unwrap();
    BTreeMap::from([("untidy".to_owned(), case)])
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_replay_leaves_no_objects() {
    let server = server();
    let conversations = Shared::new(&server, 1);
    let seen = AtomicU32::new(0);
    // The first interrupt comes while the case waits; there is no second one.
    let interrupt = async || match seen.fetch_add(1, Ordering::Relaxed) {
        0 => tokio::time::sleep(Duration::from_secs(30)).await,
        _ => std::future::pending().await,
    };
    let outcome = shared(&conversations, "one server", &untidy(), interrupt).await;
    assert_eq!(outcome.stopped.unwrap(), "interrupted in untidy");
    assert_eq!(outcome.left, [""; 0]);
    assert_eq!(server.list("namespaces", "").len(), 4);
    assert_eq!(server.list("configmaps", ""), [Value::Null; 0]);
    let role = server.get("clusterroles", "", "golden-untidy");
    assert!(role.is_none(), "{role:?}");
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_removed_are_named() {
    let server = server();
    let conversations = Shared::new(&server, 1);
    let _fault = server
        .faults()
        .answer(Verb::Delete, "clusterroles", faults::Answer::code(500));
    let mut case = untidy();
    case.get_mut("untidy").unwrap().steps.pop();
    let outcome = shared(&conversations, "one server", &case, std::future::pending).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/golden-untidy";
    assert_eq!(outcome.left, [role]);
}
