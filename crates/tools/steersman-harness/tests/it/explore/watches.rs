//! Bugs of an operator that lists and watches by itself.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{
    ApiListWatch, ClientConfig, ListWatch as _, Paging, Patch, WatchEvent, WatchOptions,
    WatchStream,
};
use steersman_client::Client;
use steersman_controller::Error;
use steersman_harness::{OperatorTest, Scenario};
use steersman_manager::{BoxError, Group, Manager, runnable};
use steersman_object::{Kind, ListOptions, Object as _, ResourceVersion};
use tokio::time::{Duration, sleep};

use super::support::{
    Form, Widget, all_but, check, config_map, create_once, key, scenario, widget,
};

/// The end of a watch after which the planted form watches no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    /// The server has ended the watch with a 410.
    Expired,
    /// The connection has ended.
    Closed,
}

/// An operator that copies sizes, with a list and a watch of its own. `gives_up_at` is its planted bug.
struct HandMade {
    client: Client,
    watch: ApiListWatch,
    gives_up_at: Option<WatchEnd>,
}

impl HandMade {
    fn new(client: Client, config: &ClientConfig, bug: Option<WatchEnd>) -> Result<Self, BoxError> {
        let watch = ApiListWatch::new(config.client()?, Kind::of::<Widget>(), None);
        Ok(Self {
            client,
            watch,
            gives_up_at: bug,
        })
    }

    async fn run(&self) {
        loop {
            // An error is a request that was refused, or an answer that is lost.
            let end = self.follow().await.ok();
            if end.is_some() && end == self.gives_up_at {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Copies all sizes, and again after each event of a watch.
    async fn follow(&self) -> Result<WatchEnd, Error> {
        let version = self.copy().await?;
        let options = WatchOptions::after(version);
        let mut events: WatchStream = self.watch.watch(&options).await?;
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Error(error)) if error.is_expired() => return Ok(WatchEnd::Expired),
                Ok(WatchEvent::Error(_)) | Err(_) => return Ok(WatchEnd::Closed),
                Ok(WatchEvent::Bookmark { .. }) => {}
                Ok(_) => drop(self.copy().await?),
            }
        }
        Ok(WatchEnd::Closed)
    }

    async fn copy(&self) -> Result<ResourceVersion, Error> {
        let all = ListOptions::new();
        let mut version = ResourceVersion::unset();
        let mut pages = self.client.live().pages::<Widget>(&all, &Paging::new());
        while let Some(page) = pages.next_page().await? {
            version = page.version.clone();
            for widget in &page.items {
                let live = self.client.live();
                let found = live.get_opt::<ConfigMap>(&widget.key()).await?;
                let size = widget.spec.size.to_string();
                let copied = found.and_then(|found| found.data?.remove("size"));
                let copy = config_map(&widget.key(), "size", &size);
                match copied {
                    None => create_once(&self.client, &copy).await?,
                    Some(copied) if copied == size => {}
                    Some(_) => {
                        let patch = Patch::Merge(json!({"data": copy.data}));
                        let key = widget.key();
                        self.client.patch::<ConfigMap>(&key, &patch).await?;
                    }
                }
            }
        }
        Ok(version)
    }
}

fn hand_made(bug: Option<WatchEnd>) -> OperatorTest {
    let declare = move |manager: &Manager| -> Result<(), BoxError> {
        let made = HandMade::new(manager.client().clone(), manager.client_config(), bug)?;
        let follower = runnable::from_fn("follower", Group::Others, async move |context| {
            tokio::select! {
                () = made.run() => {}
                () = context.cancelled() => {}
            }
            Ok(())
        });
        Ok(manager.add(follower)?)
    };
    OperatorTest::declared(declare).crd_of::<Widget>()
}

fn two_sizes(name: &str) -> Scenario {
    // The operator does not watch the copies.
    scenario(name)
        .apply(widget(json!({"size": 1})))
        .quiet()
        .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
        .perturbations(all_but(&["interfere", "missed"]))
}

#[tokio::test]
async fn a_watch_that_is_not_opened_again_after_a_410_misses_all_later_changes() {
    let operator = |form: Form| hand_made((!form.is_mended()).then_some(WatchEnd::Expired));
    let scenario = || two_sizes("expired watch");
    check(("expired-watch", "wrong-state"), scenario, operator).await;
}

#[tokio::test]
async fn a_watch_that_is_not_opened_again_after_its_end_misses_all_later_changes() {
    let operator = |form: Form| hand_made((!form.is_mended()).then_some(WatchEnd::Closed));
    let scenario = || two_sizes("closed watch");
    check(("server-restart", "wrong-state"), scenario, operator).await;
}
