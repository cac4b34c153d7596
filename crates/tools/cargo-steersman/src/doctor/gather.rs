//! Driver: reads the facts that each check needs, and runs the checks.

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
use kube_core::Selector;
use serde_json::Value;
use steersman_api::Decoded;
use steersman_certificates::CertificateReport;
use steersman_crds::stored_kind;
use steersman_description::Description;
use steersman_manifests::{Manifests, RoleGrant};
use steersman_object::{
    FieldSelector, Gvk, Kind, LabelSelector, ListOptions, ObjectKey, json_items, json_text,
};
use steersman_testenv::apiserver::definition_check::ObjectCheck;

use crate::doctor::election::check_lease;
use crate::doctor::finding::{Findings, Section, SeenFact, SeenObject, UnseenCause};
use crate::doctor::objects::ObjectTally;
use crate::doctor::own_certificates::{check_client, check_mounted, mounted_certificates};
use crate::doctor::own_definitions::check_definition;
use crate::doctor::permissions::{check_permissions, questions};
use crate::doctor::served_kinds::{check_kinds, needed_kinds, resource};
use crate::doctor::shards::{GROUP_LABEL, check_filter, check_shards};
use crate::doctor::target::TargetCluster;
use crate::doctor::webhook_setup::{WebhookFacts, check_webhooks};
use crate::doctor::workload::{
    PodFacts, check_conversion_flags, check_deployment, elects, has_flag, is_ready,
    seen_flag_value, shares,
};

/// An operator and the cluster in which it is examined.
pub(crate) struct Examination<'a> {
    pub(crate) cluster: &'a TargetCluster,
    pub(crate) description: &'a Description,
    pub(crate) manifests: &'a Manifests,
    pub(crate) now: Timestamp,
}

/// The number of access reviews that run concurrently.
const AT_ONCE: usize = 8;

impl Examination<'_> {
    pub(crate) async fn run(&self) -> Vec<Section> {
        let section = |subject, findings| Section { subject, findings };
        let (findings, is_usable) = self.server().await;
        let mut sections = vec![section("server", findings)];
        if !is_usable {
            return sections;
        }
        let wanted = self.manifests.definitions();
        let name = |definition: &'_ Value| json_text(&definition["metadata"]["name"]).to_owned();
        let mut present = Vec::new();
        for definition in &wanted {
            let key = ObjectKey::cluster_scoped(name(definition));
            let kind = Kind::of::<CustomResourceDefinition>();
            present.push(self.cluster.get(kind, &key).await);
        }
        let pairs = || wanted.iter().zip(&present);
        // A kind without its definition has a finding in another section.
        let missing = pairs().filter(|(_, present)| matches!(present, Ok(None)));
        let missing: Vec<String> = missing.map(|(wanted, _)| name(wanted)).collect();
        let mut needed = needed_kinds(self.description);
        needed.retain(|one| !(one.is_own && missing.contains(&resource(&one.kind))));
        let kinds = check_kinds(&needed, &self.cluster.kinds().await);
        sections.push(section("kinds", kinds));
        let definitions = pairs().flat_map(|(wanted, present)| check_definition(wanted, present).0);
        sections.push(section("definitions", Findings(definitions.collect())));
        let key = self.own_key();
        let deployment = self.cluster.get(Kind::of::<Deployment>(), &key).await;
        sections.push(section("permissions", self.permissions(&deployment).await));
        let webhooks = self.webhooks(&present, &deployment).await;
        sections.push(section("webhooks", webhooks));
        let certificates = self.certificates(&deployment).await;
        sections.push(section("certificates", certificates));
        let lease_key = self.lease_key(&deployment);
        let lease = self.cluster.get(Kind::of::<Lease>(), &lease_key).await;
        let is_elected = elects(&deployment);
        let lease = check_lease(&lease_key.to_string(), &lease, is_elected, self.now);
        sections.push(section("leader election", Findings(vec![lease])));
        if shares(&deployment) {
            let shards = self.shards(&lease_key, &deployment).await;
            sections.push(section("shards", shards));
        }
        let mut findings = check_deployment(&key, &deployment, &self.pods(&deployment).await);
        if !self.description.converted.is_empty() {
            findings.0.extend(check_conversion_flags(&key, &deployment));
        }
        sections.push(section("deployment", findings));
        let mut objects = Vec::new();
        for (wanted, present) in pairs() {
            objects.extend(self.objects(wanted, present).await.0);
        }
        sections.push(section("objects", Findings(objects)));
        sections
    }

    /// Returns the key of the operator's Lease. Flags of the Deployment may change the key.
    fn lease_key(&self, deployment: &SeenObject) -> ObjectKey {
        let flag = |flag| seen_flag_value(deployment, flag);
        let namespace = flag("--leader-election-namespace").unwrap_or(self.manifests.namespace());
        let name = flag("--leader-election-id").unwrap_or(&self.description.name);
        ObjectKey::namespaced(namespace, name)
    }

    /// Returns the key that the operator's Deployment, Service and service account have in common.
    fn own_key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.manifests.namespace(), &self.description.name)
    }

    fn in_own_namespace(&self) -> ListOptions {
        ListOptions::new().namespace(self.manifests.namespace())
    }

    /// Checks the connection to the server. The boolean is whether further requests can succeed.
    async fn server(&self) -> (Findings, bool) {
        let client_config = &self.cluster.client_config;
        let endpoint = client_config.endpoint();
        let (version, user) = (self.cluster.version().await, self.cluster.user().await);
        let certificate = client_config.client_certificate().and_then(Result::ok);
        let certificate = certificate.and_then(|one| check_client(&one, self.now));
        let mut findings = Findings(certificate.into_iter().collect());
        let unusable = match &user {
            Err(unseen) if unseen.cause == UnseenCause::Unauthorized => Some((
                format!(
                    "{endpoint} does not know the credentials: {}",
                    unseen.problem
                ),
                "renew the credentials in the kubeconfig, or choose another context with --context",
            )),
            Err(unseen) if unseen.cause == UnseenCause::Unanswered && version.is_err() => Some((
                format!("{endpoint} does not answer: {}", unseen.problem),
                "look at the address in the kubeconfig and whether the cluster runs, or choose another context with \
                 --context",
            )),
            _ => None,
        };
        if unusable.is_none() || version.is_ok() {
            let version = findings.known(&version, &format!("the version of {endpoint}"));
            if let Some(version) = version {
                findings.good(format!("{endpoint} runs Kubernetes {version}"));
            }
        }
        if let Some((text, advice)) = unusable {
            findings.problem(text, advice);
            return (findings, false);
        }
        // Servers before 1.28 do not serve SelfSubjectReview.
        if let Some(user) = findings.known(&user, "the user of the credentials") {
            findings.good(format!("the credentials are those of {user}"));
        }
        (findings, true)
    }

    /// Returns the roles that the operator's account should have. The role of the leader election is in the namespace
    /// of the Lease.
    fn grants(&self, deployment: &SeenObject) -> Vec<RoleGrant> {
        let mut grants = self.manifests.grants();
        let of_election = self.manifests.election_role();
        let mut election = grants.iter_mut();
        if let Some(election) = election.find(|grant| grant.role == of_election) {
            let lease = self.lease_key(deployment);
            election.namespace = lease.namespace().map(str::to_owned);
        }
        grants
    }

    /// Sends an access review for each rule of the roles, and reports the rules that the operator's account lacks.
    async fn permissions(&self, deployment: &SeenObject) -> Findings {
        let grants = self.grants(deployment);
        let key = self.own_key();
        let account = (self.manifests.namespace(), self.description.name.as_str());
        let mut findings = Findings::default();
        let advice =
            "run `cargo steersman deploy`, or name the namespace of the operator with --namespace";
        let seen = self.cluster.get(Kind::of::<ServiceAccount>(), &key).await;
        findings.present(&seen, &format!("ServiceAccount {key}"), advice);
        let questions = questions(&grants);
        let mut answers = Vec::new();
        if let Some(first) = questions.first() {
            answers.push(self.cluster.may(account, first).await);
        }
        // One refused access review is enough, because the server refuses all others for the same reason.
        if matches!(&*answers, [Ok(_)]) {
            let rest = stream::iter(&questions[1..]);
            let rest = rest.map(|question| self.cluster.may(account, question));
            answers.extend(rest.buffered(AT_ONCE).collect::<Vec<_>>().await);
        }
        let account = format!("the account {key}");
        let checked = check_permissions(&account, &grants, &questions, &answers);
        findings.0.extend(checked.0);
        findings
    }

    /// Checks the Leases of replicas that share the work. The group has the name and the namespace of the election's Lease.
    async fn shards(&self, lease_key: &ObjectKey, deployment: &SeenObject) -> Findings {
        let group = lease_key.sibling(format!("{}-shards", lease_key.name()));
        let namespace = group.namespace().unwrap_or_default();
        let of_group = LabelSelector::label(GROUP_LABEL, group.name());
        let of_group = ListOptions::new().namespace(namespace).labels(of_group);
        let kind = Kind::of::<Lease>();
        let leases = self.cluster.selected(kind.clone(), &of_group).await;
        let mut findings = check_shards(&group, &leases, self.now);
        let has_leases = leases.is_ok_and(|leases| !leases.is_empty());
        let by = seen_flag_value(deployment, "--shard-by");
        if has_leases && by == Some("namespace-on-server") {
            let filters = self.cluster.filters_shards(kind, namespace).await;
            findings.0.push(check_filter(&filters));
        }
        findings
    }

    async fn webhooks(&self, definitions: &[SeenObject], deployment: &SeenObject) -> Findings {
        if !self.manifests.has_webhook_server() {
            return Findings::default();
        }
        let key = self.own_key();
        let wanted = self.manifests.webhook_configurations();
        let mut configurations = Vec::new();
        for configuration in &wanted {
            let kind = match configuration["kind"] == "MutatingWebhookConfiguration" {
                true => Kind::of::<MutatingWebhookConfiguration>(),
                false => Kind::of::<ValidatingWebhookConfiguration>(),
            };
            let key = ObjectKey::cluster_scoped(key.name());
            configurations.push(self.cluster.get(kind, &key).await);
        }
        let definitions = definitions
            .iter()
            .filter_map(|one| one.as_ref().ok()?.clone());
        let converted =
            definitions.filter(|one| one["spec"]["conversion"]["strategy"] == "Webhook");
        let secret_key = key.sibling(format!("{}-certificates", key.name()));
        let secret = self.cluster.get(Kind::of::<Secret>(), &secret_key).await;
        let of_service = LabelSelector::label("kubernetes.io/service-name", key.name());
        let of_service = self.in_own_namespace().labels(of_service);
        let slices = Kind::of::<EndpointSlice>();
        let facts = WebhookFacts {
            service_name: key.to_string(),
            configurations,
            converted: converted.collect(),
            service: self.cluster.get(Kind::of::<Service>(), &key).await,
            slices: self.cluster.selected(slices, &of_service).await,
            secret_name: secret_key.to_string(),
            certificates: secret.map(|secret| {
                let secret: Option<Secret> =
                    secret.and_then(|secret| serde_json::from_value(secret).ok());
                secret.map(|secret| CertificateReport::read(&secret, self.now))
            }),
            has_own_certificate: matches!(deployment, Ok(Some(one)) if has_flag(one, "--webhook-cert-path")),
        };
        check_webhooks(&wanted, &facts)
    }

    async fn certificates(&self, deployment: &SeenObject) -> Findings {
        let mut findings = Findings::default();
        let Ok(Some(deployment)) = deployment else {
            return findings;
        };
        for mounted in mounted_certificates(deployment) {
            let secret = match mounted.secret {
                Some(name) => {
                    let key = self.own_key().sibling(name);
                    self.cluster.get(Kind::of::<Secret>(), &key).await
                }
                None => Ok(None),
            };
            findings.0.push(check_mounted(&mounted, &secret, self.now));
        }
        findings
    }

    /// Reads the Pods of the Deployment, with the reasons of those that are not ready.
    async fn pods(&self, deployment: &SeenObject) -> SeenFact<Vec<PodFacts>> {
        let Ok(Some(deployment)) = deployment else {
            return Ok(Vec::new());
        };
        let labels = deployment["spec"]["selector"]["matchLabels"].clone();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap_or_default();
        let labels = Selector::from_iter(labels).into();
        let of_deployment = self.in_own_namespace().labels(labels);
        let kind = Kind::of::<Pod>();
        let mut pods = Vec::new();
        for pod in self.cluster.selected(kind, &of_deployment).await? {
            let readiness = match is_ready(&pod) {
                true => None,
                false => self.failed_probe(json_text(&pod["metadata"]["name"])).await,
            };
            pods.push(PodFacts { pod, readiness });
        }
        Ok(pods)
    }

    /// Returns the message of a Pod's last failed probe; `None` without a failed probe or a permission to read Events.
    async fn failed_probe(&self, pod: &str) -> Option<String> {
        let fields = FieldSelector::new()
            .equals("involvedObject.name", pod)
            .equals("reason", "Unhealthy");
        let failed = self.in_own_namespace().fields(fields);
        let events = self.cluster.selected(Kind::of::<Event>(), &failed).await;
        events.ok()?.last()?["message"].as_str().map(str::to_owned)
    }

    /// Checks the objects of a kind by the schema of the program, in the version that it watches, or else stores.
    async fn objects(&self, wanted: &Value, present: &SeenObject) -> Findings {
        let Some(kind) = stored_kind(wanted) else {
            return Findings::default();
        };
        let (group, name) = (kind.gvk().group(), kind.gvk().kind());
        let mut watched = self.description.kinds.iter();
        let watched = watched.find(|watched| watched.group == group && watched.kind == name);
        let version = watched.map_or(kind.gvk().version(), |watched| &watched.version);
        let is_served = |definition: &Value| {
            json_items(&definition["spec"]["versions"])
                .any(|one| one["name"] == version && one["served"] == true)
        };
        // The section "definitions" reports an absent definition already.
        let is_absent = matches!(present, Ok(one) if !one.as_ref().is_some_and(is_served));
        let check = ObjectCheck::new(wanted, version).filter(|_| !is_absent);
        let Some(check) = check else {
            return Findings::default();
        };
        let gvk = Gvk::new(group, version, name);
        let listed = Kind::new(gvk, kind.plural(), kind.scope());
        let mut tally = ObjectTally::new(check);
        let add = |object| match object {
            Decoded::Good(object) => tally.add(&object),
            Decoded::Malformed(object) => tally.add_malformed(&object),
        };
        let end = self.cluster.list(listed, &ListOptions::new(), add).await;
        tally.findings(&kind.qualified_plural(), version, &end)
    }
}
