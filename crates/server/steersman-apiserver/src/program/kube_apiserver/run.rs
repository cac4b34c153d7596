//! Driver: kube-apiserver from its arguments to the last save.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, Empty};
use serde_json::Value;
use steersman_apiserver::{ApiServer, ApiServerBuilder, Error, User};
use steersman_auth::{Authorization, TokenOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::audit_log::AuditLog;
use super::options::{FAULTS, KubeApiserverOptions, flags};
use super::storage::Storage;
use super::{certificates, token_file};
use crate::program::command_line::CommandLine;
use crate::program::flag_file::FlagFile;
use crate::program::problem::{Outcome, ProgramProblem};
use crate::program::process::{every, report, say, stopped};
use crate::program::seed;

const SAVE: Duration = Duration::from_millis(500);
/// Capacity of the request log, in requests: enough for the audit log, which reads it ten times per second.
const REMEMBERED: usize = 20_000;

const INTRODUCTION: &str = "Serves the Kubernetes API in place of a kube-apiserver of 1.36, with its flags.\n\n\
    Usage:\n  kube-apiserver [flags]";

pub(crate) async fn run(arguments: impl Iterator<Item = OsString>) -> Outcome {
    let table = flags();
    let line = table.parse(arguments)?;
    if line.asks("help") {
        say(io::stdout(), &table.help(INTRODUCTION));
        return Ok(());
    }
    if line.last("version").is_some_and(|value| value != "false") {
        say(io::stdout(), &format!("Kubernetes {}", version().await));
        return Ok(());
    }
    let options = KubeApiserverOptions::of(&line, |name| std::env::var(name).ok())?;
    for warning in &options.warnings {
        report("kube-apiserver", warning);
    }
    let mut builder = with_tokens(configured(&options)?, &line)?;
    for (token, user) in users(&options)? {
        builder = builder.static_token(token, user);
    }
    // SRV-STOP-4: listens before the state is read, so that clients wait in the meantime and are not refused.
    let listener = TcpListener::bind(options.address).await;
    let listener = listener.map_err(|source| unbound(source, &options))?;
    let audit = options.audit.as_ref().map(AuditLog::open).transpose()?;
    let mut stop = Box::pin(stopped()?);
    let (mut storage, recovery) = tokio::select! {
        () = &mut stop => return Ok(()),
        opened = Storage::open(options.etcd.as_deref()) => opened?,
    };
    if let Some(recovery) = recovery {
        builder = builder.recover(recovery);
    }
    if let Some(log) = storage.as_ref().and_then(Storage::log) {
        builder = builder.log_writes(log);
    }
    let server = builder.build();
    if let Some(storage) = &storage {
        storage.begin(&server).await?;
    }
    if let Some(path) = &options.faults {
        seed::faults(&server, FAULTS, path)?;
    }
    let serving = server.serve_listener(listener);
    let serving = serving.map_err(|error| unserved(error, &options))?;
    let url = serving.url();
    report("kube-apiserver", format_args!("serves {url}"));
    let page = options.ui.map(|address| server.serve_ui(address));
    let page = page.transpose()?;
    if let Some(page) = &page {
        report("kube-apiserver", format_args!("its page is {}", page.url()));
    }
    let auditing = CancellationToken::new();
    let audit = audit.map(|log| tokio::spawn(log.run(server.clone(), auditing.clone())));
    let mut saves = every(SAVE);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = saves.tick() => if let Some(storage) = &mut storage {
                storage.save_changes(&server).await;
            },
        }
    }
    // SRV-ETCD-2: all answered writes are saved, because the listener stops first.
    serving.stop().await;
    auditing.cancel();
    if let Some(audit) = audit {
        // The only error is a panic of the task, which the panic hook has reported.
        let _ = audit.await;
    }
    match storage {
        Some(storage) => storage.save_last(&server).await,
        None => Ok(()),
    }
}

fn unbound(source: io::Error, options: &KubeApiserverOptions) -> ProgramProblem {
    ProgramProblem::Listen {
        flag: match source.kind() {
            io::ErrorKind::AddrNotAvailable => "bind-address",
            _ => "secure-port",
        },
        url: options.address.to_string(),
        source,
    }
}

fn unserved(error: Error, options: &KubeApiserverOptions) -> ProgramProblem {
    match error {
        Error::Certificates { .. } => match certificates::paths(options) {
            Some((certificate, key)) => ProgramProblem::Pair {
                certificate,
                key,
                source: error,
            },
            None => error.into(),
        },
        // The builder names an option like its flag, but with underscores.
        Error::Option { source } => ProgramProblem::Option {
            flag: source.option.replace('_', "-"),
            why: source.problem,
        },
        _ => error.into(),
    }
}

fn configured(options: &KubeApiserverOptions) -> Outcome<ApiServerBuilder> {
    let mut played = options.played.played();
    if !options.service_account {
        played = played.accounts(false);
    }
    let mut builder = ApiServer::builder()
        .log_capacity(REMEMBERED)
        .remove_at_once(false)
        .play(played)
        .storage_migrations(options.migrates_storage);
    if options.is_rbac {
        builder = builder.authorization(Authorization::Rbac);
    }
    if let Some(network) = &options.service_network {
        builder = builder.service_cluster_ip_range(network);
    }
    if let Some(streams) = options.http2_streams {
        builder = builder.http2_streams(streams);
    }
    if let Some(timeout) = options.watch_timeout {
        builder = builder.watch_timeout(timeout);
    }
    if let Some(path) = &options.client_ca {
        let file = FlagFile::new("--client-ca-file", path);
        builder = builder.client_authorities(file.certificates()?);
    }
    if let Some((certificate, key)) = certificates::pair(options)? {
        builder = builder.certificate(certificate, key);
    }
    Ok(builder)
}

fn with_tokens(mut builder: ApiServerBuilder, line: &CommandLine) -> Outcome<ApiServerBuilder> {
    for issuer in line.all("service-account-issuer") {
        builder = builder.service_account_issuer(issuer);
    }
    for path in line.all("service-account-key-file") {
        let file = FlagFile::new("--service-account-key-file", path.as_ref());
        builder = builder.service_account_keys(file.checked(TokenOptions::check_keys)?);
    }
    if let Some(path) = line.text("service-account-signing-key-file") {
        let file = FlagFile::new("--service-account-signing-key-file", path.as_ref());
        builder =
            builder.service_account_signing_key(file.checked(TokenOptions::check_signing_key)?);
    }
    let audiences: Vec<&str> = line.entries("api-audiences").collect();
    if !audiences.is_empty() {
        builder = builder.api_audiences(audiences);
    }
    if let Some(url) = line.text("service-account-jwks-uri") {
        builder = builder.service_account_jwks_uri(url);
    }
    let extends = line.last("service-account-extend-token-expiration") != Some("false");
    Ok(builder.service_account_extend_token_expiration(extends))
}

fn users(options: &KubeApiserverOptions) -> Outcome<Vec<(String, User)>> {
    let Some(path) = &options.tokens else {
        return Ok(Vec::new());
    };
    let text = FlagFile::new("--token-auth-file", path).text()?;
    token_file::users(&text).map_err(|problem| ProgramProblem::Tokens {
        path: path.clone(),
        line: problem.line,
        why: problem.why,
    })
}

async fn version() -> String {
    let answer = async {
        let request = Request::get("/version").body(Empty::<bytes::Bytes>::new());
        let service = ApiServer::new().service();
        let answer = service.oneshot(request.ok()?).await.ok()?;
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        let version: Value = serde_json::from_slice(&body).ok()?;
        Some(version["gitVersion"].as_str()?.to_owned())
    };
    answer.await.unwrap_or_default()
}
