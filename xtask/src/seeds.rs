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
        Worlds::Informers => OneTest {
            package: "steersman-informer",
            test: "seeds::in_every_world_stores_and_subscribers_end_equal_to_the_server",
        },
        Worlds::Crowds => OneTest {
            package: "steersman-informer",
            test: "seeds::in_every_crowded_world_stores_end_equal_to_the_server_whatever_the_dictionary",
        },
        Worlds::Writes => OneTest {
            package: "steersman-client",
            test: "seeds::no_read_of_a_key_shows_a_state_before_its_own_write",
        },
        Worlds::Leaders => OneTest {
            package: "steersman-manager",
            test: "seeds::no_reconcile_of_a_new_leader_begins_before_the_last_one_of_the_old_leader_has_ended",
        },
        Worlds::Controllers => OneTest {
            package: "steersman-controller",
            test: "seeds::every_storm_ends_with_every_key_reconciled_in_its_last_state",
        },
        Worlds::Caches => OneTest {
            package: "steersman-cache",
            test: "seeds::every_world_ends_with_every_read_and_subscriber_equal_to_the_server",
        },
    }
}
