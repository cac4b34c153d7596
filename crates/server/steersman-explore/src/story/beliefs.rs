//! Machine: tells what the operator believed at a perturbation, and what was so.

use super::happened::write_text;
use super::plain_text::one_line;
use super::story_line::StoryBlock;
use crate::finding::Finding;
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::request::OperatorRequest;
use crate::world_event::{WorldEvent, WorldEventKind};

/// What the operator believed, and what was so. Both are sentences without a full stop.
struct Belief {
    believed: String,
    so: String,
}

/// What a process of the operator knows after its start.
const NEW_PROCESS: &str = "the new process of the operator knows only what it reads";

/// Returns what the operator believed and what was so, for each perturbation for which that is known.
pub(crate) fn beliefs(finding: &Finding) -> Vec<StoryBlock> {
    let several = finding.perturbations.len() > 1;
    let told = finding.perturbations.iter().filter_map(|perturbation| {
        let Belief { believed, so } = belief(perturbation, &finding.events)?;
        let mut blocks = Vec::new();
        if several {
            blocks.push(StoryBlock::Text(format!("At {perturbation}:")));
        }
        blocks.push(StoryBlock::Item(format!("believed: {believed}")));
        blocks.push(StoryBlock::Item(format!("was so: {so}")));
        Some(blocks)
    });
    told.flatten().collect()
}

fn belief(perturbation: &Perturbation, events: &[WorldEvent]) -> Option<Belief> {
    let Perturbation { kind, at, detail } = *perturbation;
    let write = write_text(events, at);
    let (believed, so) = match kind {
        PerturbationKind::CrashBeforeWrite => (
            NEW_PROCESS.to_owned(),
            format!("{write} was not carried out"),
        ),
        PerturbationKind::CrashAfterWrite => (
            NEW_PROCESS.to_owned(),
            format!("{write} was carried out, and its answer was lost"),
        ),
        PerturbationKind::LostAnswer => (
            format!("{write} failed with 504"),
            format!("write {at} was carried out"),
        ),
        PerturbationKind::Refuse => (
            format!("{write} failed with {detail}"),
            format!("write {at} was not carried out"),
        ),
        PerturbationKind::CrashAfterRead => (
            NEW_PROCESS.to_owned(),
            format!("the first process had done all that it did before read {at} was answered"),
        ),
        PerturbationKind::StaleRestart => {
            let versions = if detail == 1 {
                "1 version".to_owned()
            } else {
                format!("{detail} versions")
            };
            (
                format!(
                    "the new process was first shown the state as it was {versions} before the crash"
                ),
                format!("all writes up to {write} were carried out"),
            )
        }
        PerturbationKind::LateWatch => {
            let resource =
                request_of(events, at).map_or("the resource", |request| &request.resource);
            (
                format!("no watch of {resource} showed {write} or later changes"),
                format!("write {at} was carried out"),
            )
        }
        PerturbationKind::Missed => (
            format!("the object of {write} is the one that the operator knows"),
            "the object was deleted while no watch ran, so that no watch showed the deletion"
                .to_owned(),
        ),
        PerturbationKind::TwoLeaders => (
            "the paused process still believed that it led".to_owned(),
            format!("another process had taken over when {write} arrived"),
        ),
        PerturbationKind::Interfere => (
            format!("{write} still stands"),
            format!("a user undid write {at}"),
        ),
        PerturbationKind::NamespaceDeleted => {
            let namespace = request_of(events, at).and_then(|request| request.namespace.as_deref());
            let namespace = namespace.map_or("the namespace".to_owned(), |name| {
                format!("the namespace {}", one_line(name))
            });
            (
                format!("{namespace} stays"),
                format!("a user deleted {namespace} after {write}"),
            )
        }
        PerturbationKind::SettledRestart => (
            NEW_PROCESS.to_owned(),
            "all was settled, and nothing was left to do".to_owned(),
        ),
        PerturbationKind::DesiredState
        | PerturbationKind::ExpiredWatch
        | PerturbationKind::ServerRestart
        | PerturbationKind::Throttled
        | PerturbationKind::NoWebhook => return None,
    };
    Some(Belief { believed, so })
}

fn request_of(events: &[WorldEvent], number: usize) -> Option<&OperatorRequest> {
    events.iter().find_map(|event| match &event.what {
        WorldEventKind::Wrote {
            request,
            number: Some(of_write),
            ..
        } if *of_write == number => Some(request),
        _ => None,
    })
}
