//! Machine: selects the API server of an environment from environment variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steersman_apimachinery::go;

use crate::error::Error;

/// The variable that selects an existing cluster, as in controller-runtime's envtest.
pub const USE_EXISTING_CLUSTER: &str = "USE_EXISTING_CLUSTER";
const KUBEBUILDER_ASSETS: &str = "KUBEBUILDER_ASSETS";
/// The folder of the binaries if no variable names one.
const DEFAULT_ASSETS: &str = "/usr/local/kubebuilder/bin";

const START_TIMEOUT: &str = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT";
const STOP_TIMEOUT: &str = "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT";
const ATTACH_OUTPUT: &str = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT";

/// The API server of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// The embedded server, over HTTPS on loopback.
    Embedded,
    /// A real etcd and kube-apiserver, started for this environment and stopped with it.
    Binaries(Assets),
    /// The cluster of the kubeconfig.
    Existing,
}

/// The paths of the binaries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assets {
    /// The etcd binary.
    pub etcd: PathBuf,
    /// The kube-apiserver binary.
    pub kube_apiserver: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessOptions {
    /// The time limit until each binary is ready. Default: 20 s, as in envtest.
    pub(crate) start: Duration,
    /// The time limit until each binary ends before it is killed. Default: 20 s.
    pub(crate) stop: Duration,
    /// Whether the binaries write to the output of this process instead of a log file.
    pub(crate) attach: bool,
}

impl Assets {
    /// Returns the binaries in a folder.
    #[must_use]
    pub fn in_folder(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        Self {
            etcd: folder.join("etcd"),
            kube_apiserver: folder.join("kube-apiserver"),
        }
    }

    /// Returns the binaries that the environment variables name, by default in `/usr/local/kubebuilder/bin`:
    /// `KUBEBUILDER_ASSETS` names the folder, `TEST_ASSET_ETCD` and `TEST_ASSET_KUBE_APISERVER` name single binaries.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let folder = set(KUBEBUILDER_ASSETS).unwrap_or_else(|| DEFAULT_ASSETS.to_owned());
        let mut assets = Self::in_folder(folder);
        if let Some(path) = set("TEST_ASSET_ETCD") {
            assets.etcd = path.into();
        }
        if let Some(path) = set("TEST_ASSET_KUBE_APISERVER") {
            assets.kube_apiserver = path.into();
        }
        assets
    }
}

impl Backend {
    /// Returns the backend with the binaries of [`Assets::from_env`].
    #[must_use]
    pub fn binaries() -> Self {
        Self::Binaries(Assets::from_env())
    }

    /// Returns the backend that the environment variables select: with `USE_EXISTING_CLUSTER=true` the cluster, else
    /// with `KUBEBUILDER_ASSETS` the binaries in that folder, else the embedded server.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable(USE_EXISTING_CLUSTER).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::Existing;
        }
        // The default folder selects nothing: installing a tool must not change the server of a test.
        if variable(KUBEBUILDER_ASSETS).is_some_and(|folder| !folder.is_empty()) {
            return Self::Binaries(Assets::from_variables(variable));
        }
        Self::Embedded
    }
}

impl ProcessOptions {
    pub(crate) fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let time = |name| match variable(name).filter(|value| !value.is_empty()) {
            None => Ok(Duration::from_secs(20)),
            Some(value) => duration(&value).ok_or(Error::Variable {
                name,
                value,
                wanted: "a duration such as 20s or 1m30s",
            }),
        };
        Ok(Self {
            start: time(START_TIMEOUT)?,
            stop: time(STOP_TIMEOUT)?,
            attach: variable(ATTACH_OUTPUT).is_some_and(|value| value.eq_ignore_ascii_case("true")),
        })
    }
}

/// Parses a duration in Go's format; `None` for a negative one, too.
fn duration(text: &str) -> Option<Duration> {
    let nanos = go::parse_duration(text).ok()?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_variables_select_the_backend() {
        let choose = |set: &[(&str, &str)]| Backend::from_variables(variables(set));
        assert_eq!(choose(&[]), Backend::Embedded);
        assert_eq!(choose(&[(KUBEBUILDER_ASSETS, "")]), Backend::Embedded);
        assert_eq!(
            choose(&[(USE_EXISTING_CLUSTER, "false")]),
            Backend::Embedded
        );
        let both = [(KUBEBUILDER_ASSETS, "/k8s"), (USE_EXISTING_CLUSTER, "True")];
        assert_eq!(choose(&both), Backend::Existing);
        assert_eq!(
            choose(&both[..1]),
            Backend::Binaries(Assets::in_folder("/k8s"))
        );
    }

    #[test]
    fn a_variable_may_name_a_single_binary() {
        let assets = Assets::from_variables(variables(&[("TEST_ASSET_ETCD", "/opt/etcd")]));
        assert_eq!(assets.etcd, Path::new("/opt/etcd"));
        assert_eq!(
            assets.kube_apiserver,
            Path::new("/usr/local/kubebuilder/bin/kube-apiserver")
        );
    }

    #[test]
    fn time_limits_are_parsed_as_go_durations() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for wrong in ["", "20", "s", "1d", "-1s", "1..s", "99999999999999999999h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        let error =
            ProcessOptions::from_variables(variables(&[(START_TIMEOUT, "soon")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=\"soon\" is not a duration such as 20s or 1m30s"
        );
        let options =
            ProcessOptions::from_variables(variables(&[(ATTACH_OUTPUT, "true")])).unwrap();
        assert!(options.attach);
        assert_eq!(options.start, Duration::from_secs(20));
    }
}
