//! Machine: makes the files of the webhooks' Service and configurations.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_crds::INJECT_CA_FROM;
use steersman_description::DescribedWebhook;

use crate::files::{FROM_PROGRAM, Files};
use crate::folder::Folder;
use crate::operator::Operator;
use crate::template::fill;
use crate::yaml;

const CERTIFICATE: &str = include_str!("../templates/certificate.yaml");
const SERVICE: &str = include_str!("../templates/webhook_service.yaml");

/// Returns the files of `config/webhook`; none if the program has no webhooks.
pub(crate) fn files(operator: &Operator) -> Files {
    let mut folder = Folder::new("webhook");
    if !operator.has_webhook_server() {
        return folder.finish();
    }
    folder.add("service.yaml", FROM_PROGRAM, &fill(SERVICE, operator));
    if operator.uses_cert_manager() {
        let certificate = fill(CERTIFICATE, operator);
        folder.add("certificate.yaml", FROM_PROGRAM, &certificate);
    }
    if !operator.description.webhooks.is_empty() {
        let documents = yaml::documents(&configurations(operator));
        let note = match operator.uses_cert_manager() {
            true => "# cert-manager injects its authority (`caBundle`).\n",
            false => "# The leader of the operator injects its authority (`caBundle`).\n",
        };
        let text = note.to_owned() + &documents;
        folder.add("configurations.yaml", FROM_PROGRAM, &text);
    }
    folder.finish()
}

/// Returns the configurations that make the API server call the defaulters and the validators.
pub(crate) fn configurations(operator: &Operator) -> Vec<Value> {
    let kinds = [
        (true, "MutatingWebhookConfiguration", "mutate"),
        (false, "ValidatingWebhookConfiguration", "validate"),
    ];
    let kinds = kinds
        .iter()
        .filter(|(mutates, ..)| operator.has_webhooks(*mutates));
    let configurations = kinds.map(|(mutates, kind, verb)| {
        let mut given = BTreeMap::new();
        let webhooks = operator.description.webhooks.iter();
        let webhooks = webhooks.filter(|webhook| webhook.mutates == *mutates);
        let entry = |webhook| entry(operator, webhook, &unique_name(&mut given, verb, webhook));
        let webhooks: Vec<Value> = webhooks.map(entry).collect();
        let mut metadata =
            json!({"name": operator.name, "labels": {"app.kubernetes.io/name": operator.name}});
        if operator.uses_cert_manager() {
            let certificate = format!("{}/{}", operator.namespace, operator.name);
            metadata["annotations"] = json!({INJECT_CA_FROM: certificate});
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "webhooks": webhooks,
        })
    });
    configurations.collect()
}

fn entry(operator: &Operator, webhook: &DescribedWebhook, name: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": {
            "service": {"name": operator.name, "namespace": operator.namespace, "path": webhook.path},
        },
        "rules": [{
            "apiGroups": [webhook.object.group],
            "apiVersions": [webhook.object.version],
            "resources": [webhook.object.plural],
            "operations": ["CREATE", "UPDATE"],
        }],
        // The API server converts a request for another version to the version of this rule.
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    })
}

/// Returns a webhook name, such as `mutate.websites.web.example.com`, that is unique in its configuration. It needs three
/// parts, so the core group is written out. A second webhook for the same kind gets a number: `given` counts the names.
fn unique_name(
    given: &mut BTreeMap<String, usize>,
    verb: &str,
    webhook: &DescribedWebhook,
) -> String {
    let object = &webhook.object;
    let group = match &*object.group {
        "" => "core",
        group => group,
    };
    // The plural of a subresource has a slash, which a name cannot have.
    let rest = format!("{}.{group}", object.plural.replace('/', "-"));
    let count = given.entry(rest.clone()).or_default();
    *count += 1;
    match *count {
        1 => format!("{verb}.{rest}"),
        count => format!("{verb}-{count}.{rest}"),
    }
}
