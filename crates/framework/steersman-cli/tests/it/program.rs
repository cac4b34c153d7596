//! Tests a whole program: its description, and its run.

use std::ffi::OsString;
use std::future::ready;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Service};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::RequestRecord;
use steersman_cli::description::{DescribedKind, DescribedRule, DescribedWebhook};
use steersman_cli::{BoxError, Description, Error as ProgramError, Program};
use steersman_controller::{
    Action, Context, Controller, Error, Reconciler, Request, Watch, handler,
};
use steersman_crds::{Crd, Crds};
use steersman_manager::{Manager, Shutdown};
use steersman_object::{PolicyRule, report};
use steersman_webhook::{AdmissionContext, Conversions, Defaulter, Refusal, Validator};
use tokio::time::timeout;

struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

struct Lenient;

impl Defaulter<Deployment> for Lenient {
    async fn default(&self, _: &mut Deployment, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Validator<Deployment> for Lenient {
    async fn validate_create(&self, _: &Deployment, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }

    async fn validate_update(
        &self,
        _: &Deployment,
        _: &Deployment,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

fn add(manager: &Manager) -> Result<(), BoxError> {
    let controller = Controller::builder::<Deployment>()
        .owns::<Pod>()
        .watch(Watch::owned::<Service>().optional())
        .watch(Watch::of::<Node>(handler::mapped(|_: &Node| Vec::<Request>::new())).optional())
        .needs_rule(eviction(), "evicts Pods");
    manager.add_controller(controller.build(Idle)?)?;
    manager.add_controller(
        Controller::builder::<ConfigMap>()
            .name("pods")
            .build(Idle)?,
    )?;
    Ok(())
}

fn eviction() -> PolicyRule {
    PolicyRule::new("", &["pods/eviction"], &["create"])
}

fn definitions() -> Crds {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Site", "plural": "sites"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    Crds::new().with(Crd::new(&definition))
}

/// Returns the definition of a kind with two versions that have different fields.
fn two_versions(group: &str, kind: &str, plural: &str) -> Crds {
    let version = |name: &str, is_stored: bool, field: &str| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {field: {"type": "string"}},
            }},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [version("v1", true, "host"), version("v1beta1", false, "domain")],
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    Crds::new().with(Crd::new(&definition))
}

/// Returns a program with a conversion webhook for its kind.
fn converting() -> Program {
    Program::new("deployments", "1")
        .crds(two_versions("apps", "Deployment", "deployments"))
        .webhooks(|server, _| server.conversions(Conversions::new().hub::<Deployment>()))
}

fn program() -> Program {
    Program::new("sites", "1.2.3")
        .crds(definitions())
        .webhooks(|server, _| {
            let server = server.defaulter::<Deployment>(Lenient);
            server.validator::<Deployment>(Lenient)
        })
        .setup(|manager, _| add(manager))
}

/// Returns a kind for a description.
fn kind(group: &str, kind: &str, plural: &str) -> DescribedKind {
    DescribedKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
    }
}

#[test]
fn a_program_describes_itself_without_a_cluster() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let _entered = runtime.as_ref().unwrap().enter();
    let description = program().describe().unwrap();
    assert_eq!(
        (&*description.name, &*description.version),
        ("sites", "1.2.3")
    );
    assert_eq!(
        description.definitions[0]["metadata"]["name"],
        "sites.example.com"
    );
    let deployment = kind("apps", "Deployment", "deployments");
    let expected = [
        kind("", "ConfigMap", "configmaps"),
        kind("", "Pod", "pods"),
        deployment.clone(),
    ];
    assert_eq!(description.kinds, expected);
    let names = description.controllers.iter();
    let names: Vec<&str> = names.map(|controller| &*controller.name).collect();
    assert_eq!(names, ["deployment", "pods"]);
    let controller = &description.controllers[0];
    let service = kind("", "Service", "services");
    assert_eq!(controller.primary, Some(deployment.clone()));
    assert_eq!(controller.owned, [kind("", "Pod", "pods"), service.clone()]);
    // The kind may be missing on the server, so it is not in the cache yet.
    let mut node = kind("", "Node", "nodes");
    node.namespaced = false;
    let watched = [deployment.clone(), kind("", "Pod", "pods"), service, node];
    assert_eq!(controller.watched, watched);
    let rule = DescribedRule {
        rule: eviction(),
        reason: "evicts Pods".to_owned(),
    };
    assert_eq!(controller.needed_rules, [rule]);
    let webhook = |path: &str, mutates| DescribedWebhook {
        path: path.to_owned(),
        mutates,
        object: deployment.clone(),
    };
    let expected = [
        webhook("/mutate-apps-v1-deployment", true),
        webhook("/validate-apps-v1-deployment", false),
    ];
    assert_eq!(description.webhooks, expected);
    // Another program can read the description.
    let read: Description = serde_json::from_value(json!(description)).unwrap();
    assert_eq!(read, description);
}

#[tokio::test]
async fn the_leader_of_a_program_installs_its_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let words = [
        "sites",
        "--install",
        "--health-probe-bind-address=0",
        "--kubeconfig",
    ]
    .map(OsString::from);
    let words = words.into_iter().chain([kubeconfig.into_os_string()]);
    // The second run keeps the log of the first, because a process has one log.
    for _ in 0..2 {
        let stopped = Shutdown::when(ready(()));
        program().run_with(words.clone(), stopped).await.unwrap();
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = Shutdown::when(async move {
        // A dropped sender also stops the program.
        let _ = stopped.await;
    });
    let running = tokio::spawn(program().run_with(words, shutdown));
    let installed = timeout(Duration::from_secs(60), async {
        let definitions = "customresourcedefinitions.apiextensions.k8s.io";
        while server.get(definitions, "", "sites.example.com").is_none() {
            tokio::task::yield_now().await;
        }
    });
    installed.await.unwrap();
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let agents = server
        .requests()
        .all()
        .into_iter()
        .map(|record| record.user_agent);
    assert!(
        agents
            .into_iter()
            .any(|agent| agent.starts_with("sites/1.2.3"))
    );
    serving.stop().await;
}

#[tokio::test]
async fn a_program_that_cannot_run_says_why() {
    let failing = Program::new("sites", "1").setup(|_, _| Err("the moon is full".into()));
    let error = failing.describe().unwrap_err();
    assert_eq!(
        report(&error).to_string(),
        "the controllers cannot be set up: the moon is full"
    );
    for (words, expected) in [
        (
            vec!["sites", "--no-such-flag"],
            "unexpected argument '--no-such-flag'",
        ),
        (vec!["sites", "--help"], "--webhook-bind-address"),
    ] {
        let error = program()
            .run_with(words, Shutdown::when(ready(())))
            .await
            .unwrap_err();
        assert!(matches!(error, ProgramError::Usage(_)));
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("describe"), "{error}");
    }
}

/// DEF-7: different versions of a kind need a conversion webhook.
#[tokio::test]
async fn a_program_without_its_conversion_webhook_does_not_install_versions_that_differ() {
    let description = converting().describe().unwrap();
    let conversion = &description.definitions[0]["spec"]["conversion"];
    assert_eq!(conversion["strategy"], "Webhook");
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let run = |program: Program, flag: &str| {
        let flags = [
            "program",
            flag,
            "--health-probe-bind-address=0",
            "--kubeconfig",
        ];
        let words = flags.map(OsString::from).into_iter();
        let words = words.chain([kubeconfig.clone().into_os_string()]);
        program.run_with(words.collect::<Vec<_>>(), Shutdown::when(ready(())))
    };
    let error = run(converting(), "--install").await.unwrap_err();
    assert!(matches!(error, ProgramError::Unconverted(_)));
    let text = report(&error).to_string();
    for part in [
        "--webhook-bind-address",
        "--install-newest-version-only",
        "v1beta1 and v1 differ in domain, host",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A program without a conversion does not serve a conversion webhook.
    let definitions = || two_versions("example.com", "Site", "sites");
    let other = || Program::new("sites", "1").crds(definitions());
    let error = run(other(), "--install").await.unwrap_err();
    assert!(report(&error).to_string().contains("Crd::converted_by"));
    assert!(other().describe().is_err());
    let is_write =
        |record: &RequestRecord| record.is_for("customresourcedefinitions.apiextensions.k8s.io");
    assert_eq!(server.requests().count(is_write), 0);
    run(other(), "--install-newest-version-only").await.unwrap();
    serving.stop().await;
}

/// The flags of a program.
#[derive(clap::Args)]
struct SiteArgs {
    /// The domain of sites without one
    #[arg(long, default_value = "example.com")]
    domain: String,
}

#[tokio::test]
async fn help_begins_with_the_programs_description_and_lists_its_own_flags() {
    let described = || program().about("Serves sites.").args::<SiteArgs>();
    let (run, stopped) = (described(), Shutdown::when(ready(())));
    let help = run.run_with(["sites", "--help"], stopped).await;
    let help = help.unwrap_err().to_string();
    assert!(help.starts_with("Serves sites.\n"), "{help}");
    assert!(help.contains("--domain <DOMAIN>"), "{help}");
    let (run, stopped) = (described(), Shutdown::when(ready(())));
    let wrong = run.run_with(["sites", "--domain"], stopped).await;
    assert!(matches!(wrong, Err(ProgramError::Usage(_))));
    let seen = |words: &'static [&'static str]| {
        let (told, seen) = std::sync::mpsc::channel();
        let program = Program::new("sites", "1").args::<SiteArgs>();
        let program = program.setup(move |_, config| {
            told.send(config.args::<SiteArgs>().unwrap().domain.clone())?;
            assert!(config.args::<String>().is_none());
            Err("seen".into())
        });
        async move {
            let stopped = Shutdown::when(ready(()));
            // The kubeconfig names a server that receives no request.
            let ended = program.run_with(words.iter().copied(), stopped).await;
            assert!(ended.is_err());
            seen.recv().unwrap()
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let serving = ApiServer::new().serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let kubeconfig: &'static str = kubeconfig.to_str().unwrap().to_owned().leak();
    let words: &'static [&'static str] =
        vec!["sites", "--kubeconfig", kubeconfig, "--domain=example.org"].leak();
    assert_eq!(seen(words).await, "example.org");
    assert_eq!(seen(&words[..3]).await, "example.com");
    serving.stop().await;
}

// The workspace as a whole has the feature, so the step `features` of `.ci/run` runs this test.
#[cfg(not(feature = "otlp"))]
#[tokio::test]
async fn without_the_feature_the_flags_of_traces_are_errors_that_name_it() {
    for flag in [
        "--otlp-endpoint=http://collector:4318",
        "--otlp-sample-ratio=0.5",
    ] {
        let stopped = Shutdown::when(ready(()));
        let error = program()
            .run_with(["sites", flag], stopped)
            .await
            .unwrap_err();
        let (key, text) = (&flag[2..15], report(&error).to_string());
        assert!(matches!(error, ProgramError::NoFeature { .. }), "{text}");
        for part in [key, "\"otlp\"", "Cargo.toml"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
