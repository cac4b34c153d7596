//! Publishes the message of each Greeting in a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::cli::BoxError;
use steersman::desired::{Child, DesiredSet};
use steersman::{
    Action, Context, Controller, Error, Manager, OwnedKinds, Reconciler, Request, predicate,
};

use crate::api::greeting::Greeting;

/// The label of the children of a Greeting. It must not change: children with another label are not found.
const CHILDREN: &str = "example.com/children";

/// Reconciles greetings.
#[derive(Debug)]
struct GreetingReconciler;

/// Declares the kinds of the children, once for the controller and once for the set. A kind stays here as long as children
/// of it may exist.
fn children<T: OwnedKinds>(declaration: T) -> T {
    declaration.owns::<ConfigMap>()
}

/// Adds the controller to the manager.
///
/// # Errors
///
/// The reason why the controller cannot be declared.
pub fn add(manager: &Manager) -> Result<(), BoxError> {
    // A child that another writer changes or deletes is put right.
    let controller = children(Controller::builder::<Greeting>())
        // A change of the status alone needs no reconcile.
        .with_predicates(predicate::generation_changed())
        // A failure that lasts makes `Ready` false, with the error as its message, and is an Event.
        .report_failures()
        .build(GreetingReconciler)?;
    Ok(manager.add_controller(controller)?)
}

impl Reconciler for GreetingReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(object) = client.get_opt::<Greeting>(&request.key).await? else {
            // Deleted: its children are deleted with it.
            return Ok(Action::done());
        };

        // What is in the set is created or changed, and children that are no longer in it are deleted. If nothing differs,
        // nothing is sent.
        let mut set = children(DesiredSet::new(&object, CHILDREN));
        set.add(Child::of(&ConfigMap {
            metadata: request.key.to_meta(),
            data: Some([("message".to_owned(), object.spec.message.clone())].into()),
            ..ConfigMap::default()
        }));
        let outcome = set.apply(client).await?.without_failures()?;

        // `Ready` follows from the children.
        let report = |object: &mut Greeting| {
            let generation = object.metadata.generation;
            let status = object.status.get_or_insert_default();
            status.observed_generation = generation;
            outcome.set_conditions(&mut status.conditions, generation, ctx.now());
        };
        client.status().modify(&object, report).await?;
        Ok(Action::done())
    }
}
