//! Kubernetes Events: their content, their series, and the view of kubectl.

use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use steersman::events::NewEvent;
use steersman::object::FieldSelector;
use steersman::{ListOptions, Manager};
use steersman_testenv::eventually;

use super::world::{Running, World, config_map, connection_of};

impl World {
    /// Waits until the Events of the namespace meet a condition.
    async fn until(&self, what: &str, is_met: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        let here = ListOptions::new().namespace(&*self.namespace);
        let met = eventually(what, || async {
            let events = self.client.live().list::<Event>(&here).await;
            let events = events.map_err(|error| error.to_string())?;
            match is_met(&events) {
                true => Ok(events),
                false => Err(format!("{events:?}")),
            }
        });
        met.await.unwrap()
    }
}

fn count(event: &Event) -> Option<i32> {
    event.series.as_ref().map(|series| series.count)
}

/// EVENT-3, EVENT-7, EVENT-8
#[tokio::test]
async fn events_with_their_series_are_on_the_server_when_the_manager_has_ended() {
    let world = World::start().await;
    let map = |name| config_map(&world.namespace, name);
    let site = world.client.create(&map("site")).await.unwrap();
    let pages = world.client.create(&map("pages")).await.unwrap();
    let verbs = ["create", "patch"];
    let user = world.user("recorder", &verbs, "events.events.k8s.io").await;
    let manager = Manager::builder(connection_of(&user)).build().unwrap();
    let running = Running::start(&manager);
    let recorder = manager.events("example.com/website");
    let publish = || recorder.normal(&site, "Published", "Publish", "published 3 pages");
    publish();
    world.until("an Event", |events| events.len() == 1).await;
    publish();
    let begun = |events: &[Event]| count(&events[0]) == Some(2);
    world.until("its series", begun).await;
    publish();
    let refused = NewEvent::warning("Refused", "Publish").note("no pages");
    recorder.publish(&site, refused.related(&pages));
    running.stop().await;

    let mut events = world.until("two Events", |events| events.len() == 2).await;
    events.sort_by_key(|event| event.type_.clone());
    let [normal, warning] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!((count(normal), count(warning)), (Some(3), None));
    let controller = normal.reporting_controller.as_deref();
    assert_eq!(controller, Some("example.com/website"));
    let regarding = normal.regarding.as_ref().unwrap();
    assert_eq!(regarding.uid, site.metadata.uid);
    assert_eq!(warning.type_.as_deref(), Some("Warning"));
    assert_eq!(warning.note.as_deref(), Some("no pages"));
    let related = warning.related.as_ref().unwrap();
    assert_eq!(related.uid, pages.metadata.uid);

    // kubectl describe selects Events by the object, in the older form.
    let site = FieldSelector::new().equals("involvedObject.name", "site");
    let of_site = ListOptions::new().namespace(&*world.namespace).fields(site);
    let live = world.client.live();
    let mut described: Vec<CoreEvent> = live.list(&of_site).await.unwrap();
    described.sort_by_key(|event| event.type_.clone());
    let messages = described.into_iter().filter_map(|event| event.message);
    let messages: Vec<String> = messages.collect();
    assert_eq!(messages, ["published 3 pages", "no pages"]);
}
