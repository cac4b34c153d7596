//! A website as its user wrote it, and the check that nothing of it is lost.

use example_program::once::is_ready;
use serde_json::{Value, json};
use steersman_testenv::apiserver::ApiServer;
use website_operator::website::Website;

use crate::webhooks::send;

/// The fields of a website. Its pages are in the ConfigMap of its name.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) image: &'static str,
    pub(super) replicas: u32,
    /// A field of v1 alone.
    pub(super) host: Option<&'static str>,
}

impl Site {
    pub(super) fn new(image: &'static str, replicas: u32) -> Self {
        Self {
            image,
            replicas,
            host: None,
        }
    }

    /// Sets the host.
    pub(super) fn on(self, host: &'static str) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Returns the spec in a version.
    pub(super) fn spec(&self, version: &str, name: &str) -> Value {
        let count = match version {
            "v1alpha1" => "servers",
            _ => "replicas",
        };
        let mut spec = json!({"image": self.image, "pages": name, count: self.replicas});
        if let Some(host) = self.host.filter(|_| version == "v1") {
            spec["host"] = json!(host);
        }
        spec
    }

    /// Returns an error unless the website has all its fields in both versions, is ready, and has all its children.
    pub(super) async fn check(&self, server: &ApiServer, name: &str) -> Result<(), String> {
        let path = format!("/{name}");
        for version in ["v1alpha1", "v1"] {
            let site = send(server, version, "GET", &path, &Value::Null).await?;
            if site["spec"] != self.spec(version, name) {
                return Err(format!("{version}: {} in place of {self:?}", site["spec"]));
            }
        }
        let site = send(server, "v1", "GET", &path, &Value::Null).await?;
        let site: Website = serde_json::from_value(site).unwrap();
        if !is_ready(&site) {
            return Err(format!("{name}: {:?}", site.status));
        }
        let child = |resource: &str, name: &str| {
            let found = server.get(resource, "default", name);
            found.ok_or_else(|| format!("{name} has no {resource}"))
        };
        let deployment = child("deployments.apps", name)?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let shape = (&container["image"], &deployment["status"]["readyReplicas"]);
        if shape != (&json!(self.image), &json!(self.replicas)) {
            return Err(deployment.to_string());
        }
        let (source, copy) = (child("configmaps", name)?, format!("{name}-site"));
        let copy = child("configmaps", &copy)?;
        let entered = &child("configmaps", "website-directory")?["data"][name];
        if copy["data"] != source["data"] || !entered.is_string() {
            return Err(format!("{copy}, in the directory: {entered}"));
        }
        child("services", name).map(drop)
    }

    /// Returns an error unless the website of this name and all its children are gone.
    pub(super) fn check_gone(server: &ApiServer, name: &str) -> Result<(), String> {
        let copy = format!("{name}-site");
        for (resource, name) in [
            ("websites.web.example.com", name),
            ("deployments.apps", name),
            ("services", name),
            ("configmaps", &copy),
        ] {
            if let Some(left) = server.get(resource, "default", name) {
                return Err(left.to_string());
            }
        }
        let directory = server.get("configmaps", "default", "website-directory");
        match &directory.unwrap_or_default()["data"][name] {
            Value::Null => Ok(()),
            entered => Err(format!("the directory has {entered}")),
        }
    }
}
