//! Driver: makes the API server of a test call the webhooks in this process.

use serde_json::{Value, json};
use steersman_crds::{Error, check_versions};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::status::Status;
use steersman_webhook::WebhookServer;
use tracing::warn;

use crate::error::{BoxError, HarnessError};

/// The namespace and name of the Service in the webhook configurations.
const SERVICE: (&str, &str) = ("default", "webhooks");
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Configures the webhooks like `cargo steersman generate`, and routes their Service to this process.
pub(crate) fn call(server: &ApiServer, webhooks: &WebhookServer) -> Result<(), HarnessError> {
    let wrong = |error: BoxError| HarnessError::Webhooks(error);
    let refused = |status: Status| wrong(status.message.into());
    let service = webhooks.in_process().map_err(|error| wrong(error.into()))?;
    server.route_service_to(SERVICE.0, SERVICE.1, service);
    let kinds = [
        (true, "MutatingWebhookConfiguration"),
        (false, "ValidatingWebhookConfiguration"),
    ];
    for (mutates, kind) in kinds {
        let entries = entries(webhooks, mutates);
        if !entries.is_empty() {
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": SERVICE.1},
                "webhooks": entries,
            });
            server.create(configuration).map_err(refused)?;
        }
    }
    let converted = webhooks.converted_kinds();
    for definition in server.list(DEFINITIONS, "") {
        let spec = &definition["spec"];
        let is_converted = converted
            .iter()
            .any(|kind| spec["group"] == kind.group() && spec["names"]["kind"] == kind.kind());
        if is_converted {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let conversion = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": client_config("/convert"),
            }}}});
            let patched = server.merge_patch(DEFINITIONS, "", name, &conversion);
            patched.map_err(refused)?;
        }
    }
    Ok(())
}

/// DEF-7: warns about each definition with different versions and no webhook. Only the operator's own definitions need
/// conversions among its webhooks.
pub(crate) fn warn_of_unconverted(server: &ApiServer) {
    for definition in server.list(DEFINITIONS, "") {
        if let Err(Error::Unconverted {
            definition,
            versions,
            fields,
        }) = check_versions(&definition)
        {
            warn!(
                definition,
                versions = versions.join(","),
                fields = fields.join(","),
                "the versions of a definition differ and no webhook converts its objects, so that these fields are lost: \
                 pass the conversions with `OperatorTest::webhooks` if it is the operator's own"
            );
        }
    }
}

fn entries(webhooks: &WebhookServer, mutates: bool) -> Vec<Value> {
    let admissions = webhooks.admissions().iter();
    let admissions = admissions.filter(|admission| admission.mutates == mutates);
    let entries = admissions.enumerate().map(|(number, admission)| {
        let gvk = admission.kind.gvk();
        json!({
            // The name of a webhook must have three parts.
            "name": format!("webhook-{number}.steersman.test"),
            "clientConfig": client_config(&admission.path),
            "rules": [{
                "apiGroups": [gvk.group()],
                "apiVersions": [gvk.version()],
                "resources": [admission.kind.plural()],
                "operations": ["CREATE", "UPDATE"],
            }],
            "matchPolicy": "Equivalent",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    });
    entries.collect()
}

fn client_config(path: &str) -> Value {
    json!({"service": {"namespace": SERVICE.0, "name": SERVICE.1, "path": path}})
}
