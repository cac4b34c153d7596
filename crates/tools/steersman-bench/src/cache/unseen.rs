//! Driver: measures what the unseen writes of other keys add to a read (RYOW-11).

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use steersman_client::{Client, RequestId};
use steersman_object::{ListOptions, ObjectKey};

use super::reads::{Rounds, spread};
use super::words::ClientRole;
use crate::micro::{ServedPods, batch};
use crate::process::{Actor, BenchResult, repeat};
use crate::report::{Figure, Spread};
use crate::samples::TOGETHER;

/// The number of unseen writes, each of another request key.
const UNSEEN: usize = 1000;

/// The most that a read may take with unseen writes, as a multiple of the same read without.
const MOST: f64 = 1.2;

/// What unseen writes cost: the times of a read by key and of a list, as multiples of the same reads without them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UnseenCost {
    get: f64,
    list: f64,
}

/// The times of a read by key and of a list, in nanoseconds.
struct ReadTimes {
    get: f64,
    list: f64,
}

pub(super) async fn measure_all(runs: u32, quick: bool) -> BenchResult<Vec<Figure>> {
    let objects = if quick { 2000 } else { 10_000 };
    let what = format!("reads with {UNSEEN} unseen writes");
    let role = ClientRole::Unseen { objects };
    let costs: Vec<UnseenCost> =
        repeat(runs, what, async || Actor::client(&role)?.report().await).await?;
    let figure = |id: &str, read: String, of: fn(&UnseenCost) -> f64| {
        let what = format!(
            "{read} with {UNSEEN} unseen writes of other keys, as a multiple of a read without"
        );
        // The ratio of two times of one process does not depend on the machine.
        let figure = Figure::new(id, what, "", Spread::over(&costs, of));
        figure.at_most(MOST).guarded()
    };
    let get = "read by key through `client.get`".to_owned();
    let list = format!("list by field index through `client.list`, {TOGETHER} of {objects} Pods,");
    Ok(vec![
        figure("cache/get/unseen", get, |cost| cost.get),
        figure("cache/list/unseen", list, |cost| cost.list),
    ])
}

/// Measures reads of a client with unseen writes of other keys, as multiples of the same reads without.
pub(super) fn measure(objects: u64) -> BenchResult<UnseenCost> {
    let served = ServedPods::with(objects)?;
    served.informer.add_index("batch", batch)?;
    let keys = served.informer.store().keys(&ListOptions::new())?;
    let (written, others) = keys
        .split_at_checked(UNSEEN)
        .ok_or("there are too few Pods")?;
    let reader = served.client.for_request(RequestId::new("readers", 0));
    let before = served.runtime.block_on(read(&reader, others, objects))?;
    served.write_unseen(written)?;
    let after = served.runtime.block_on(read(&reader, others, objects))?;
    Ok(UnseenCost {
        get: after.get / before.get,
        list: after.list / before.list,
    })
}

/// Measures reads, in nanoseconds.
async fn read(client: &Client, keys: &[ObjectKey], objects: u64) -> BenchResult<ReadTimes> {
    let some = spread(keys);
    let get = async |at: usize| client.get::<Pod>(some[at]).await.is_ok();
    let get = Rounds::MANY.timed_async(some.len(), get).await?;
    let batches: Vec<ListOptions> = (0..objects / TOGETHER)
        .map(|batch| ListOptions::new().index("batch", batch.to_string()))
        .collect();
    let list = async |at: usize| {
        let read = client.list::<Pod>(&batches[at]).await;
        read.is_ok_and(|found| found.len() as u64 == TOGETHER)
    };
    let list = Rounds::MANY.timed_async(batches.len(), list).await?;
    Ok(ReadTimes { get, list })
}

#[cfg(test)]
mod tests {
    use super::{UNSEEN, measure};

    #[test]
    fn reads_are_measured_beside_a_thousand_unseen_writes() {
        let cost = measure(UNSEEN as u64 + 100).unwrap();
        assert!(cost.get > 0.0 && cost.list > 0.0);
        assert!(measure(10).is_err());
    }
}
