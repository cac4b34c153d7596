//! Driver: runs a set once: lists the existing children, applies the set in order, and prunes the rest.

use std::collections::HashSet;

use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use steersman_client::{Client, ReadConsistency};
use steersman_object::{Gvk, Kind, ObjectKey};

use crate::error::Error;
use crate::inventory::Children;
use crate::member::{ChildMember, Processed};
use crate::outcome::{ChildOutcome, ChildState, SetOutcome};
use crate::owner::SetOwner;
use crate::plan::SetPlan;
use crate::schedule::Schedule;

type Name = (Kind, ObjectKey);

pub(crate) async fn run(plan: SetPlan, client: &Client) -> Result<SetOutcome, Error> {
    plan.owner.check()?;
    let names = names(&plan)?;
    let leftovers = leftovers(&plan, &names, client).await?;
    let mut schedule = Schedule::new(plan.after);
    let results = process(
        &plan.owner, client, plan.members, plan.at_once, &mut schedule,
    )
    .await;
    let mut outcome = assemble(&names, results, &schedule);
    prune(&plan.owner, client, leftovers, plan.at_once, &mut outcome).await;
    Ok(outcome)
}

/// Returns the kinds and keys of the children in the set.
fn names(plan: &SetPlan) -> Result<Vec<Name>, Error> {
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(plan.members.len());
    for member in &plan.members {
        let (kind, key) = (member.kind.clone(), member.key.clone());
        if !plan.is_declared(&kind) {
            return Err(Error::KindNotDeclared { kind, key });
        }
        // A child without a name fails in its own apply.
        if !key.name().is_empty() && !seen.insert(identity(&kind, &key)) {
            return Err(Error::Twice { kind, key });
        }
        names.push((kind, key));
    }
    Ok(names)
}

/// Returns the identity of a child: the group, the kind and the key, in any version.
fn identity(kind: &Kind, key: &ObjectKey) -> (String, String, ObjectKey) {
    let gvk: &Gvk = kind.gvk();
    (gvk.group().to_owned(), gvk.kind().to_owned(), key.clone())
}

/// Returns the existing children that are not in the set, and so are pruned.
///
/// For an empty set, the list waits until the cache has seen the writes of its own key, because the result ends a
/// clean-up. For other sets it does not wait: a child that the cache has not seen yet causes an event and another run.
async fn leftovers(plan: &SetPlan, names: &[Name], client: &Client) -> Result<Children, Error> {
    let reader = match plan.members.is_empty() {
        true => client.clone(),
        false => client.read_consistency(ReadConsistency::None),
    };
    let reader = &reader;
    let lists = plan.kinds.iter().map(|kind| async move {
        let listed = kind.list(&plan.owner, reader).await;
        listed.map_err(|source| Error::Inventory {
            kind: kind.kind.clone(),
            owner: plan.owner.key(),
            source: Box::new(source),
        })
    });
    let listed = try_join_all(lists).await?;
    let wanted: HashSet<_> = names
        .iter()
        .map(|(kind, key)| identity(kind, key))
        .collect();
    let mut leftovers: Vec<_> = listed.into_iter().flatten().collect();
    leftovers.retain(|found| !wanted.contains(&identity(&found.kind, &found.key)));
    Ok(leftovers)
}

/// Processes the children as soon as the schedule lets them start, at most `at_once` at a time.
async fn process(
    owner: &SetOwner,
    client: &Client,
    members: Children,
    at_once: usize,
    schedule: &mut Schedule,
) -> Vec<Option<Processed>> {
    let mut results: Vec<Option<Processed>> = members.iter().map(|_| None).collect();
    let mut members: Vec<Option<ChildMember>> = members.into_iter().map(Some).collect();
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < at_once
            && let Some(index) = schedule.next_child()
        {
            // The schedule starts each child only once.
            if let Some(member) = members.get_mut(index).and_then(Option::take) {
                let processed = member.process(owner, client);
                running.push(async move { (index, processed.await) });
            }
        }
        let Some((index, processed)) = running.next().await else {
            return results;
        };
        // SET-4: children that come after this child may start now.
        if processed.is_done() {
            schedule.handle_done(index);
        }
        if let Some(result) = results.get_mut(index) {
            *result = Some(processed);
        }
    }
}

fn assemble(names: &[Name], results: Vec<Option<Processed>>, schedule: &Schedule) -> SetOutcome {
    let mut outcome = SetOutcome {
        children: Vec::with_capacity(names.len()),
        objects: Vec::with_capacity(names.len()),
    };
    for (index, (result, (kind, key))) in results.into_iter().zip(names).enumerate() {
        let processed = result.unwrap_or_else(|| {
            let after = schedule.waits_for(index).iter();
            let after = after.filter_map(|earlier| names.get(*earlier).cloned());
            Processed::waiting(after.collect())
        });
        outcome.push((kind.clone(), key.clone()), processed, false);
    }
    outcome
}

/// Prunes the existing children that are not in the set, unless a child of the set was not applied.
async fn prune(
    owner: &SetOwner,
    client: &Client,
    leftovers: Children,
    at_once: usize,
    outcome: &mut SetOutcome,
) {
    let names: Vec<Name> = leftovers
        .iter()
        .map(|leftover| (leftover.kind.clone(), leftover.key.clone()))
        .collect();
    // SET-3: nothing is pruned while a child of the set is not applied.
    let unfinished: Vec<Name> = outcome
        .children
        .iter()
        .filter(|child| !child.is_processed())
        .map(|child| (child.kind.clone(), child.key.clone()))
        .collect();
    let results = match unfinished.is_empty() {
        true => {
            let mut schedule = Schedule::new(names.iter().map(|_| Vec::new()));
            process(owner, client, leftovers, at_once, &mut schedule).await
        }
        false => names.iter().map(|_| None).collect(),
    };
    for (name, result) in names.into_iter().zip(results) {
        let processed = result.unwrap_or_else(|| Processed::waiting(unfinished.clone()));
        outcome.push(name, processed, true);
    }
}

impl Processed {
    fn waiting(after: Vec<Name>) -> Self {
        Self {
            state: ChildState::Waiting { after },
            readiness: None,
            object: None,
        }
    }
}

impl SetOutcome {
    fn push(&mut self, (kind, key): Name, processed: Processed, pruned: bool) {
        self.children.push(ChildOutcome {
            kind,
            key,
            state: processed.state,
            readiness: processed.readiness,
            pruned,
        });
        self.objects.push(processed.object);
    }
}
