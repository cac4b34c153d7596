//! Machine: finds the CA bundles in a webhook configuration or definition, and makes the patch that replaces them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_certificates::ParsedCertificate;
use steersman_object::{Kind, ObjectKey};

/// A webhook configuration or definition that tells the API server which authorities to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InjectionTarget {
    pub(crate) kind: InjectionKind,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectionKind {
    Validating,
    Mutating,
    /// A `CustomResourceDefinition` with a conversion webhook.
    Definition,
}

impl InjectionTarget {
    pub(crate) fn kind(&self) -> Kind {
        match self.kind {
            InjectionKind::Validating => Kind::of::<ValidatingWebhookConfiguration>(),
            InjectionKind::Mutating => Kind::of::<MutatingWebhookConfiguration>(),
            InjectionKind::Definition => Kind::of::<CustomResourceDefinition>(),
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::cluster_scoped(&self.name)
    }

    /// Returns the kind and name of the target in the notation of kubectl.
    pub(crate) fn text(&self) -> String {
        format!("{}/{}", self.kind().qualified_plural(), self.name)
    }

    pub(crate) fn authorities(&self, object: &DynamicObject) -> Vec<ParsedCertificate> {
        let mut found = Vec::new();
        for path in self.client_configs(object) {
            let bundle = object.data.pointer(&format!("{path}/caBundle"));
            let text = bundle.and_then(Value::as_str).unwrap_or_default();
            let text = STANDARD.decode(text).unwrap_or_default();
            found.extend(ParsedCertificate::all(&text).0);
        }
        found.retain(ParsedCertificate::is_authority);
        found
    }

    /// CERT-6: returns a patch that changes only the bundles, and that fails unless the object has the version that was
    /// read. `None` if each webhook of the object has the bundle.
    pub(crate) fn patch(&self, object: &DynamicObject, bundle: &str) -> Option<Value> {
        let bundle = STANDARD.encode(bundle);
        let paths = self.client_configs(object).into_iter();
        let paths = paths.map(|path| format!("{path}/caBundle"));
        let mut operations: Vec<Value> = paths
            .filter(|path| object.data.pointer(path).and_then(Value::as_str) != Some(&*bundle))
            .map(|path| json!({"op": "add", "path": path, "value": bundle}))
            .collect();
        if operations.is_empty() {
            return None;
        }
        let version = object.metadata.resource_version.as_deref();
        let version = version.unwrap_or_default();
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
        operations.insert(0, test);
        Some(operations.into())
    }

    /// Returns the JSON pointers of the client configurations in an object, which hold the bundles.
    fn client_configs(&self, object: &DynamicObject) -> Vec<String> {
        let paths: Vec<String> = match self.kind {
            InjectionKind::Validating | InjectionKind::Mutating => {
                let webhooks = object.data.get("webhooks").and_then(Value::as_array);
                let count = webhooks.map_or(0, Vec::len);
                (0..count)
                    .map(|index| format!("/webhooks/{index}/clientConfig"))
                    .collect()
            }
            InjectionKind::Definition => {
                let strategy = object.data.pointer("/spec/conversion/strategy");
                let path = "/spec/conversion/webhook/clientConfig".to_owned();
                let is_webhook = strategy.and_then(Value::as_str) == Some("Webhook");
                is_webhook.then_some(path).into_iter().collect()
            }
        };
        let is_there = |path: &String| object.data.pointer(path).is_some_and(Value::is_object);
        paths.into_iter().filter(is_there).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;
    use steersman_certificates::KeyedCertificate;

    use super::*;

    fn target(kind: InjectionKind) -> InjectionTarget {
        let name = "hooks".to_owned();
        InjectionTarget { kind, name }
    }

    fn object(fields: &Value) -> DynamicObject {
        let mut object = json!({"apiVersion": "v1", "kind": "K", "metadata": {
            "name": "hooks", "resourceVersion": "7",
        }});
        for (name, value) in fields.as_object().unwrap() {
            object[name] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    /// CERT-6: an injection changes the bundles and nothing else, and is repeated.
    #[test]
    fn a_patch_changes_each_wrong_bundle_and_nothing_else() {
        let bundle = STANDARD.encode("new");
        let service = json!({"namespace": "shop", "name": "hooks"});
        let hooks = object(&json!({"webhooks": [
            {"name": "a", "clientConfig": {"service": service, "caBundle": "b2xk"}},
            {"name": "b", "clientConfig": {"service": service, "caBundle": bundle}},
            {"name": "c", "clientConfig": {"url": "https://localhost"}},
            {"name": "d"},
        ]}));
        for kind in [InjectionKind::Validating, InjectionKind::Mutating] {
            let patch = target(kind).patch(&hooks, "new").unwrap();
            let wanted = json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
                {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": bundle},
            ]);
            assert_eq!(patch, wanted);
            for without in [json!({}), json!({"webhooks": []})] {
                assert_eq!(target(kind).patch(&object(&without), "new"), None);
            }
        }
        let good = object(&json!({"webhooks": [{"clientConfig": {"caBundle": bundle}}]}));
        assert_eq!(target(InjectionKind::Mutating).patch(&good, "new"), None);
    }

    /// CERT-6: an injection changes the bundles and nothing else, and is repeated.
    #[test]
    fn a_definition_needs_a_bundle_if_a_webhook_converts_its_objects() {
        let definition = target(InjectionKind::Definition);
        let webhook = json!({"clientConfig": {"service": {}}, "conversionReviewVersions": ["v1"]});
        let converted =
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
        let patch = definition.patch(&object(&converted), "new").unwrap();
        assert_eq!(
            patch[1]["path"],
            "/spec/conversion/webhook/clientConfig/caBundle"
        );
        for spec in [
            json!({}),
            json!({"conversion": {"strategy": "None"}}),
            json!({"conversion": {"strategy": "None", "webhook": webhook}}),
            json!({"conversion": {"strategy": "Webhook"}}),
        ] {
            let without = object(&json!({"spec": spec}));
            assert_eq!(definition.patch(&without, "new"), None);
        }
    }

    #[test]
    fn the_authorities_of_a_configuration_are_found() {
        let day = Duration::from_secs(24 * 3600);
        let authority = KeyedCertificate::authority(day, Timestamp::UNIX_EPOCH).unwrap();
        let leaf = authority.issue(&["a".to_owned()], day, Timestamp::UNIX_EPOCH);
        let texts = [authority.certificate.pem(), leaf.unwrap().certificate.pem()];
        let bundle = STANDARD.encode(texts.concat());
        let hooks = object(&json!({"webhooks": [
            {"clientConfig": {"caBundle": bundle}}, {"clientConfig": {"caBundle": "no base64"}},
            {"clientConfig": {}},
        ]}));
        let found = target(InjectionKind::Validating).authorities(&hooks);
        assert_eq!(found, [authority.certificate]);
    }
}
