//! Tests flags, variables and files: their priority, and their errors.

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cli::{Args, Config, Error, LogFormat, NoSettings, OperatorArgs, OperatorSettings};
use steersman_manager::ManagerBuilder;
use steersman_object::ObjectKey;
use tempfile::TempDir;

/// The sources of a configuration: a command line, environment variables and a file.
struct Sources {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Sources {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            variables: Vec::new(),
        }
    }

    fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Writes the file, and sets its path by an environment variable.
    fn file(self, text: &str) -> Self {
        let path = self.path();
        std::fs::write(&path, text).unwrap();
        self.variable("STEERSMAN_CONFIG", path.to_str().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("settings.yaml")
    }

    fn read(&self, flags: &[&str]) -> Result<Config<NoSettings>, Error> {
        self.read_as(flags)
    }

    fn read_as<T: OperatorSettings>(&self, flags: &[&str]) -> Result<Config<T>, Error> {
        let words = ["program"].iter().chain(flags);
        let args = OperatorArgs::<T>::try_parse_from(words).unwrap();
        args.config_with(|name| {
            let found = self.variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    fn error(&self) -> String {
        let error = self.read(&[]).err().map(|error| error.to_string());
        error.unwrap_or_else(|| "there is no error".to_owned())
    }
}

// CONF-1: a flag goes before the variable, the file and the default.
#[test]
fn a_flag_goes_before_its_variable_and_a_variable_before_the_file() {
    let file = "log-level: error\nlog-format: json\nnamespace: [web, shop]\n";
    let sources = Sources::new().file(file);
    let config = sources.read(&[]).unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("error", LogFormat::Json)
    );
    assert_eq!(config.namespaces(), ["web", "shop"]);
    let sources = sources.variable("STEERSMAN_LOG_LEVEL", "warn");
    assert_eq!(sources.read(&[]).unwrap().log_level(), "warn");
    let flags = [
        "--log-level=debug", "--log-format", "human", "--namespace", "a,b",
    ];
    let config = sources.read(&flags).unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("debug", LogFormat::Human)
    );
    assert_eq!(config.namespaces(), ["a", "b"]);
}

#[test]
fn without_any_source_the_defaults_apply() {
    let config = Sources::new().read(&[]).unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("info", LogFormat::Human)
    );
    assert!(config.namespaces().is_empty());
    assert_eq!(config.controllers().names().count(), 0);
}

#[test]
fn names_of_kubebuilder_are_accepted() {
    let config = Sources::new()
        .read(&["--zap-log-level=2", "--zap-encoder=console"])
        .unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("trace", LogFormat::Human)
    );
    let sources = Sources::new().file("log-level: warn\nlog-format: json\n");
    let config = sources.read(&["--zap-devel"]).unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("debug", LogFormat::Human)
    );
    let config = sources.read(&["--zap-devel=false"]).unwrap();
    assert_eq!(
        (config.log_level(), config.log_format()),
        ("warn", LogFormat::Json)
    );
}

#[test]
fn the_flags_of_a_deployment_of_kubebuilder_are_accepted() {
    let config = Sources::new().read(&[
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--metrics-bind-address=:8443",
        "--metrics-cert-path=",
        "--enable-http2=false",
        "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs",
        "--webhook-cert-name=tls.crt",
        "--webhook-cert-key=tls.key",
        "--zap-devel=true",
        "--zap-stacktrace-level=panic",
        "--zap-time-encoding=rfc3339",
    ]);
    assert_eq!(config.unwrap().log_level(), "debug");
}

#[test]
fn a_level_that_does_not_exist_is_refused_by_every_source() {
    for level in ["warning", "inof", "mycrate", "1"] {
        let flag = format!("--log-level={level}");
        let error = Args::try_parse_from(["program", &flag]).unwrap_err();
        assert!(error.to_string().contains("error, warn, info"), "{error}");
        let error = Sources::new().variable("RUST_LOG", level).error();
        let named = error.contains("RUST_LOG") && error.contains("error, warn, info");
        assert!(named, "{error}");
    }
}

#[test]
fn of_a_flag_that_is_given_twice_the_last_value_counts() {
    let flags = [
        "--log-level=debug", "--log-level=warn", "--preflight", "--preflight=0",
    ];
    let config = Sources::new().read(&flags).unwrap();
    assert_eq!(config.log_level(), "warn");
    // The values of a repeated list flag add up.
    let config = Sources::new()
        .read(&["--namespace=a", "--namespace=b"])
        .unwrap();
    assert_eq!(config.namespaces(), ["a", "b"]);
}

#[test]
fn an_empty_namespace_is_all_namespaces_and_names_are_trimmed_and_checked() {
    let sources = Sources::new().variable("STEERSMAN_NAMESPACE", "web, shop");
    assert_eq!(sources.read(&[]).unwrap().namespaces(), ["web", "shop"]);
    let all = sources.read(&["--namespace="]).unwrap();
    assert!(all.namespaces().is_empty());
    let file = Sources::new().file("namespace: \"\"\n").read(&[]).unwrap();
    assert!(file.namespaces().is_empty());
    let error = Sources::new()
        .variable("STEERSMAN_NAMESPACE", "web,Shop")
        .error();
    let named = error.contains("STEERSMAN_NAMESPACE") && error.contains("lower-case");
    assert!(named, "{error}");
    let error = Sources::new().file("\nnamespace: a/b\n").error();
    assert!(
        error.contains("settings.yaml:2: namespace is \"a/b\""),
        "{error}"
    );
    let error = Args::try_parse_from(["program", "--namespace=web,-"]).unwrap_err();
    assert!(error.to_string().contains("--namespace"), "{error}");
}

#[tokio::test]
async fn empty_names_and_paths_count_as_not_given() {
    let flags = [
        "--leader-elect", "--leader-election-namespace=", "--leader-election-id=", "--kubeconfig=",
        "--context=",
    ];
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let config = Sources::new().read(&flags).unwrap();
    assert!(
        config
            .manager_over(client_config, "program")
            .build()
            .is_ok()
    );
}

#[test]
fn a_stop_may_be_unlimited() {
    for flag in [
        "--graceful-shutdown-timeout=unlimited",
        "--graceful-shutdown-timeout=-1s",
        "--graceful-shutdown-timeout=-1",
    ] {
        assert!(Sources::new().read(&[flag]).is_ok(), "{flag}");
    }
    let flags = ["--graceful-shutdown-timeout", "-1s"];
    assert!(Sources::new().read(&flags).is_ok());
    let error = Sources::new()
        .variable("STEERSMAN_GRACEFUL_SHUTDOWN_TIMEOUT", "never")
        .error();
    assert!(error.contains("unlimited"), "{error}");
}

#[tokio::test]
async fn the_user_agent_has_the_version_of_the_program() {
    let server = ApiServer::new();
    let connect = || ClientConfig::in_process(server.service(), "default");
    let config = || Sources::new().read(&[]).unwrap();
    let agent_of = async |manager: ManagerBuilder| {
        let manager = manager.build().unwrap();
        let key = ObjectKey::namespaced("default", "none");
        let none = manager.client().live().get_opt::<ConfigMap>(&key).await;
        assert!(none.unwrap().is_none());
        server.requests().all().last().unwrap().user_agent.clone()
    };
    let agent = agent_of(config().version("1.4.2").manager_over(connect(), "web")).await;
    assert!(agent.starts_with("web/1.4.2 "), "{agent}");
    let agent = agent_of(config().manager_over(connect(), "web")).await;
    assert!(agent.starts_with("web/steersman-"), "{agent}");
    // A client configuration that names its program keeps that name.
    let named = connect().user_agent("other", "2.0");
    let agent = agent_of(config().version("1.4.2").manager_over(named, "web")).await;
    assert!(agent.starts_with("other/2.0 "), "{agent}");
}

// CONF-2: an unknown key or a wrong value is an error that names its source.
#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_known_keys() {
    let error = Sources::new().file("# comment\nlog-levle: debug\n").error();
    let expected = "settings.yaml:2: there is no setting \"log-levle\" (did you mean \"log-level\"?); the settings are";
    assert!(
        error.contains(expected) && error.contains("max-total-reconciles"),
        "{error}"
    );
    // A file cannot refer to another file.
    let error = Sources::new().file("config: other.yaml\n").error();
    assert!(error.contains("no setting \"config\""), "{error}");
    let error = Sources::new()
        .file("controllers:\n  website:\n    workers: 3\n")
        .error();
    assert!(
        error.contains("settings.yaml:3: there is no setting \"workers\""),
        "{error}"
    );
}

// CONF-2: an unknown key or a wrong value is an error that names its source.
#[test]
fn a_refused_value_is_named_with_its_place_and_the_allowed_values() {
    for (file, expected) in [
        (
            "\nlog-format: xml",
            ":2: log-format is \"xml\": the allowed values are human, json",
        ),
        (
            "preflight: {}",
            ":1: preflight is \"a mapping\": the value is a text",
        ),
        (
            "namespace: [[a]]",
            ":1: namespace is \"a\": the value is a text",
        ),
        (
            "reconcile-timeout: soon",
            ":1: reconcile-timeout is \"soon\": a duration is",
        ),
        (
            "controllers:\n  website:\n    max-concurrent-reconciles: 0",
            ":3: controllers.website.max-concurrent-reconciles is \"0\": the number is at least 1",
        ),
        (
            "controllers: [a]",
            ":1: controllers is \"a\": the value is a mapping",
        ),
        (
            "- a\n- b",
            "a configuration file is a mapping of keys to values",
        ),
        ("a: [", "line 1"),
        ("log-level: info\nlog-level: warn", "uplicate"),
    ] {
        let error = Sources::new().file(file).error();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = Sources::new()
        .variable("STEERSMAN_PREFLIGHT", "maybe")
        .error();
    let expected = "the environment variable STEERSMAN_PREFLIGHT: preflight is \"maybe\": the allowed values are true, t, 1, false, f and 0";
    assert_eq!(error, expected);
    // An invalid value is an error even if another source decides.
    let sources = Sources::new().variable("STEERSMAN_PREFLIGHT", "maybe");
    assert!(sources.read(&["--preflight"]).is_err());
}

#[test]
fn a_missing_file_is_named_and_an_empty_one_is_no_error() {
    let sources = Sources::new();
    let error = sources
        .read(&["--config=/nowhere/settings.yaml"])
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/settings.yaml"));
    for file in ["", "# nothing\n", "---\n", "log-level:\n"] {
        let config = Sources::new().file(file).read(&[]).unwrap();
        assert_eq!(config.log_level(), "info", "{file:?}");
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Own {
    #[serde(default)]
    image: Option<String>,
}

impl OperatorSettings for Own {
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("log-level", "error")];
}

#[test]
fn a_default_of_the_program_replaces_that_of_the_framework() {
    let config = Sources::new().read_as::<Own>(&[]).unwrap();
    assert_eq!(config.log_level(), "error");
    let help = OperatorArgs::<Own>::command().render_help().to_string();
    assert!(help.contains("[default: error]"), "{help}");
}

#[test]
fn the_settings_of_the_program_are_read_as_its_own_type() {
    let sources = Sources::new().file("log-level: warn\noperator:\n  image: nginx\n");
    let config = sources.read_as::<Own>(&[]).unwrap();
    assert_eq!(
        (config.operator.image.as_deref(), config.log_level()),
        (Some("nginx"), "warn")
    );
    assert!(
        Sources::new()
            .read_as::<Own>(&[])
            .unwrap()
            .operator
            .image
            .is_none()
    );
    let unknown = Sources::new().file("operator:\n  image: nginx\n  imgae: x\n");
    let error = unknown.read_as::<Own>(&[]).unwrap_err().to_string();
    assert!(
        error.contains("line 3") && error.contains("imgae"),
        "{error}"
    );
    // A program without settings of its own refuses settings under `operator`.
    assert!(unknown.error().contains("image"));
    // Without settings, the error has no names to suggest.
    let text = unknown.error();
    assert!(
        text.contains("`image`, and there are no settings here, at line 2"),
        "{text}"
    );
}

#[derive(Debug, Deserialize)]
struct Strict {
    #[expect(dead_code, reason = "only its absence is tested")]
    region: String,
}

impl OperatorSettings for Strict {}

#[test]
fn a_missing_setting_of_the_program_is_named() {
    let error = Sources::new()
        .read_as::<Strict>(&[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("operator") && error.contains("region"),
        "{error}"
    );
}

// CTRL-11: if several sources set a value for a controller, the flag decides.
#[tokio::test(start_paused = true)]
async fn settings_of_controllers_reach_the_manager() {
    let file =
        "controllers:\n  website:\n    max-concurrent-reconciles: 4\n    reconcile-timeout: 2m\n";
    let sources = Sources::new().file(file);
    let flag =
        "--controller=website.max-concurrent-reconciles=8,a.b.backoff-max=5s,a.b.max-retries=3";
    let config = sources.read(&[flag, "--max-total-reconciles=16"]).unwrap();
    let controllers = config.controllers();
    assert_eq!(controllers.names().collect::<Vec<_>>(), ["a.b", "website"]);
    let text = format!("{controllers:?}");
    assert!(
        text.contains("max_concurrent_reconciles: Some(8)"),
        "{text}"
    );
    assert!(
        text.contains("permits: 16")
            && text.contains("Some((5ms, 5s))")
            && text.contains("max_retries: Some(3)"),
        "{text}"
    );
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = config
        .manager_over(client_config, "website-operator")
        .build()
        .unwrap();
    assert_eq!(manager.client_config().program(), "website-operator");
    // The manager has no controllers with these names.
    let refused = manager
        .start(steersman_manager::Shutdown::never())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("\"website\""), "{refused}");
}

#[test]
fn durations_are_written_as_in_go() {
    let config = Sources::new().read(&["--reconcile-timeout=1m30s"]).unwrap();
    let text = format!("{:?}", config.controllers());
    assert!(
        text.contains(&format!("{:?}", Duration::from_secs(90))),
        "{text}"
    );
    let refused = Args::try_parse_from(["program", "--reconcile-timeout=5"]).unwrap_err();
    assert!(refused.to_string().contains("500ms"), "{refused}");
}

#[tokio::test]
async fn a_kubeconfig_and_a_context_are_chosen() {
    let sources = Sources::new();
    let path = sources.folder.path().join("kubeconfig");
    std::fs::write(&path, KUBECONFIG).unwrap();
    let flags = [
        format!("--kubeconfig={}", path.display()),
        "--context=two".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let client_config = sources.read(&flags).unwrap().connect().await.unwrap();
    assert_eq!(client_config.default_namespace(), "shop");
    let in_file = sources.file(&format!("kubeconfig: {}\ncontext: one\n", path.display()));
    let client_config = in_file.read(&[]).unwrap().connect().await.unwrap();
    assert_eq!(client_config.default_namespace(), "web");
    let unknown = in_file.read(&["--context=three"]).unwrap().connect().await;
    let error = std::error::Error::source(&unknown.unwrap_err())
        .unwrap()
        .to_string();
    assert!(
        error.contains("three") && error.contains("one, two"),
        "{error}"
    );
    // A default of the program counts, and KUBECONFIG goes before it.
    let with_variable = Sources::new().variable("KUBECONFIG", "another.kubeconfig");
    for (sources, counts) in [(Sources::new(), true), (with_variable, false)] {
        let config = sources.read_as::<WithKubeconfig>(&[]).unwrap();
        let error = format!("{:?}", config.connect().await.err());
        assert_eq!(error.contains(ABSENT), counts, "{error}");
    }
}

const ABSENT: &str = "default-of-the-program.kubeconfig";

/// The settings of a program with a default for `--kubeconfig`: a file that does not exist.
#[derive(Debug, Deserialize)]
struct WithKubeconfig {}

impl OperatorSettings for WithKubeconfig {
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("kubeconfig", ABSENT)];
}

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: here, user: me, namespace: web}}
- {name: two, context: {cluster: here, user: me, namespace: shop}}
clusters:
- {name: here, cluster: {server: "https://127.0.0.1:6443"}}
users:
- {name: me, user: {token: t}}
"#;
