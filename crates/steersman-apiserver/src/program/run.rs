//! Driver: the program from parsed flags to the last save.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steersman_apiserver::faults::{RequestRecord, Verb};
use steersman_apiserver::{ApiServer, Serving};
use steersman_player::{Played, Speed};
use steersman_registry::auth::Authorization;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::data::DataDir;
use super::flags::{EnabledApi, Flags, PlayedPart};
use super::problem::{Problem, chain};
use super::seed;

/// Interval at which the request log is printed.
const LOOK: Duration = Duration::from_millis(100);
/// Capacity of the request log, which this program only prints once.
const REMEMBERED: usize = 10_000;

/// Serves until a signal asks to stop.
pub(crate) async fn run(flags: Flags) -> Result<(), Problem> {
    let mut builder = ApiServer::builder().log_capacity(REMEMBERED);
    if flags.rbac {
        builder = builder.authorization(Authorization::Rbac);
    }
    if let Some(part) = flags.play {
        builder = builder.play(match part {
            PlayedPart::Controllers => Played::default(),
            PlayedPart::Workloads => Played::everything().speed(Speed::brisk()),
            PlayedPart::Nothing => Played::nothing(),
        });
    }
    for EnabledApi::StorageMigrations(on) in &flags.runtime_config {
        builder = builder.storage_migrations(*on);
    }
    if let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) {
        builder = builder.certificate(read(certificate)?, read(key)?);
    }
    if let Some(path) = &flags.client_ca_file {
        builder = builder.client_authorities(read(path)?);
    }
    let mut data = None;
    if let Some(folder) = &flags.data_dir {
        let (opened, saved) = DataDir::open(folder)?;
        if let Some(snapshot) = saved {
            builder = builder.restore(snapshot);
        }
        data = Some(Arc::new(opened));
    }
    let server = builder.build();
    seed::plant(&server, &flags.crds, &flags.manifests)?;
    if let Some(path) = &flags.faults {
        seed::faults(&server, path, &read(path)?)?;
    }
    let address = SocketAddr::new(flags.bind, flags.port);
    let serving = if flags.insecure_let_others_in {
        server.serve_others(address).await?
    } else {
        server.serve(address).await?
    };
    let (kubeconfig, temporary) = kubeconfig_path(&flags, &serving);
    serving.write_kubeconfig(&kubeconfig)?;
    let outcome = serve(&flags, &server, &serving, data.as_ref(), &kubeconfig).await;
    // Even after an error all answered writes are saved; before that, the listener stops.
    serving.stop().await;
    if let Some(data) = data {
        save(&server, data).await?;
    }
    if temporary {
        // The kubeconfig is useless now. A missing file is no error.
        let _ = std::fs::remove_file(&kubeconfig);
    }
    outcome
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|source| Problem::File {
        path: path.to_owned(),
        source,
    })
}

/// Returns the path of the kubeconfig, and whether to delete the file at the end.
fn kubeconfig_path(flags: &Flags, serving: &Serving) -> (PathBuf, bool) {
    match (&flags.kubeconfig, &flags.data_dir) {
        (Some(path), _) => (path.clone(), false),
        (None, Some(folder)) => (folder.join("kubeconfig"), false),
        (None, None) => {
            let name = format!("steersman-apiserver-{}.kubeconfig", serving.addr().port());
            (std::env::temp_dir().join(name), true)
        }
    }
}

async fn serve(
    flags: &Flags,
    server: &ApiServer,
    serving: &Serving,
    data: Option<&Arc<DataDir>>,
    kubeconfig: &Path,
) -> Result<(), Problem> {
    let mut stop = std::pin::pin!(stopped()?);
    say(std::io::stdout(), &greeting(serving, kubeconfig));
    let (mut looks, mut saves) = (
        every(LOOK),
        every(Duration::from_secs(flags.save_every.max(1))),
    );
    let mut saved = None;
    let mut log = Log::default();
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = looks.tick(), if flags.log => {
                for line in log.lines(server) {
                    say(std::io::stderr(), &line);
                }
            }
            _ = saves.tick(), if data.is_some() => {
                let revision = server.revision();
                if let Some(data) = data.filter(|_| saved != Some(revision)) {
                    match save(server, Arc::clone(data)).await {
                        Ok(()) => saved = Some(revision),
                        // The disk may have space again by the next save; stopping tries once more.
                        Err(problem) => {
                            let text = format!("steersman-apiserver: not saved: {}", chain(&problem));
                            say(std::io::stderr(), &text);
                        }
                    }
                }
            }
        }
    }
}

/// Prints a line. A closed pipe is no reason to end.
fn say(mut to: impl Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Saves on a blocking thread.
async fn save(server: &ApiServer, data: Arc<DataDir>) -> Result<(), Problem> {
    let snapshot = server.snapshot();
    let saving = tokio::task::spawn_blocking(move || data.save(&snapshot));
    match saving.await {
        Ok(outcome) => outcome,
        Err(error) => Err(Problem::Signals {
            source: std::io::Error::other(error),
        }),
    }
}

fn greeting(serving: &Serving, kubeconfig: &Path) -> String {
    format!(
        "steersman-apiserver listens on {}\n\
         \n  export KUBECONFIG={}\n  kubectl get namespaces\n\
         \nctrl-c stops it.",
        serving.url(),
        kubeconfig.display()
    )
}

/// Returns a future that ends with ctrl-c or SIGTERM. Both signals are caught from the return of
/// this function on.
#[cfg(unix)]
fn stopped() -> Result<impl Future<Output = ()>, Problem> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|source| Problem::Signals { source });
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on other platforms")]
fn stopped() -> Result<impl Future<Output = ()>, Problem> {
    Ok(async {
        // Without a handler for ctrl-c there is no way to ask the program to stop.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// The position up to which the request log was printed.
#[derive(Debug, Default)]
struct Log {
    next: u64,
    open: Vec<u64>,
}

impl Log {
    /// Returns lines for the requests that ended since the last call, and for watches when they
    /// open.
    fn lines(&mut self, server: &ApiServer) -> Vec<String> {
        let news = server
            .requests()
            .matching(|one| one.sequence >= self.next || self.open.contains(&one.sequence));
        self.next = news
            .last()
            .map_or(self.next, |one| self.next.max(one.sequence + 1));
        let (ended, open): (Vec<RequestRecord>, Vec<RequestRecord>) = news
            .into_iter()
            .partition(|one| one.status.is_some() || one.does(Verb::Watch));
        self.open = open.iter().map(|one| one.sequence).collect();
        ended.iter().map(ToString::to_string).collect()
    }
}
