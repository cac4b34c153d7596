//! Runs seeded simulations with more seeds than the tests try.

use std::path::Path;

use clap::ValueEnum as _;

use crate::flags::{Seeds, Worlds};
use crate::one_test::OneTest;

/// Runs the simulations of these seeds: those of one sort, or of all sorts except crowds.
pub(crate) fn run(root: &Path, asked: &Seeds) -> Result<(), String> {
    let (from, end) = match asked.only {
        Some(seed) => (seed, seed.saturating_add(1)),
        None => (asked.from, asked.from.saturating_add(asked.count)),
    };
    let range = format!("{from}..{end}");
    let sorts = match asked.of {
        Some(sort) => vec![sort],
        // Simulations of crowds are large and slow; a few of them are enough.
        None => Worlds::value_variants()
            .iter()
            .copied()
            .filter(|sort| *sort != Worlds::Crowds)
            .collect(),
    };
    for sort in sorts {
        let variables = vec![("STEERSMAN_SEEDS".to_owned(), range.clone().into())];
        test(sort).run(root, variables, "a seed fails")?;
    }
    Ok(())
}

fn test(sort: Worlds) -> OneTest {
    match sort {
        Worlds::Informers => OneTest::integration(
            "steersman-informer",
            "seeds::in_every_world_stores_and_subscribers_end_equal_to_the_server",
        ),
        Worlds::Crowds => OneTest::integration(
            "steersman-informer",
            "seeds::in_every_crowded_world_stores_end_equal_to_the_server_whatever_the_dictionary",
        ),
        Worlds::Writes => OneTest::integration(
            "steersman-client",
            "seeds::no_read_of_a_key_shows_a_state_before_its_own_write",
        ),
        Worlds::Leaders => OneTest::integration(
            "steersman-manager",
            "seeds::no_reconcile_of_a_new_leader_begins_before_the_last_one_of_the_old_leader_has_ended",
        ),
        Worlds::Shards => OneTest::integration(
            "steersman-manager",
            "sharing::seeds::no_object_has_two_reconciles_at_a_time_and_none_is_forgotten",
        ),
        Worlds::Members => OneTest::unit(
            "steersman-shards",
            "machine::tests::no_two_members_work_on_one_slot_and_each_slot_has_an_owner_at_last",
        ),
        Worlds::Controllers => OneTest::integration(
            "steersman-controller",
            "seeds::every_storm_ends_with_every_key_reconciled_in_its_last_state",
        ),
        Worlds::Caches => OneTest::integration(
            "steersman-cache",
            "seeds::every_world_ends_with_every_read_and_subscriber_equal_to_the_server",
        ),
    }
}
