//! Tests defaulters and validators that the API server calls.

use std::io;

use http::Method;
use kube_core::DynamicObject;
use serde_json::json;
use steersman_object::{Gvk, Kind, Scope};
use steersman_webhook::{
    AdmissionContext, Defaulter, FieldErrors, Operation, Refusal, Validator, WebhookServer,
};

use crate::world::{Page, SITES, Site, World, site};

struct Defaults;

impl Defaulter<Site> for Defaults {
    async fn default(&self, site: &mut Site, _: &AdmissionContext) -> Result<(), Refusal> {
        let spec = &mut site.spec;
        if spec.host == "refused" {
            Err(io::Error::other("no host of this name"))?;
        }
        if spec.replicas == 0 {
            spec.replicas = 2;
        }
        for page in &mut spec.pages {
            page.title.get_or_insert_with(|| page.name.to_uppercase());
        }
        spec.pages.push(Page {
            name: "imprint".to_owned(),
            title: None,
        });
        spec.pages.dedup();
        Ok(())
    }
}

struct Rules;

impl Validator<Site> for Rules {
    async fn validate_create(&self, new: &Site, ctx: &AdmissionContext) -> Result<(), Refusal> {
        let mut errors = FieldErrors::new();
        if new.spec.host.is_empty() {
            errors.required("spec.host", "a site needs a host");
        }
        if new.spec.replicas > 10 {
            errors.invalid("spec.replicas", &new.spec.replicas, "must be at most 10");
        }
        if new.spec.replicas == 1 {
            ctx.warn("one replica is not available during an update");
        }
        let name = new.metadata.name.as_deref().unwrap_or_default();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Refusal::invalid(&ctx.request().kind, name, &errors)),
        }
    }

    async fn validate_update(
        &self,
        old: &Site,
        new: &Site,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        if old.spec.host != new.spec.host {
            return Err(Refusal::denied("the host of a site cannot change"));
        }
        self.validate_create(new, ctx).await
    }

    async fn validate_delete(&self, old: &Site, ctx: &AdmissionContext) -> Result<(), Refusal> {
        assert_eq!(ctx.request().operation, Operation::Delete);
        match old.spec.host.as_str() {
            "kept" => Err(Refusal::new(409, "Conflict", "the site is in use")),
            _ => Ok(()),
        }
    }
}

/// ADMIT-2: a defaulter keeps the fields that its Rust type does not have.
#[tokio::test(start_paused = true)]
async fn a_defaulter_keeps_fields_that_its_type_does_not_have() {
    let webhooks = WebhookServer::new("0").defaulter::<Site>(Defaults);
    let world = World::calling(&webhooks);
    let spec = json!({
        "host": "a", "added": {"later": true},
        "pages": [{"name": "home", "layout": 7}, {"name": "news", "title": "Today", "layout": null}],
    });
    let created = world.create(&site("a", &spec)).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let expected = json!({
        "host": "a", "added": {"later": true}, "replicas": 2,
        "pages": [
            {"name": "home", "layout": 7, "title": "HOME"},
            {"name": "news", "title": "Today", "layout": null},
            {"name": "imprint"},
        ],
    });
    assert_eq!(created.body["spec"], expected);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_defaulter_refuses_the_request_with_its_text() {
    let webhooks = WebhookServer::new("0").defaulter::<Site>(Defaults);
    let world = World::calling(&webhooks);
    let refused = world.create(&site("a", &json!({"host": "refused"}))).await;
    assert_eq!(refused.code, 403);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.contains("denied the request: no host of this name"),
        "{message}"
    );
    let shape = world.create(&site("a", &json!({"host": 7}))).await;
    assert_eq!(shape.code, 400, "{}", shape.body);
    let message = shape.body["message"].as_str().unwrap();
    assert!(
        message.contains("Site.v1.example.com: spec.host: invalid type"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_validator_decides_creations_changes_and_deletions() {
    let world = World::calling(&WebhookServer::new("0").validator::<Site>(Rules));
    let refused = world
        .create(&site("a", &json!({"host": "", "replicas": 11})))
        .await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.body["reason"], "Invalid");
    let causes = json!([
        {"field": "spec.host", "message": "Required value: a site needs a host", "reason": "FieldValueRequired"},
        {"field": "spec.replicas", "message": "Invalid value: 11: must be at most 10", "reason": "FieldValueInvalid"},
    ]);
    assert_eq!(refused.body["details"]["causes"], causes);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "Site.example.com \"a\" is invalid: [spec.host: Required value: a site needs a host, \
             spec.replicas: Invalid value: 11: must be at most 10]"
        ),
        "{message}"
    );

    let warned = world
        .create(&site("a", &json!({"host": "kept", "replicas": 1})))
        .await;
    assert_eq!(warned.code, 201);
    assert_eq!(
        warned.warnings,
        ["299 - \"one replica is not available during an update\""]
    );

    let path = format!("{SITES}/a");
    let mut changed = warned.body;
    changed["spec"]["host"] = json!("other");
    let refused = world.send(Method::PUT, &path, &changed).await;
    assert_eq!(refused.code, 403);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("the host of a site cannot change"),
        "{message}"
    );

    let refused = world.send(Method::DELETE, &path, &json!({})).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (409, &json!("Conflict"))
    );
    world.create(&site("b", &json!({"host": "free"}))).await;
    let deleted = world
        .send(Method::DELETE, &format!("{SITES}/b"), &json!({}))
        .await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
}

struct Labels;

impl Defaulter<DynamicObject> for Labels {
    async fn default(
        &self,
        object: &mut DynamicObject,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        let user = ctx.request().user.username.clone().unwrap_or_default();
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert("by".to_owned(), user.replace(':', "."));
        labels.insert("dry".to_owned(), ctx.request().dry_run.to_string());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_at_run_time_has_webhooks_that_see_user_and_dry_run() {
    let kind = Kind::new(
        Gvk::new("example.com", "v1", "Site"),
        "sites",
        Scope::Namespaced,
    );
    let world = World::calling(&WebhookServer::new("0").defaulter_of(&kind, Labels));
    let path = format!("{SITES}?dryRun=All");
    let made = world
        .send(Method::POST, &path, &site("a", &json!({"host": "a"})))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let labels = &made.body["metadata"]["labels"];
    assert_eq!(labels["dry"], "true");
    assert_ne!(labels["by"], "");
}
