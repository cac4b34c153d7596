//! Driver: finds and reads a kubeconfig, and explains its problems.

pub(crate) mod client_certificate;
pub(crate) mod proxy;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use kube_client::config::{Cluster, Context, KubeConfigOptions, Kubeconfig};

use steersman_transport::{chain, explain_kubeconfig, settle_plugin};

use crate::error::Error;
use proxy::{ProxyVariables, parse_proxy};

/// The places in which a configuration may be found. A value, so that tests need no environment variables.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The value of `KUBECONFIG`.
    pub(crate) kubeconfig: Option<OsString>,
    pub(crate) home: Option<PathBuf>,
    /// The value of `KUBERNETES_SERVICE_HOST`, which every Pod has.
    pub(crate) service_host: Option<OsString>,
    /// The value of `KUBERNETES_SERVICE_PORT`.
    pub(crate) service_port: Option<OsString>,
    /// The folder in which a Pod's service account is mounted.
    pub(crate) service_account: PathBuf,
    pub(crate) proxies: ProxyVariables,
}

impl Environment {
    /// Returns whether the process runs in a Pod with a mounted service account.
    fn has_service_account(&self) -> bool {
        self.service_host.is_some() && self.service_account.join("token").exists()
    }

    pub(crate) fn of_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            service_host: std::env::var_os("KUBERNETES_SERVICE_HOST"),
            service_port: std::env::var_os("KUBERNETES_SERVICE_PORT"),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
            proxies: ProxyVariables::read(|name| std::env::var(name).ok()),
        }
    }
}

/// The choice of a configuration, instead of the first that exists.
///
/// ```
/// use steersman_api::ConfigChoice;
///
/// let choice = ConfigChoice::new().kubeconfig("/etc/operator/kubeconfig").context("staging");
/// # let _ = choice;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a choice does nothing until it is passed to `ClientConfig::infer_with`"]
pub struct ConfigChoice {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
}

impl ConfigChoice {
    /// Makes the choice of the first configuration that exists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses this kubeconfig file, whatever the environment names.
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }

    /// Chooses a context of the kubeconfig instead of its current context. The service account of a Pod has no
    /// contexts, so it is not searched.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }
}

#[derive(Debug)]
pub(crate) struct FoundConfig {
    pub(crate) config: kube_client::Config,
    /// The user and the location of the credentials, for people.
    pub(crate) credentials: String,
    /// The context of the kubeconfig; `None` in a Pod.
    pub(crate) context: Option<String>,
    /// Whether the current context or the Pod names a namespace.
    pub(crate) names_namespace: bool,
}

/// Returns the chosen configuration or, without a choice, the first in the order of controller-runtime: `KUBECONFIG`,
/// the service account of the Pod, `~/.kube/config`.
pub(crate) async fn find(
    environment: &Environment,
    choice: &ConfigChoice,
) -> Result<FoundConfig, Error> {
    let context = choice.context.as_deref();
    if let Some(path) = &choice.kubeconfig {
        let path = std::slice::from_ref(path);
        return read(path, context, environment, "it was asked for").await;
    }
    let named = environment.kubeconfig.as_deref().unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(named)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !paths.is_empty() {
        return read(&paths, context, environment, "KUBECONFIG names it").await;
    }
    if context.is_none() && environment.has_service_account() {
        return of_pod(environment);
    }
    let default = environment
        .home
        .as_ref()
        .map(|home| home.join(".kube").join("config"));
    if let Some(path) = default.filter(|path| path.exists()) {
        return read(&[path], context, environment, "it is the default").await;
    }
    if context.is_none() && environment.service_host.is_some() {
        // `of_pod` returns the error that names the missing part of the service account.
        return of_pod(environment);
    }
    Err(Error::NoConfig {
        looked_at: "KUBECONFIG, KUBERNETES_SERVICE_HOST, ~/.kube/config".to_owned(),
    })
}

/// Returns the configuration of the service account of this Pod.
fn of_pod(environment: &Environment) -> Result<FoundConfig, Error> {
    let place = "the service account of this pod".to_owned();
    check_pod(environment).map_err(|problem| Error::config(&place, problem))?;
    let found = kube_client::Config::incluster().map_err(|error| chain(&error));
    let found = found.and_then(|mut config| {
        config.proxy_url = environment.proxies.proxy_of(&config.cluster_url)?;
        Ok(config)
    });
    match found {
        Ok(config) => Ok(FoundConfig {
            config,
            credentials: place,
            context: None,
            names_namespace: true,
        }),
        Err(problem) => Err(Error::Config { place, problem }),
    }
}

/// Returns the configuration of a Pod; an error names the missing variable or file.
fn check_pod(environment: &Environment) -> Result<(), String> {
    let port = environment.service_port.as_deref().unwrap_or_default();
    if port.is_empty() {
        return Err(
            "KUBERNETES_SERVICE_HOST is set and KUBERNETES_SERVICE_PORT is not: a pod has both; \
             outside of one set KUBECONFIG to a kubeconfig file"
                .to_owned(),
        );
    }
    let number = port.to_str().and_then(|port| port.parse::<u16>().ok());
    if number.is_none() {
        return Err(format!(
            "KUBERNETES_SERVICE_PORT is {port:?}, which is not a port"
        ));
    }
    for file in ["token", "ca.crt", "namespace"] {
        let path = environment.service_account.join(file);
        std::fs::File::open(&path).map_err(|error| {
            format!(
                "{} cannot be read: {error}; give the pod a service account with a token that is \
                 mounted (automountServiceAccountToken), or outside of a pod set KUBECONFIG to a \
                 kubeconfig file",
                path.display()
            )
        })?;
    }
    Ok(())
}

/// Reads one kubeconfig, or merges several. Of several files, some may be missing.
pub(crate) async fn read(
    paths: &[PathBuf],
    context: Option<&str>,
    environment: &Environment,
    why: &str,
) -> Result<FoundConfig, Error> {
    let place = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let config_error = |problem: String| Error::config(format!("kubeconfig {place}"), problem);
    let present: Vec<&Path> = paths
        .iter()
        .map(PathBuf::as_path)
        .filter(|path| path.exists())
        .collect();
    if present.is_empty() {
        return Err(config_error(format!("there is no such file, and {why}")));
    }
    let mut merged = Kubeconfig::default();
    for path in present {
        let next = Kubeconfig::read_from(path).map_err(|error| {
            let place = format!("kubeconfig {}", path.display());
            Error::config(place, explain_kubeconfig(&error))
        })?;
        merged = merged
            .merge(next)
            .map_err(|e| config_error(explain_kubeconfig(&e)))?;
    }
    if let Some(context) = context {
        merged.current_context = Some(context.to_owned());
    }
    check(&merged, context.is_some()).map_err(config_error)?;
    let credentials = match user(&merged) {
        Some(user) => format!("the user {user:?} in kubeconfig {place}"),
        None => format!("the current context in kubeconfig {place}"),
    };
    let authority = authority_file(&merged);
    let proxy = proxy_url(&merged);
    let namespace = current_context(&merged).and_then(|context| context.namespace.as_deref());
    let names_namespace = namespace.is_some_and(|namespace| !namespace.is_empty());
    let context = merged.current_context.clone();
    let current = KubeConfigOptions::default();
    let mut config = kube_client::Config::from_custom_kubeconfig(merged, &current)
        .await
        .map_err(|error| config_error(explain_kubeconfig(&error)))?;
    config.root_cert_file = authority;
    if let Some(exec) = &mut config.auth_info.exec {
        settle_plugin(exec, std::io::stdin().is_terminal()).map_err(config_error)?;
    }
    config.proxy_url = match proxy {
        Some(proxy) => {
            let proxy = parse_proxy(&proxy);
            let named = |problem| config_error(format!("proxy-url: {problem}"));
            Some(proxy.map_err(named)?)
        }
        // Chosen here, because kube-client ignores `NO_PROXY`.
        None => {
            let proxy = environment.proxies.proxy_of(&config.cluster_url);
            proxy.map_err(config_error)?
        }
    };
    Ok(FoundConfig {
        config,
        credentials,
        context,
        names_namespace,
    })
}

fn current_context(config: &Kubeconfig) -> Option<&Context> {
    let current = config.current_context.as_deref()?;
    let named = config.contexts.iter().find(|c| c.name == current)?;
    named.context.as_ref()
}

/// Returns the user that the current context names.
fn user(config: &Kubeconfig) -> Option<&str> {
    let user = current_context(config)?.user.as_deref();
    user.filter(|user| !user.is_empty())
}

/// Returns the cluster that the current context names.
fn cluster(config: &Kubeconfig) -> Option<&Cluster> {
    let name = &current_context(config)?.cluster;
    let named = config.clusters.iter().find(|c| c.name == *name)?;
    named.cluster.as_ref()
}

/// Returns the file of the certificate authority of the current context's cluster; `None` if the authority is inline.
fn authority_file(config: &Kubeconfig) -> Option<PathBuf> {
    let cluster = cluster(config)?;
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| cluster.certificate_authority_data.is_none())
        .map(PathBuf::from)
}

/// Returns the proxy that the current context's cluster names. It wins over the variables, and has no exceptions.
fn proxy_url(config: &Kubeconfig) -> Option<String> {
    let named = cluster(config)?.proxy_url.clone();
    named.filter(|proxy| !proxy.is_empty())
}

/// Checks that the kubeconfig has the entries that the current context, or the chosen context, names.
fn check(config: &Kubeconfig, is_chosen: bool) -> Result<(), String> {
    let names = |names: Vec<&str>| match names.as_slice() {
        [] => "there are none".to_owned(),
        some => format!("there are: {}", some.join(", ")),
    };
    let contexts = config.contexts.iter().map(|c| c.name.as_str()).collect();
    let Some(current) = config.current_context.as_deref().filter(|c| !c.is_empty()) else {
        let nothing = config.contexts.is_empty() && config.clusters.is_empty();
        if nothing && config.auth_infos.is_empty() {
            return Err(
                "it is empty: it has no clusters, no users and no contexts; fill it with `kubectl \
                 config`, or name another"
                    .to_owned(),
            );
        }
        return Err(format!(
            "no current-context is set (of contexts, {}); choose one with \
             `kubectl config use-context`",
            names(contexts)
        ));
    };
    let Some(context) = current_context(config) else {
        let which = if is_chosen {
            "chosen context"
        } else {
            "current-context"
        };
        return Err(format!(
            "the {which} {current:?} is not one of its contexts ({})",
            names(contexts)
        ));
    };
    let clusters: Vec<&str> = config.clusters.iter().map(|c| c.name.as_str()).collect();
    if !clusters.contains(&context.cluster.as_str()) {
        return Err(format!(
            "the context {current:?} names the cluster {:?}, which has no entry ({})",
            context.cluster,
            names(clusters)
        ));
    }
    let users: Vec<&str> = config.auth_infos.iter().map(|u| u.name.as_str()).collect();
    match context.user.as_deref().filter(|user| !user.is_empty()) {
        Some(user) if !users.contains(&user) => Err(format!(
            "the context {current:?} names the user {user:?}, which has no entry ({})",
            names(users)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
