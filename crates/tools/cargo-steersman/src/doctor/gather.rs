//! Driver: gathers the facts of each check, and lets it find what is wrong.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use steersman_cli::Description;
use steersman_manifests::{Manifests, RoleGrant};
use steersman_object::{FieldSelector, Gvk, Kind, ListOptions, ObjectKey, Scope};
use steersman_testenv::apiserver::definition_check::ObjectCheck;
use steersman_webhook::certificates::CertificateReport;

use crate::doctor::election::check_lease;
use crate::doctor::finding::{DoctorFinding, Section, SeenFact, UnseenCause};
use crate::doctor::objects::ObjectTally;
use crate::doctor::own_certificates::{check_client, check_mounted, mounted_certificates};
use crate::doctor::own_definitions::check_definition;
use crate::doctor::permissions::{check_permissions, questions};
use crate::doctor::served_kinds::{check_kinds, needed_kinds, resource};
use crate::doctor::target::{ListedObject, TargetCluster};
use crate::doctor::webhook_setup::{WebhookFacts, check_webhooks};
use crate::doctor::workload::{
    PodFacts, check_conversion_flags, check_deployment, elects, flag_value, has_flag, is_ready,
};

/// An operator and the cluster in which it is examined.
pub(crate) struct Examination<'a> {
    pub(crate) cluster: &'a TargetCluster,
    pub(crate) description: &'a Description,
    pub(crate) manifests: &'a Manifests,
    pub(crate) now: Timestamp,
}

/// The number of access reviews at a time.
const AT_ONCE: usize = 8;

impl Examination<'_> {
    /// Runs all checks, one after another.
    pub(crate) async fn run(&self) -> Vec<Section> {
        let section = |subject, findings| Section { subject, findings };
        let (findings, is_usable) = self.server().await;
        let mut sections = vec![section("server", findings)];
        if !is_usable {
            return sections;
        }
        let wanted = self.manifests.definitions();
        let mut present = Vec::new();
        for definition in &wanted {
            let key = ObjectKey::cluster(text(&definition["metadata"]["name"]));
            let kind = Kind::of::<CustomResourceDefinition>();
            present.push(self.cluster.get(kind, &key).await);
        }
        let pairs = || wanted.iter().zip(&present);
        // The missing definition of a kind is a problem of its own.
        let missing: Vec<&str> = pairs()
            .filter(|(_, present)| matches!(present, Ok(None)))
            .map(|(wanted, _)| text(&wanted["metadata"]["name"]))
            .collect();
        let mut needed = needed_kinds(self.description);
        needed.retain(|one| !(one.is_own && missing.contains(&&*resource(&one.kind))));
        let kinds = check_kinds(&needed, &self.cluster.kinds().await);
        sections.push(section("kinds", kinds));
        let definitions = pairs().flat_map(|(wanted, present)| check_definition(wanted, present));
        sections.push(section("definitions", definitions.collect()));
        let deployment = self
            .cluster
            .get(Kind::of::<Deployment>(), &self.own_key())
            .await;
        let permissions = self.permissions(&deployment).await;
        sections.push(section("permissions", permissions));
        sections.push(section(
            "webhooks",
            self.webhooks(&present, &deployment).await,
        ));
        let certificates = self.certificates(&deployment).await;
        if !certificates.is_empty() {
            sections.push(section("certificates", certificates));
        }
        let key = self.lease_key(&deployment);
        let lease = self.cluster.get(Kind::of::<Lease>(), &key).await;
        let lease = check_lease(&key.to_string(), &lease, elects(&deployment), self.now);
        sections.push(section("leader election", vec![lease]));
        let name = self.own_key().to_string();
        let pods = self.pods(&deployment).await;
        let mut findings = check_deployment(&name, &deployment, &pods);
        if !self.description.converted.is_empty() {
            findings.extend(check_conversion_flags(&name, &deployment));
        }
        sections.push(section("deployment", findings));
        let mut objects = Vec::new();
        for (wanted, present) in pairs() {
            objects.extend(self.objects(wanted, present).await);
        }
        sections.push(section("objects", objects));
        sections
    }

    /// Returns the key of the operator's Lease, which flags of its Deployment may change.
    fn lease_key(&self, deployment: &SeenFact<Option<Value>>) -> ObjectKey {
        let flag = |flag: &str| {
            let deployment = deployment.as_ref().ok()?.as_ref()?;
            flag_value(deployment, flag)
        };
        let namespace = flag("--leader-election-namespace").unwrap_or(self.manifests.namespace());
        let name = flag("--leader-election-id").unwrap_or(&self.description.name);
        ObjectKey::namespaced(namespace, name)
    }

    /// Returns the key of the operator's Deployment, Service and service account.
    fn own_key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.manifests.namespace(), &self.description.name)
    }

    /// Checks the server, and whether other requests make sense.
    async fn server(&self) -> (Vec<DoctorFinding>, bool) {
        let endpoint = self.cluster.endpoint();
        let version = self.cluster.version().await;
        let certificate = self.cluster.client_certificate();
        let certificate = certificate.and_then(|one| check_client(&one, self.now));
        let mut findings: Vec<DoctorFinding> = certificate.into_iter().collect();
        let certificates = findings.len();
        findings.push(match &version {
            Ok(version) => DoctorFinding::good(format!("{endpoint} runs Kubernetes {version}")),
            Err(unseen) => unseen.finding(&format!("the version of {endpoint}")),
        });
        match self.cluster.user().await {
            Ok(user) => findings.push(DoctorFinding::good(format!(
                "the credentials are those of {user}"
            ))),
            Err(unseen) if unseen.cause == UnseenCause::Unauthorized => {
                let text = format!(
                    "{endpoint} does not know the credentials: {}",
                    unseen.problem
                );
                let advice = "renew the credentials in the kubeconfig, or choose another context with --context";
                if version.is_err() {
                    findings.truncate(certificates);
                }
                findings.push(DoctorFinding::problem(text, advice));
                return (findings, false);
            }
            Err(unseen) if unseen.cause == UnseenCause::Unanswered && version.is_err() => {
                let text = format!("{endpoint} does not answer: {}", unseen.problem);
                let advice = "look at the address in the kubeconfig and whether the cluster runs, or choose another context \
                              with --context";
                findings.truncate(certificates);
                findings.push(DoctorFinding::problem(text, advice));
                return (findings, false);
            }
            // Servers before 1.28 do not serve this review.
            Err(unseen) => findings.push(unseen.finding("the user of the credentials")),
        }
        (findings, true)
    }

    /// Returns the roles that the operator's account should have. That of the leader election is in the namespace of
    /// the Lease.
    fn grants(&self, deployment: &SeenFact<Option<Value>>) -> Vec<RoleGrant> {
        let mut grants = self.manifests.grants();
        let of_election = self.manifests.election_role();
        let mut election = grants.iter_mut();
        if let Some(election) = election.find(|grant| grant.role == of_election) {
            let lease = self.lease_key(deployment);
            election.namespace = lease.namespace().map(str::to_owned);
        }
        grants
    }

    /// Asks for each rule of the roles whether the operator's account has it.
    async fn permissions(&self, deployment: &SeenFact<Option<Value>>) -> Vec<DoctorFinding> {
        let grants = self.grants(deployment);
        let key = self.own_key();
        let account = (self.manifests.namespace(), self.description.name.as_str());
        let mut findings = Vec::new();
        match self.cluster.get(Kind::of::<ServiceAccount>(), &key).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                let advice = "run `cargo steersman deploy`, or name the namespace of the operator with --namespace";
                findings.push(DoctorFinding::problem(
                    format!("ServiceAccount {key} is missing"),
                    advice,
                ));
            }
            Err(unseen) => findings.push(unseen.finding(&format!("ServiceAccount {key}"))),
        }
        let questions = questions(&grants);
        let mut answers = Vec::new();
        if let Some(first) = questions.first() {
            answers.push(self.cluster.may(account, first).await);
        }
        // The same refusal for each question would say nothing new.
        if matches!(&*answers, [Ok(_)]) {
            let rest = stream::iter(&questions[1..]);
            let rest = rest
                .map(|question| self.cluster.may(account, question))
                .buffered(AT_ONCE);
            answers.extend(rest.collect::<Vec<_>>().await);
        }
        let account = format!("the account {key}");
        findings.extend(check_permissions(&account, &grants, &questions, &answers));
        findings
    }

    async fn webhooks(
        &self,
        definitions: &[SeenFact<Option<Value>>],
        deployment: &SeenFact<Option<Value>>,
    ) -> Vec<DoctorFinding> {
        if !self.manifests.has_webhook_server() {
            return Vec::new();
        }
        let key = self.own_key();
        let wanted = self.manifests.webhook_configurations();
        let mut configurations = Vec::new();
        for configuration in &wanted {
            let kind = match configuration["kind"] == "MutatingWebhookConfiguration" {
                true => Kind::of::<MutatingWebhookConfiguration>(),
                false => Kind::of::<ValidatingWebhookConfiguration>(),
            };
            let key = ObjectKey::cluster(key.name());
            configurations.push(self.cluster.get(kind, &key).await);
        }
        let definitions = definitions
            .iter()
            .filter_map(|definition| definition.as_ref().ok()?.clone());
        let converted = definitions
            .filter(|definition| definition["spec"]["conversion"]["strategy"] == "Webhook");
        let secret_key = key.sibling(format!("{}-certificates", key.name()));
        let secret = self.cluster.get(Kind::of::<Secret>(), &secret_key).await;
        let of_service = BTreeMap::from([(
            "kubernetes.io/service-name".to_owned(),
            key.name().to_owned(),
        )]);
        let slices = Kind::of::<EndpointSlice>();
        let facts = WebhookFacts {
            service_name: key.to_string(),
            configurations,
            converted: converted.collect(),
            service: self.cluster.get(Kind::of::<Service>(), &key).await,
            slices: self
                .cluster
                .labelled(slices, Some(self.manifests.namespace()), &of_service)
                .await,
            secret_name: secret_key.to_string(),
            certificates: secret.map(|secret| {
                let secret: Option<Secret> =
                    secret.and_then(|secret| serde_json::from_value(secret).ok());
                secret.map(|secret| CertificateReport::read(&secret, self.now))
            }),
            has_own_certificate: deployment.as_ref().is_ok_and(|one| {
                one.as_ref()
                    .is_some_and(|one| has_flag(one, "--webhook-cert-path"))
            }),
        };
        check_webhooks(&wanted, &facts)
    }

    /// Checks the certificates that the Deployment mounts.
    async fn certificates(&self, deployment: &SeenFact<Option<Value>>) -> Vec<DoctorFinding> {
        let Ok(Some(deployment)) = deployment else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        for mounted in mounted_certificates(deployment) {
            let secret = match mounted.secret {
                Some(name) => {
                    let key = self.own_key().sibling(name);
                    self.cluster.get(Kind::of::<Secret>(), &key).await
                }
                None => Ok(None),
            };
            findings.push(check_mounted(&mounted, &secret, self.now));
        }
        findings
    }

    /// Reads the Pods of the Deployment, and why some are not ready.
    async fn pods(&self, deployment: &SeenFact<Option<Value>>) -> SeenFact<Vec<PodFacts>> {
        let Ok(Some(deployment)) = deployment else {
            return Ok(Vec::new());
        };
        let labels = deployment["spec"]["selector"]["matchLabels"].clone();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap_or_default();
        let namespace = self.manifests.namespace();
        let mut pods = Vec::new();
        for pod in self
            .cluster
            .labelled(Kind::of::<Pod>(), Some(namespace), &labels)
            .await?
        {
            let readiness = match is_ready(&pod) {
                true => None,
                false => self.failed_probe(text(&pod["metadata"]["name"])).await,
            };
            pods.push(PodFacts { pod, readiness });
        }
        Ok(pods)
    }

    /// Returns the message of the last failed probe of a Pod. Without permission to read Events there is none.
    async fn failed_probe(&self, pod: &str) -> Option<String> {
        let fields = FieldSelector::new()
            .equals("involvedObject.name", pod)
            .equals("reason", "Unhealthy");
        let selection = ListOptions::new()
            .namespace(self.manifests.namespace())
            .fields(fields);
        let mut last: Option<Value> = None;
        let add = |event| {
            if let ListedObject::Good(event) = event {
                last = Some(event);
            }
        };
        self.cluster
            .list(Kind::of::<Event>(), &selection, add)
            .await
            .ok()?;
        last?["message"].as_str().map(str::to_owned)
    }

    /// Checks the objects of a definition, in the version that the program watches, or else that it stores.
    async fn objects(
        &self,
        wanted: &Value,
        present: &SeenFact<Option<Value>>,
    ) -> Vec<DoctorFinding> {
        let spec = &wanted["spec"];
        let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let mut watched = self.description.kinds.iter();
        let watched = watched.find(|watched| watched.group == group && watched.kind == kind);
        let versions = spec["versions"].as_array().into_iter().flatten();
        let mut stored = versions.filter(|version| version["storage"] == true);
        let stored = stored.next().map(|version| text(&version["name"]));
        let Some(version) = watched.map(|watched| watched.version.as_str()).or(stored) else {
            return Vec::new();
        };
        let is_served = |definition: &Value| {
            let mut versions = definition["spec"]["versions"]
                .as_array()
                .into_iter()
                .flatten();
            versions.any(|one| one["name"] == version && one["served"] == true)
        };
        // The section "definitions" has said so.
        if matches!(present, Ok(None))
            || matches!(present, Ok(Some(definition)) if !is_served(definition))
        {
            return Vec::new();
        }
        let Some(check) = ObjectCheck::new(wanted, version) else {
            return Vec::new();
        };
        let scope = match spec["scope"] == "Namespaced" {
            true => Scope::Namespaced,
            false => Scope::Cluster,
        };
        let plural = text(&spec["names"]["plural"]);
        let kind = Kind::new(Gvk::new(group, version, kind), plural, scope);
        let mut tally = ObjectTally::new(check);
        let add = |object| match object {
            ListedObject::Good(object) => tally.add(&object),
            ListedObject::Malformed(name, problem) => tally.add_malformed(&name, &problem),
        };
        let end = self
            .cluster
            .list(kind.clone(), &ListOptions::new(), add)
            .await;
        tally.finding(&kind.qualified_plural(), version, &end)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
