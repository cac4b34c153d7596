//! Words: a definition that an operator installs, with the options of its installation.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Version;
use serde_json::{Value, json};
use steersman_object::{Gvk, Kind, ObjectKey, Scope, json_items, json_text};

use crate::error::Error;
use crate::number_formats;
use crate::version_difference::{check_versions, is_converted, name, stored_version};

/// A `CustomResourceDefinition` that an operator installs.
///
/// Made from a definition such as `Website::crd()` of a type with `#[derive(CustomResource)]`; kube-core's `merge_crds`
/// merges the definitions of several versions.
///
/// ```
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// # use steersman_object::ObjectKey;
/// # use steersman_crds::Crd;
/// # fn f(crd: CustomResourceDefinition) {
/// let definition = Crd::new(&crd)
///     .converted_by(&ObjectKey::namespaced("websites-system", "website-operator"))
///     .accept_narrowing("v1.spec.size");
/// # let _ = definition;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Crd {
    pub(crate) content: Value,
    pub(crate) accepted: Vec<String>,
    pub(crate) is_migrated: bool,
}

/// The annotation that names the `Certificate` from which cert-manager injects the authority.
pub const INJECT_CA_FROM: &str = "cert-manager.io/inject-ca-from";

/// The suffix of the field manager for writes of definitions; the prefix is the name of the program.
pub(crate) const MANAGER_SUFFIX: &str = "/definitions";

/// The path of the conversion webhook, as kubebuilder has it.
const CONVERT: &str = "/convert";

impl Crd {
    /// Makes the options for a definition, by default without changes and with a migration of stored objects.
    ///
    /// Only number formats that schemars writes and API servers warn about are replaced: `uint8` and `uint16` by
    /// `int32`, `uint32` and `uint64` by `int64`. The minimum stays.
    pub fn new(definition: &CustomResourceDefinition) -> Self {
        let mut content = to_json(definition);
        // The server owns the status, and a resource version would make the write conditional: both are removed.
        if let Some(content) = content.as_object_mut() {
            content.remove("status");
        }
        if let Some(metadata) = content["metadata"].as_object_mut() {
            metadata.retain(|name, _| ["name", "labels", "annotations"].contains(&name.as_str()));
        }
        number_formats::correct(&mut content);
        Self {
            content,
            accepted: Vec::new(),
            is_migrated: true,
        }
    }

    /// Lets the conversion webhook behind this Service convert objects between the versions, at the path `/convert`.
    ///
    /// A manager with webhooks and a built-in authority sets this itself for the kinds that its webhooks convert.
    pub fn converted_by(self, service: &ObjectKey) -> Self {
        let service = json!({
            "namespace": service.namespace().unwrap_or_default(),
            "name": service.name(),
            "path": CONVERT,
            // The server adds this default port, so its absence would count as a difference.
            "port": 443,
        });
        self.converted_at(&json!({"service": service}))
    }

    /// Lets cert-manager inject the authority of a `Certificate` as the `caBundle` of the conversion webhook, by the
    /// annotation `cert-manager.io/inject-ca-from`.
    pub fn inject_ca_from(mut self, certificate: &ObjectKey) -> Self {
        let namespace = certificate.namespace().unwrap_or_default();
        let value = format!("{namespace}/{}", certificate.name());
        self.content["metadata"]["annotations"][INJECT_CA_FROM] = json!(value);
        self
    }

    /// Lets the conversion webhook at this URL, such as `https://hooks.example.com/convert`, convert the objects.
    pub fn converted_by_url(self, url: &str) -> Self {
        self.converted_at(&json!({"url": url}))
    }

    fn converted_at(mut self, client_config: &Value) -> Self {
        self.content["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
        });
        self
    }

    /// Accepts that the definition narrows this field and all fields below it. The path is that in the refusal, such as
    /// `v1.spec.replicas` or `v1.spec.pages[].title`. Stored objects that the new schema refuses stay readable, but
    /// writing such a field fails.
    pub fn accept_narrowing(mut self, path: impl Into<String>) -> Self {
        self.accepted.push(path.into());
        self
    }

    /// Disables the migration: objects stay in the version in which they are stored, and `storedVersions` stays.
    pub fn without_migration(mut self) -> Self {
        self.is_migrated = false;
        self
    }

    /// Returns the definition in the form in which it is applied, for example to print it.
    pub fn content(&self) -> &Value {
        &self.content
    }

    /// Returns the name of the definition, such as `websites.web.example.com`.
    pub fn name(&self) -> &str {
        json_text(&self.content["metadata"]["name"])
    }

    /// Removes all versions except the newest, which is served and stored, so that no conversion is needed.
    ///
    /// The newest version is the one that Kubernetes ranks first: v2 before v1, and v1 before v1beta1. Where objects
    /// may be stored in another version, the definition is refused: see [`Error::Narrowed`].
    pub fn newest_version_only(mut self) -> Self {
        let versions = self.content["spec"]["versions"].as_array_mut();
        if let Some(versions) = versions {
            let priority_of = |version: &&Value| priority(name(version));
            let newest = versions.iter().max_by_key(priority_of);
            if let Some(mut newest) = newest.cloned() {
                newest["served"] = json!(true);
                newest["storage"] = json!(true);
                *versions = vec![newest];
            }
        }
        if let Some(spec) = self.content["spec"].as_object_mut() {
            spec.remove("conversion");
        }
        self
    }

    /// Returns whether the definition has a conversion webhook.
    pub fn has_conversion(&self) -> bool {
        is_converted(&self.content)
    }

    /// Returns whether this definition has the group and kind of `kind`, in any version.
    pub fn defines(&self, kind: &Gvk) -> bool {
        let spec = &self.content["spec"];
        spec["group"] == kind.group() && spec["names"]["kind"] == kind.kind()
    }

    /// Checks the definition without a server.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] if the definition's name does not match its kind, or the number of stored versions is not
    /// one; [`Error::Unconverted`] if its versions differ and no webhook converts its objects.
    pub fn check(&self) -> Result<(), Error> {
        let spec = &self.content["spec"];
        let plural = json_text(&spec["names"]["plural"]);
        let group = json_text(&spec["group"]);
        let stored = json_items(&spec["versions"]).filter(|version| version["storage"] == true);
        let problem = match stored.count() {
            _ if self.name() != format!("{plural}.{group}") => {
                format!("its name has to be {plural}.{group}")
            }
            1 => return check_versions(&self.content),
            stored => format!("{stored} of its versions are stored: it has to be one"),
        };
        Err(Error::Unusable {
            definition: self.name().to_owned(),
            problem,
        })
    }

    /// Returns the kind in each version that the definition serves.
    pub(crate) fn served(&self) -> Vec<Gvk> {
        let spec = &self.content["spec"];
        let (group, kind) = (json_text(&spec["group"]), json_text(&spec["names"]["kind"]));
        let served = json_items(&spec["versions"]).filter(|version| version["served"] == true);
        served
            .map(|version| Gvk::new(group, name(version), kind))
            .collect()
    }
}

/// Returns the kind of a definition (JSON of a `CustomResourceDefinition`) in the version in which objects are stored.
#[must_use]
pub fn stored_kind(definition: &Value) -> Option<Kind> {
    let spec = &definition["spec"];
    let version = stored_version(definition)?;
    let (group, kind) = (spec["group"].as_str()?, spec["names"]["kind"].as_str()?);
    let scope = match spec["scope"].as_str()? {
        "Namespaced" => Scope::Namespaced,
        _ => Scope::Cluster,
    };
    let gvk = Gvk::new(group, version["name"].as_str()?, kind);
    Some(Kind::new(gvk, spec["names"]["plural"].as_str()?, scope))
}

/// Returns the sort key of a version, in the order of `CompareKubeAwareVersionStrings` of apimachinery: v1 is greater
/// than v1beta1.
pub(crate) fn priority(version: &str) -> impl Ord + use<> {
    Version::parse(version).priority()
}

/// Returns the definition as JSON. The conversion cannot fail, because all maps have string keys.
fn to_json(definition: &CustomResourceDefinition) -> Value {
    serde_json::to_value(definition).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(content: &Value) -> Crd {
        Crd {
            content: content.clone(),
            accepted: Vec::new(),
            is_migrated: true,
        }
    }

    #[test]
    fn the_newest_version_alone_is_served_and_stored() {
        let content = json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "sites", "kind": "Site"},
                "conversion": {"strategy": "Webhook"}, "versions": [
                    {"name": "v1beta1", "served": true, "storage": true},
                    {"name": "v1", "served": false, "storage": false},
                    {"name": "v1alpha1", "served": true, "storage": false},
            ]},
        });
        let newest = definition(&content).newest_version_only();
        let expected = json!([{"name": "v1", "served": true, "storage": true}]);
        assert_eq!(newest.content()["spec"]["versions"], expected);
        assert!(!newest.has_conversion());
        assert!(newest.check().is_ok());
    }

    #[test]
    fn a_definition_that_cannot_be_installed_is_named() {
        let mut content = json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "sites", "kind": "Site"}, "versions": [
                {"name": "v1", "storage": true}, {"name": "v1alpha1", "storage": false},
            ]},
        });
        assert!(definition(&content).check().is_ok());
        content["spec"]["versions"][1]["storage"] = json!(true);
        let error = definition(&content).check().unwrap_err().to_string();
        assert!(
            error.contains("sites.example.com") && error.contains("2 of its versions"),
            "{error}"
        );
        content["spec"]["group"] = json!("example.org");
        let error = definition(&content).check().unwrap_err().to_string();
        assert!(error.contains("has to be sites.example.org"), "{error}");
    }
}
