//! Publishes the message of each Greeting in a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::cli::BoxError;
use steersman::status_conditions::{self, READY, TRUE};
use steersman::{Action, Context, Controller, Error, Manager, Reconciler, Request, predicate};

use crate::api::greeting::Greeting;

/// Reconciles greetings.
#[derive(Debug)]
struct GreetingReconciler;

/// Adds the controller to the manager.
///
/// # Errors
///
/// The reason why the controller cannot be declared.
pub fn add(manager: &Manager) -> Result<(), BoxError> {
    let controller = Controller::builder::<Greeting>()
        // A change of the status alone needs no reconcile.
        .for_filter(predicate::generation_changed())
        // A ConfigMap that is changed or deleted by others is put right.
        .owns::<ConfigMap>()
        // A failure that lasts makes `Ready` false, with the error as its message, and is an Event.
        .report_failures()
        .build(GreetingReconciler)?;
    Ok(manager.add_controller(controller)?)
}

impl Reconciler for GreetingReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(object) = client.get_opt::<Greeting>(&request.key).await? else {
            // Deleted: its ConfigMap is deleted with it.
            return Ok(Action::done());
        };

        // Creates the ConfigMap, or sends what differs. If nothing differs, nothing is sent.
        let config = ConfigMap {
            metadata: request.key.to_meta(),
            ..ConfigMap::default()
        };
        let message = object.spec.message.clone();
        let publish = |config: &mut ConfigMap| {
            let data = config.data.get_or_insert_default();
            data.insert("message".to_owned(), message.clone());
        };
        client.ensure_owned(&*object, config, publish).await?;

        let (reason, text) = ("Published", "the ConfigMap has the message");
        let ready = status_conditions::condition(&*object, READY, TRUE, reason, text, ctx.now());
        let report = |object: &mut Greeting| {
            let generation = object.metadata.generation;
            let status = object.status.get_or_insert_default();
            status.observed_generation = generation;
            status_conditions::set(&mut status.conditions, ready.clone());
        };
        client.status().modify(&*object, report).await?;
        Ok(Action::done())
    }
}
