//! Helpers that deploy an operator to a cluster with RBAC, and run `cargo steersman doctor` on it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_object::ObjectKey;
use steersman_testenv::apiserver::auth::User;
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::{ApiServer, Authorization, Serving, manifests};
use steersman_testenv::eventually;
use steersman_webhook::BuiltInCertificates;
use tokio_util::sync::CancellationToken;

use crate::cargo::{steersman, succeeds};
use crate::deploy::{has_kubectl, in_cluster};
use crate::scaffold::NEW;

const NAMESPACE: &str = "greeter-system";
pub(crate) const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// An operator that is deployed to a cluster with RBAC.
pub(crate) struct Examined {
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) server: ApiServer,
    pub(crate) serving: Serving,
    /// The folder of a new operator that runs no replica; `None` for an existing operator.
    pub(crate) here: Option<tempfile::TempDir>,
}

impl Examined {
    /// Creates an operator, generates the manifests of its program, and applies them.
    pub(crate) async fn deployed(program: impl FnOnce(&Path) -> PathBuf) -> Self {
        let here = tempfile::tempdir().unwrap();
        succeeds(steersman(here.path()).args(NEW));
        let folder = here.path().join("greeter");
        let program = program(&folder);
        succeeds(
            steersman(&folder)
                .args(["generate", "--program"])
                .arg(&program),
        );
        let mut examined = Self::of(&folder, &program).await;
        examined.here = Some(here);
        examined.renew(0);
        examined
    }

    /// Deploys an operator that has generated manifests.
    pub(crate) async fn of(folder: &Path, program: &Path) -> Self {
        let examined = Self::starting(folder, program).await;
        examined.deploy().await;
        examined.are_available().await;
        examined
    }

    /// Starts a cluster in which the operator is not deployed.
    pub(crate) async fn starting(folder: &Path, program: &Path) -> Self {
        let server = ApiServer::builder()
            .authorization(Authorization::Rbac)
            .play(Played::everything().speed(Speed::instant()))
            .build();
        let serving = server.serve("127.0.0.1:0").await.unwrap();
        Self {
            folder: folder.to_owned(),
            program: program.to_owned(),
            server,
            serving,
            here: None,
        }
    }

    /// Runs `deploy`; without kubectl, applies the same objects itself.
    async fn deploy(&self) {
        if !has_kubectl() {
            for manifest in manifests::read(self.folder.join("dist/install.yaml")).unwrap() {
                let applied = self.server.apply(&manifest.object, "test");
                applied.unwrap_or_else(|refused| panic!("{manifest}: {refused:?}"));
            }
            return;
        }
        let kubeconfig = self.folder.join("kubeconfig");
        self.serving.write_kubeconfig(&kubeconfig).unwrap();
        let mut deploy = steersman(&self.folder);
        deploy.arg("deploy");
        let mut deploy = in_cluster(deploy, &self.program, &kubeconfig);
        let deployed = tokio::task::spawn_blocking(move || succeeds(&mut deploy));
        deployed.await.unwrap();
    }

    async fn are_available(&self) {
        eventually("the replicas are available", || async {
            let deployment = self
                .server
                .get("deployments.apps", "greeter-system", "greeter");
            let available = deployment.map(|one| one["status"]["availableReplicas"].clone());
            match available == Some(json!(2)) {
                true => Ok(()),
                false => Err(format!("{available:?}")),
            }
        })
        .await
        .unwrap();
    }

    /// Writes a Lease that a replica renewed this number of seconds ago.
    pub(crate) fn renew(&self, seconds: i64) {
        let time = k8s_openapi::jiff::Timestamp::now();
        let time = time - k8s_openapi::jiff::SignedDuration::from_secs(seconds);
        let time = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "greeter", "namespace": "greeter-system"},
            "spec": {
                "holderIdentity": "greeter-a", "leaseDurationSeconds": 15, "acquireTime": time, "renewTime": time,
            },
        });
        self.server.apply(&lease, "test").unwrap();
    }

    /// Runs `doctor` as a user. Returns the output, and whether it reports no problem.
    pub(crate) fn doctor(&self, user: Option<&str>) -> (String, bool) {
        let kubeconfig = match user {
            Some(user) => self.serving.kubeconfig_for(User::new(user)),
            None => self.serving.kubeconfig(),
        };
        std::fs::write(self.folder.join("kubeconfig"), kubeconfig).unwrap();
        examine(&self.folder, &self.program)
    }

    /// Injects an authority as a leader does, and waits until `doctor` reports no problem.
    pub(crate) async fn inject_authority(&self) {
        let key = |name| ObjectKey::namespaced("greeter-system", name);
        let certificates = BuiltInCertificates::new(key("greeter-certificates"), key("greeter"))
            .inject_into_mutating("greeter")
            .inject_into_validating("greeter")
            .inject_into_definition("greetings.example.com");
        let client_config = ClientConfig::in_process(self.server.service(), "default");
        let (stop, leads) = (CancellationToken::new(), certificates.clone());
        let stopped = stop.clone();
        let leader = tokio::spawn(async move { leads.lead(&client_config, stopped).await });
        eventually("nothing is wrong", || async {
            self.renew(0);
            let (report, is_healthy) = self.doctor(None);
            match is_healthy && report.contains("\n0 problems, 0 unknown, ") {
                true => Ok(()),
                false => Err(report),
            }
        })
        .await
        .unwrap();
        stop.cancel();
        leader.await.unwrap();
    }

    /// Runs `doctor` while a role lacks one of its rules.
    fn doctor_without(&self, (resource, namespace, name): RoleKey, rule: usize) -> String {
        let role = self.server.get(resource, namespace, name).unwrap();
        let mut lacking = role.clone();
        lacking["rules"].as_array_mut().unwrap().remove(rule);
        let lacking = self.server.update(resource, lacking).unwrap();
        if self.here.is_some() {
            self.renew(0);
        }
        let (report, _) = self.doctor(None);
        let mut whole = role;
        whole["metadata"]["resourceVersion"] = lacking["metadata"]["resourceVersion"].clone();
        self.server.update(resource, whole).unwrap();
        report
    }

    /// Removes each rule of the operator's roles in turn, checks that `doctor` names exactly the removed rule, and
    /// returns the number of rules.
    pub(crate) fn names_each_lacking_rule(&self) -> usize {
        let mut removed = 0;
        for key in OWN_ROLES {
            let Some(role) = self.server.get(key.0, key.1, key.2) else {
                continue;
            };
            for (index, rule) in role["rules"].as_array().unwrap().iter().enumerate() {
                removed += 1;
                let report = self.doctor_without(key, index);
                // The ClusterRole grants Events, too.
                if key.2 == "greeter-leader-election" && rule["resources"] == json!(["events"]) {
                    assert_has(&report, &["\n0 problems, 0 unknown, "]);
                } else {
                    assert_names(&report, rule);
                }
            }
        }
        removed
    }
}

/// The roles of the operator's service account.
const OWN_ROLES: [RoleKey; 4] = [
    (ROLES, "", "greeter"),
    (ROLES, "", "greeter-metrics-auth"),
    (
        "roles.rbac.authorization.k8s.io",
        NAMESPACE,
        "greeter-leader-election",
    ),
    (
        "roles.rbac.authorization.k8s.io",
        NAMESPACE,
        "greeter-certificates",
    ),
];

/// Checks that a report has exactly one problem, and that the problem names a rule with its reason.
fn assert_names(report: &str, rule: &Value) {
    assert_has(report, &["\n1 problem, 0 unknown, "]);
    let list =
        |field: &str| -> Vec<String> { serde_json::from_value(rule[field].clone()).unwrap() };
    let group = list("apiGroups").remove(0);
    for resource in list("resources") {
        let qualified = match (&*group, resource.split_once('/')) {
            ("", _) => resource.clone(),
            (group, Some((plural, part))) => format!("{plural}.{group}/{part}"),
            (group, None) => format!("{resource}.{group}"),
        };
        for verb in list("verbs") {
            assert!(
                is_named(report, &verb, &qualified),
                "{verb} {qualified}:\n{report}"
            );
        }
        assert_has(report, &[&format!("resources: [{}", list("resources")[0])]);
    }
}

/// The resource, the namespace and the name of a role.
type RoleKey = (&'static str, &'static str, &'static str);

/// Runs `doctor`, and returns the output and whether it reports no problem.
pub(crate) fn examine(folder: &Path, program: &Path) -> (String, bool) {
    let mut command = steersman(folder);
    command.env("KUBECONFIG", folder.join("kubeconfig"));
    let output = command
        .args(["doctor", "--program"])
        .arg(program)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (format!("{out}{err}"), output.status.success())
}

/// Checks that a report contains all these texts.
pub(crate) fn assert_has(report: &str, texts: &[&str]) {
    for text in texts {
        assert!(report.contains(text), "{text}:\n{report}");
    }
}

/// Returns whether a line of the report names the verb and the resource with a reason.
fn is_named(report: &str, verb: &str, resource: &str) -> bool {
    let lines = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "));
    let mut named = lines.filter_map(|line| line.split_once("; "));
    named.any(|(lacking, reason)| {
        let words: Vec<&str> = lacking.split([',', ' ']).collect();
        let has_origin = reason.starts_with("implied: ") || reason.starts_with("declared: ");
        words.contains(&verb) && words.contains(&resource) && has_origin
    })
}
