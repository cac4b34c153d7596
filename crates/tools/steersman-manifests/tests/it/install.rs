//! Tests that an API server with RBAC accepts the installer's objects, and that the program runs under its roles.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_cli::{Error as ProgramError, Program};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_crds::{Crd, Crds};
use steersman_manager::Shutdown;
use steersman_manifests::{Files, Manifests, Options, RuleList};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::{Authorization, User};
use steersman_testenv::apiserver::faults::RequestRecord;
use steersman_testenv::{TestEnv, eventually_within};
use steersman_webhook::{AdmissionContext, Defaulter, Refusal, Validator};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::examples::{manifests, options};

pub(crate) const ACCOUNT: &str = "system:serviceaccount:sites-system:sites";

struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

/// A defaulter that adds an entry to each ConfigMap.
struct Marker;

impl Defaulter<ConfigMap> for Marker {
    async fn default(&self, object: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        let data = object.data.get_or_insert_default();
        data.insert("marked".to_owned(), "true".to_owned());
        Ok(())
    }
}

impl Validator<ConfigMap> for Marker {
    async fn validate_create(&self, _: &ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }

    async fn validate_update(
        &self,
        _: &ConfigMap,
        _: &ConfigMap,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

fn program() -> Program {
    let definition = json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Site", "plural": "sites"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    Program::new("sites", "1.2.3")
        .crds(Crds::new().with(Crd::new(&definition)))
        .webhooks(|server, _| {
            let server = server.defaulter::<ConfigMap>(Marker);
            server.validator::<ConfigMap>(Marker)
        })
        .setup(|manager, _| {
            let controller = Controller::builder::<ConfigMap>().build(Idle)?;
            Ok(manager.add_controller(controller)?)
        })
}

/// Returns the objects in the installer.
pub(crate) fn documents(files: &Files) -> Vec<Value> {
    let text = &files["dist/install.yaml"];
    let documents = text.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

pub(crate) fn enforcing() -> ApiServer {
    let server = ApiServer::builder().authorization(Authorization::Rbac);
    server.build()
}

pub(crate) fn apply(server: &ApiServer, documents: &[Value]) {
    for document in documents {
        let name = format!("{} {}", document["kind"], document["metadata"]["name"]);
        if let Err(refused) = server.create(document.clone()) {
            panic!("{name}: {refused:?}");
        }
    }
}

/// Returns an address on which nothing listens.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Returns the first thing that the program has not done yet.
fn missing(server: &ApiServer) -> Option<&'static str> {
    let has_authority = |kind: &str| {
        let resource = format!("{kind}.admissionregistration.k8s.io");
        let configuration = server.get(&resource, "", "sites");
        configuration.is_some_and(|one| one["webhooks"][0]["clientConfig"]["caBundle"].is_string())
    };
    let lease = server.get("leases.coordination.k8s.io", "sites-system", "sites");
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let definition = server.get(definitions, "", "sites.example.com");
    if lease.is_none() {
        Some("the Lease")
    } else if definition.is_none() {
        Some("the definition")
    } else if server
        .get("secrets", "sites-system", "sites-certificates")
        .is_none()
    {
        Some("the Secret")
    } else if !has_authority("mutatingwebhookconfigurations") {
        Some("the authority of the defaulter")
    } else if !has_authority("validatingwebhookconfigurations") {
        Some("the authority of the validator")
    } else {
        None
    }
}

/// Creates a ConfigMap over HTTP, so that webhooks are called. Fails if the defaulter did not mark it.
async fn is_marked(env: &TestEnv) -> Result<(), String> {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "map-"}});
    let request = http::Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(map.to_string().into_bytes())
        .unwrap();
    let created: Result<Value, _> = env.client().unwrap().request(request).await;
    let created = created.map_err(|error| error.to_string())?;
    if created["data"]["marked"] == "true" {
        Ok(())
    } else {
        Err(created.to_string())
    }
}

/// Starts the program with the flags of its Deployment and the permissions of its service account. Dropping the sender
/// stops the program.
pub(crate) fn start(env: &TestEnv, objects: &[Value], program: Program) -> Running {
    start_with_files(env, objects, program, Path::new("/certs"))
}

/// Starts the program like [`start`], with the files of its certificate in a folder.
pub(crate) fn start_with_files(
    env: &TestEnv,
    objects: &[Value],
    program: Program,
    certificate: &Path,
) -> Running {
    let server = env.server().unwrap();
    let home = TempDir::new().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&env.kubeconfig().unwrap()).unwrap();
    let token = server.add_user(User::new(ACCOUNT));
    config["users"][0]["user"] = json!({ "token": token });
    config["contexts"][0]["context"]["namespace"] = json!("sites-system");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let address = free_address();
    let url = format!("https://{address}");
    server.route_service("sites-system", "sites", 443, &url);

    // The flags of the Deployment are adapted: addresses and namespace are those of this process.
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let container = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().unwrap().iter();
    let args = args.map(|arg| match arg.as_str().unwrap() {
        "--webhook-bind-address=:9443" => format!("--webhook-bind-address={address}"),
        "--metrics-bind-address=:8443" => "--metrics-bind-address=127.0.0.1:0".to_owned(),
        "--health-probe-bind-address=:8081" => "--health-probe-bind-address=0".to_owned(),
        "--webhook-cert-path=/certs" => format!("--webhook-cert-path={}", certificate.display()),
        arg => arg.to_owned(),
    });
    let own = [
        "--leader-election-namespace=sites-system".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
    ];
    let words = ["sites".to_owned()].into_iter().chain(args).chain(own);
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = Shutdown::when(async move {
        // A dropped sender also stops the program.
        let _ = stopped.await;
    });
    let running = tokio::spawn(program.run_with(words.collect::<Vec<_>>(), shutdown));
    Running {
        stop,
        running,
        _home: home,
    }
}

/// A running program, with the folder of its kubeconfig.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ProgramError>>,
    _home: TempDir,
}

impl Running {
    /// Stops the program, and checks that it has not failed.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.running.await.unwrap().unwrap();
    }
}

/// Returns the program's requests that were refused for lack of a permission.
pub(crate) fn refused(server: &ApiServer) -> Vec<RequestRecord> {
    let is_refused =
        |request: &RequestRecord| request.user == ACCOUNT && request.status == Some(403);
    server.requests().matching(is_refused)
}

fn installed() -> Vec<Value> {
    let description = program().describe().unwrap();
    let manifests = Manifests::new(&description, &RuleList::default(), &Options::default());
    documents(&manifests.unwrap().install())
}

// MANIFEST-2: RBAC refuses no request of the operator under the generated manifests.
#[tokio::test]
async fn the_program_runs_with_the_permissions_of_its_installer_and_lacks_each_that_is_removed() {
    let env = TestEnv::https(enforcing()).await.unwrap();
    let server = env.server().unwrap();
    let mut objects = installed();
    // The definition is left out, because the leader creates it.
    objects.retain(|object| object["kind"] != "CustomResourceDefinition");
    let is_election = |object: &&mut Value| {
        object["kind"] == "Role" && object["metadata"]["name"] == "sites-leader-election"
    };
    let role = objects.iter_mut().find(is_election).unwrap();
    let whole = role.clone();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["leases"]));
    assert_ne!(*role, whole);
    apply(server, &objects);

    let program = start(&env, &objects, program());
    let check = async || match &refused(server)[..] {
        [] => Err("none is refused".to_owned()),
        _ => Ok(()),
    };
    let patience = Duration::from_secs(60);
    let outcome =
        eventually_within(patience, "a request without permission is refused", check).await;
    outcome.unwrap();
    let left = missing(server);
    assert_eq!(left, Some("the Lease"));

    let rules = json!({"rules": whole["rules"]});
    let roles = "roles.rbac.authorization.k8s.io";
    server
        .merge_patch(roles, "sites-system", "sites-leader-election", &rules)
        .unwrap();
    let check = async || missing(server).map_or(Ok(()), |missing| Err(missing.to_owned()));
    let outcome = eventually_within(patience, "the program has done everything", check).await;
    outcome.unwrap();
    let check = async || is_marked(&env).await;
    let marked = eventually_within(patience, "the defaulter answers", check).await;
    marked.unwrap();
    program.stop().await;
    for request in refused(server) {
        assert_eq!(request.resource, "leases", "{request:?}");
    }
}

#[tokio::test]
async fn an_api_server_accepts_every_object_of_an_operator_with_everything() {
    for (options, extra) in [
        (options(), &[][..]),
        (
            Options {
                network_policy: true,
                namespaces: vec!["web".to_owned(), "shop".to_owned()],
                ..options()
            },
            &["web", "shop"],
        ),
    ] {
        let server = enforcing();
        for namespace in ["websites-system"].iter().chain(extra) {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            server.create(namespace).unwrap();
        }
        let documents = documents(&manifests(&options).install());
        apply(&server, &documents);
        // The Services select the Pods of the Deployment by their labels.
        let get = |resource, name| server.get(resource, "websites-system", name).unwrap();
        let deployment = get("deployments.apps", "website-operator");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        for service in ["website-operator", "website-operator-metrics"] {
            let selector = &get("services", service)["spec"]["selector"];
            assert!(selector.is_object(), "{selector}");
            assert_eq!(selector, labels, "{service}");
        }
    }
}

/// Installs the definitions of the Prometheus operator's kinds, without their schemas.
fn install_prometheus(server: &ApiServer) {
    for (kind, plural) in [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        server.install_crd(definition).unwrap();
    }
}

#[tokio::test]
async fn an_api_server_accepts_the_monitor_which_finds_the_metrics() {
    let server = enforcing();
    install_prometheus(&server);
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "websites-system"}});
    server.create(namespace).unwrap();
    let files = manifests(&options()).kustomize();
    apply(&server, &documents(&manifests(&options()).install()));
    let monitoring = files
        .iter()
        .filter(|(path, _)| path.contains("/prometheus/") && !path.ends_with("kustomization.yaml"));
    for (_, text) in monitoring {
        server
            .create(serde_saphyr::from_str(text).unwrap())
            .unwrap();
    }
    let get = |resource, name| server.get(resource, "websites-system", name).unwrap();
    let service = get("services", "website-operator-metrics");
    let monitor = get("servicemonitors.monitoring.coreos.com", "website-operator");
    assert_eq!(
        service["metadata"]["labels"],
        monitor["spec"]["selector"]["matchLabels"]
    );
    assert_eq!(
        service["spec"]["ports"][0]["name"],
        monitor["spec"]["endpoints"][0]["port"]
    );
}
