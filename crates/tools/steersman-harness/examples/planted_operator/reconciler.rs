//! The reconciler with the planted bug.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, predicate};
use steersman_manager::Manager;

/// Copies the ConfigMap `text` to a second one. Planted: it marks the text as copied before it makes the copy, and never
/// looks at a marked text again.
struct Copier;

impl Reconciler for Copier {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(text) = client.get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let is_marked = |text: &ConfigMap| {
            let data = text.data.as_ref();
            data.is_some_and(|data| data.contains_key("copied"))
        };
        if is_marked(&text) {
            return Ok(Action::done());
        }
        let mark = |text: &mut ConfigMap| {
            let data = text.data.get_or_insert_default();
            data.insert("copied".to_owned(), "true".to_owned());
        };
        client.modify(&text, mark).await?;
        let mut copy = ConfigMap {
            metadata: request.key.sibling("copy").to_meta(),
            data: text.data.clone(),
            ..ConfigMap::default()
        };
        mark(&mut copy);
        client.create(&copy).await?;
        Ok(Action::done())
    }
}

/// Adds the controller of the operator.
pub(crate) fn declare(manager: &Manager) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let is_text = |object: &ConfigMap| object.metadata.name.as_deref() == Some("text");
    let controller = Controller::builder::<ConfigMap>()
        .with_predicates(predicate::object(is_text))
        .build(Copier)?;
    Ok(manager.add_controller(controller)?)
}
