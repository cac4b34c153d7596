//! Driver: the program from parsed flags to the last save.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steersman_apiserver::{ApiServer, Error, Serving, UiServing, WriteAheadLog};
use steersman_auth::Authorization;
use tokio::net::TcpListener;

use super::credentials::Credentials;
use super::data::{DataDir, SavedState};
use super::durability::Durability;
use super::flag_file::FlagFile;
use super::flags::ServerFlags;
use super::problem::{Outcome, ProgramProblem, chain};
use super::process::{every, report, say, stopped};
use super::request_news::RequestNews;
use super::{log_keeper, seed};

const NAME: &str = "steersman-apiserver";
const LOOK: Duration = Duration::from_millis(100);
/// Capacity of the request log, in requests. This program prints each request once and does not need it again.
const REMEMBERED: usize = 10_000;

pub(crate) async fn run(flags: ServerFlags) -> Outcome {
    // SRV-STOP-4: listens before the state is read, so that clients wait in the meantime and are not refused.
    let listener = bind(&flags).await?;
    let mut builder = ApiServer::builder()
        .log_capacity(REMEMBERED)
        .remove_at_once(false);
    if flags.rbac {
        builder = builder.authorization(Authorization::Rbac);
    }
    if let Some(part) = flags.play {
        builder = builder.play(part.played());
    }
    if let Some(on) = flags.runtime_config.last() {
        builder = builder.storage_migrations(*on);
    }
    if let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) {
        builder = builder.certificate(
            FlagFile::new("--tls-cert-file", certificate).certificates()?,
            FlagFile::new("--tls-private-key-file", key).text()?,
        );
    }
    if let Some(path) = &flags.client_ca_file {
        let file = FlagFile::new("--client-ca-file", path);
        builder = builder.client_authorities(file.certificates()?);
    }
    let mut kept = None;
    if let Some(folder) = &flags.data_dir {
        let (data, saved) = DataDir::open(folder)?;
        let credentials = Credentials::of(folder)?;
        builder = builder.authority_key(credentials.authority_key);
        builder = builder.admin_token(credentials.token);
        let (data, log) = (Arc::new(data), WriteAheadLog::new());
        if flags.durability != Durability::None {
            builder = builder.log_writes(&log);
        }
        if let Some(saved) = &saved {
            for message in saved.messages(folder) {
                report(NAME, message);
            }
            builder = builder.recover(saved.recovery.clone());
        }
        kept = Some((KeptState { data, log }, saved));
    }
    let server = builder.build();
    let page = flags
        .ui
        .map(|address| server.serve_ui(address))
        .transpose()?;
    let (kept, saved) = kept.unzip();
    if let Some(kept) = &kept {
        kept.begin(&server, saved.flatten().as_ref(), flags.durability)?;
    }
    seed::plant(&server, &flags.crds, &flags.manifests)?;
    if let Some(path) = &flags.faults {
        seed::faults(&server, "--faults", path)?;
    }
    if let Some(kept) = &kept {
        kept.settled().await?;
    }
    let serving = server.serve_listener(listener)?;
    let (kubeconfig, temporary) = kubeconfig_path(&flags, &serving);
    serving.write_kubeconfig(&kubeconfig)?;
    let greeting = greeting(&serving, page.as_ref(), &kubeconfig);
    let outcome = serve(&flags, &server, kept.as_ref(), &greeting).await;
    // The listener stops first, also after an error, so that the last save has all answered writes.
    serving.stop().await;
    if let Some(kept) = kept {
        match flags.durability {
            Durability::None => save(&server, kept.data).await?,
            Durability::Kernel | Durability::Fsync => kept.settled().await?,
        }
    }
    if temporary {
        // The server has ended, so its kubeconfig is useless. A missing file is no error.
        let _ = std::fs::remove_file(&kubeconfig);
    }
    outcome
}

async fn bind(flags: &ServerFlags) -> Outcome<TcpListener> {
    let address = SocketAddr::new(flags.bind, flags.port);
    if !flags.bind.is_loopback() && !flags.insecure_let_others_in {
        return Err(Error::NotLoopback { address }.into());
    }
    let listener = TcpListener::bind(address).await;
    let address = address.to_string();
    listener.map_err(|source| Error::Listen { address, source }.into())
}

/// Returns the path of the kubeconfig, and whether to delete the file at the end.
fn kubeconfig_path(flags: &ServerFlags, serving: &Serving) -> (PathBuf, bool) {
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
    flags: &ServerFlags,
    server: &ApiServer,
    kept: Option<&KeptState>,
    greeting: &str,
) -> Outcome {
    let mut stop = std::pin::pin!(stopped()?);
    say(std::io::stdout(), greeting);
    let mut looks = every(LOOK);
    let mut saves = every(Duration::from_secs(flags.save_every.max(1)));
    let mut saved = None;
    let mut log = RequestNews::default();
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = looks.tick(), if flags.log => {
                for record in log.next(server) {
                    say(std::io::stderr(), &record.to_string());
                }
            }
            _ = saves.tick(), if kept.is_some() => {
                let revision = server.revision();
                let is_due = |kept: &&KeptState| {
                    saved != Some(revision)
                        && (flags.durability == Durability::None || kept.data.is_save_due())
                };
                if let Some(kept) = kept.filter(is_due) {
                    let outcome = tokio::select! {
                        // Does not wait for the thread that saves: the log has all writes, and without a log the
                        // program saves once more before it ends.
                        () = &mut stop => return Ok(()),
                        outcome = save(server, Arc::clone(&kept.data)) => outcome,
                    };
                    match outcome {
                        Ok(()) => saved = Some(revision),
                        // The program continues, because the disk may have space again at the next save.
                        Err(problem) => {
                            report(NAME, format_args!("not saved: {}", chain(&problem)));
                        }
                    }
                }
            }
        }
    }
}

/// The data directory, and the write-ahead log with the writes that are not in the directory yet.
struct KeptState {
    data: Arc<DataDir>,
    log: WriteAheadLog,
}

impl KeptState {
    /// Starts to append the writes of a server to the log in the data directory. If the directory has no save yet,
    /// saves the state first, because a log only continues a saved state. Does nothing with [`Durability::None`].
    fn begin(
        &self,
        server: &ApiServer,
        saved: Option<&SavedState>,
        durability: Durability,
    ) -> Outcome {
        if durability == Durability::None {
            return Ok(());
        }
        if saved.is_none() {
            self.data.save(&server.snapshot())?;
        }
        let writer = self.data.log_writer(saved, durability)?;
        let started = log_keeper::start(NAME, self.log.clone(), writer, durability);
        started.map_err(|source| ProgramProblem::Runtime { source })
    }

    async fn settled(&self) -> Outcome {
        let settled = self.log.settled().await;
        settled.map_err(|why| ProgramProblem::Unwritten { why })
    }
}

async fn save(server: &ApiServer, data: Arc<DataDir>) -> Outcome {
    let snapshot = server.snapshot();
    let saving = tokio::task::spawn_blocking(move || data.save(&snapshot));
    match saving.await {
        Ok(outcome) => outcome,
        Err(error) => Err(ProgramProblem::Signals {
            source: std::io::Error::other(error),
        }),
    }
}

fn greeting(serving: &Serving, page: Option<&UiServing>, kubeconfig: &Path) -> String {
    let page = page.map(|page| format!("\nIts page is {}\n", page.url()));
    format!(
        "steersman-apiserver listens on {}\n{}\
         \n  export KUBECONFIG={}\n  kubectl get namespaces\n\
         \nctrl-c stops it.",
        serving.url(),
        page.unwrap_or_default(),
        kubeconfig.display()
    )
}
