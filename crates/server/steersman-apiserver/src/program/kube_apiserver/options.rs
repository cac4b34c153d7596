//! Machine: the options of kube-apiserver.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;

use super::admission_plugins::AdmissionPlugins;
use crate::program::command_line::{CommandLine, FlagProblem, FlagTable};
use crate::program::flags::PlayedPart;

const PORT: &str = "6443";
/// The environment variable that names the simulated parts of a cluster.
const PLAY: &str = "STEERSMAN_PLAY";
/// The environment variable with the path of a file of faults that the server injects from its start.
pub(super) const FAULTS: &str = "STEERSMAN_FAULTS";
/// The environment variable with the address of the server's page; `1` for any free port.
const UI: &str = "STEERSMAN_UI";
/// The one entry of `--runtime-config` that has an effect.
const MIGRATIONS: &str = "storagemigration.k8s.io/v1beta1";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuditTarget {
    StandardOutput,
    File(PathBuf),
}

#[derive(Debug)]
pub(super) struct KubeApiserverOptions {
    pub(super) address: SocketAddr,
    pub(super) cert_dir: Option<PathBuf>,
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) etcd: Option<String>,
    pub(super) service_network: Option<String>,
    /// Whether Roles and bindings decide which requests are allowed; otherwise every request is.
    pub(super) is_rbac: bool,
    pub(super) tokens: Option<PathBuf>,
    pub(super) audit: Option<AuditTarget>,
    pub(super) migrates_storage: bool,
    pub(super) http2_streams: Option<u32>,
    pub(super) watch_timeout: Option<Duration>,
    /// Whether Pods need and mount ServiceAccounts, if the controller of accounts is simulated.
    pub(super) service_account: bool,
    pub(super) played: PlayedPart,
    pub(super) faults: Option<PathBuf>,
    /// The address of the server's page; `None` without a page.
    pub(super) ui: Option<SocketAddr>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn flags() -> FlagTable {
    FlagTable::read(include_str!("flags.txt"))
}

impl KubeApiserverOptions {
    pub(super) fn of(
        line: &CommandLine,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, FlagProblem> {
        let is_rbac = authorization(line)?;
        let plugins = AdmissionPlugins::of(line)?;
        let (migrates_storage, apis) = runtime_config(line)?;
        let mut warnings = line.warnings.clone();
        warnings.extend(plugins.warnings);
        warnings.extend(apis);
        if line.last("allow-privileged") == Some("false") {
            warnings.push(
                "--allow-privileged=false has no effect: privileged containers are allowed"
                    .to_owned(),
            );
        }
        let address = address(line, is_rbac)?;
        let advertised = ip(line, "advertise-address")?;
        if let Some(advertised) = advertised.filter(|ip| *ip != address.ip()) {
            warnings.push(format!(
                "--advertise-address={advertised} has no effect: the Endpoints of the Service `kubernetes` have the \
                 address of the listener"
            ));
        }
        let networks: Vec<&str> = line.last_entries("service-cluster-ip-range").collect();
        if let Some(second) = networks.get(1) {
            warnings.push(format!(
                "--service-cluster-ip-range: {second} has no effect, because Services have one address"
            ));
        }
        let tls = tls(line)?;
        let seconds = number::<u64>(line, "min-request-timeout")?.filter(|seconds| *seconds > 0);
        let faults = variable(FAULTS).filter(|path| !path.is_empty());
        Ok(Self {
            address,
            cert_dir: line.path("cert-dir"),
            tls,
            client_ca: line.path("client-ca-file"),
            etcd: line.entries("etcd-servers").next().map(str::to_owned),
            is_rbac,
            tokens: line.path("token-auth-file"),
            audit: line.last("audit-log-path").and_then(audit),
            migrates_storage,
            http2_streams: number(line, "http2-max-streams-per-connection")?
                .filter(|streams| *streams > 0),
            watch_timeout: seconds
                .map(|seconds| Duration::from_secs(seconds.saturating_add(seconds / 2))),
            service_network: networks.first().map(|one| (*one).to_owned()),
            service_account: plugins.service_account,
            played: played(variable(PLAY).as_deref())?,
            faults: faults.map(PathBuf::from),
            ui: ui(variable(UI))?,
            warnings,
        })
    }
}

/// Reads the address of the page. Test environments have more words for the variable, which mean a free port here.
fn ui(value: Option<String>) -> Result<Option<SocketAddr>, FlagProblem> {
    let Some(value) = value else { return Ok(None) };
    match (value.as_str(), value.parse()) {
        ("" | "0" | "false" | "no", _) => Ok(None),
        ("1" | "true" | "yes" | "hold", _) => Ok(Some((Ipv4Addr::LOCALHOST, 0).into())),
        (_, Ok(address)) => Ok(Some(address)),
        (_, Err(_)) => Err(FlagProblem::Variable {
            name: UI,
            value,
            why: "use 1, or an address such as 127.0.0.1:6480",
        }),
    }
}

fn tls(line: &CommandLine) -> Result<Option<(PathBuf, PathBuf)>, FlagProblem> {
    let (certificate, key) = ("tls-cert-file", "tls-private-key-file");
    let (flag, other) = match (line.path(certificate), line.path(key)) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => return Ok(Some((certificate, key))),
        (Some(_), None) => (certificate, key),
        (None, Some(_)) => (key, certificate),
    };
    Err(FlagProblem::Alone { flag, other })
}

/// Returns whether RBAC decides which requests are allowed. As upstream, a request is allowed if one mode of the flag's
/// list allows it, so `AlwaysAllow` in the list allows every request.
fn authorization(line: &CommandLine) -> Result<bool, FlagProblem> {
    let flag = "authorization-mode";
    let mut is_rbac = false;
    let mut allows_all = false;
    for mode in line.entries(flag) {
        match mode {
            "RBAC" => is_rbac = true,
            "AlwaysAllow" => allows_all = true,
            // The mode Node is for requests of kubelets. There are no kubelets here, so this mode changes nothing.
            "Node" => {}
            _ => {
                let why = "the modes are RBAC, AlwaysAllow and Node, which has no effect";
                return Err(FlagProblem::invalid(flag, mode, why));
            }
        }
    }
    if let Some(given) = line.last(flag).filter(|_| !is_rbac && !allows_all) {
        let why = "name RBAC or AlwaysAllow, too";
        return Err(FlagProblem::invalid(flag, given, why));
    }
    Ok(is_rbac && !allows_all)
}

fn address(line: &CommandLine, is_rbac: bool) -> Result<SocketAddr, FlagProblem> {
    let flag = "secure-port";
    let given = line.last(flag).unwrap_or(PORT);
    let port = match given.parse::<u16>() {
        Ok(0) => Err("the port cannot be switched off; name a port from 1 to 65535"),
        Ok(port) => Ok(port),
        Err(_) => Err("a port is a number from 1 to 65535"),
    };
    let port = port.map_err(|why| FlagProblem::invalid(flag, given, why))?;
    // By default other machines cannot reach a server that allows everything.
    let usual = if is_rbac {
        Ipv4Addr::UNSPECIFIED
    } else {
        Ipv4Addr::LOCALHOST
    };
    let ip = ip(line, "bind-address")?.unwrap_or(IpAddr::V4(usual));
    Ok(SocketAddr::new(ip, port))
}

fn ip(line: &CommandLine, flag: &'static str) -> Result<Option<IpAddr>, FlagProblem> {
    let parse = |text: &str| {
        let parsed = text.parse();
        parsed.map_err(|_| FlagProblem::invalid(flag, text, "it is no IP address"))
    };
    line.text(flag).map(parse).transpose()
}

fn number<N: std::str::FromStr>(
    line: &CommandLine,
    flag: &'static str,
) -> Result<Option<N>, FlagProblem> {
    let parse = |text: &str| {
        let parsed = text.parse();
        parsed.map_err(|_| FlagProblem::invalid(flag, text, "it is no number in range"))
    };
    line.last(flag).map(parse).transpose()
}

/// Returns whether StorageVersionMigrations are served, and a warning for each other entry of `--runtime-config`.
fn runtime_config(line: &CommandLine) -> Result<(bool, Vec<String>), FlagProblem> {
    let flag = "runtime-config";
    let mut migrates = false;
    let mut warnings = Vec::new();
    for entry in line.entries(flag) {
        let (api, value) = entry.split_once('=').unwrap_or((entry, "true"));
        let why = "a value is either true or false";
        let on = value.parse::<bool>();
        let on = on.map_err(|_| FlagProblem::invalid(flag, entry, why))?;
        if api == MIGRATIONS {
            migrates = on;
        } else {
            warnings.push(format!(
                "--{flag}={entry} has no effect: the APIs are those of Kubernetes 1.36 by default, and {MIGRATIONS}"
            ));
        }
    }
    Ok((migrates, warnings))
}

fn audit(path: &str) -> Option<AuditTarget> {
    match path {
        "" => None,
        "-" => Some(AuditTarget::StandardOutput),
        path => Some(AuditTarget::File(PathBuf::from(path))),
    }
}

fn played(value: Option<&str>) -> Result<PlayedPart, FlagProblem> {
    match value {
        None | Some("") => Ok(PlayedPart::Nothing),
        Some(text) => PlayedPart::from_str(text, false).map_err(|_| FlagProblem::Variable {
            name: PLAY,
            value: text.to_owned(),
            why: "use controllers, workloads or nothing",
        }),
    }
}

#[cfg(test)]
mod tests;
