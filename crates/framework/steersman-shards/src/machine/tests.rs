//! A simulation of groups: members that crash, pause, leave and lose their connection, on one server.

mod simulation;

use std::time::Duration;

use simulation::{Fault, ONE, OTHER, Simulation};
use steersman_testenv::seeds;

const SECOND: Duration = Duration::from_secs(1);

// SHARD-1, SHARD-2, SHARD-3, SHARD-11
#[test]
fn no_two_members_work_on_one_slot_and_each_slot_has_an_owner_at_last() {
    seeds::live(0..500, "cargo xtask seeds --of members --only", |seed| {
        let mut simulation = Simulation::new(seed);
        simulation.disturb(90 * SECOND);
        simulation.calm(45 * SECOND);
        simulation.assert_all_owned();
    });
}

#[test]
fn the_slots_of_a_crashed_member_are_owned_again_within_25_seconds() {
    for seed in 0..20 {
        let mut simulation = Simulation::of_members(seed, 4);
        simulation.calm(20 * SECOND);
        simulation.fault(Fault::Crash, 1);
        simulation.calm(25 * SECOND);
        simulation.assert_all_owned();
    }
}

#[test]
fn a_member_that_starts_or_leaves_moves_slots_within_2_seconds() {
    for seed in 0..20 {
        let mut simulation = Simulation::of_members(seed, 3);
        simulation.calm(20 * SECOND);
        simulation.assert_all_owned();
        simulation.start();
        simulation.let_work_end();
        simulation.calm(2 * SECOND);
        simulation.assert_all_owned();
        assert_eq!(simulation.fewest_slots(), 64, "seed {seed}");
        simulation.fault(Fault::Leave, 2);
        simulation.calm(2 * SECOND);
        simulation.assert_all_owned();
    }
}

// SHARD-1: the Leases may be deleted by another party.
#[test]
fn deleted_leases_let_no_two_members_work_on_one_slot() {
    for seed in 0..20 {
        let mut simulation = Simulation::of_members(seed, 3);
        simulation.calm(20 * SECOND);
        simulation.delete_all_leases();
        simulation.calm(40 * SECOND);
        simulation.assert_all_owned();
    }
}

// SHARD-11
#[test]
fn members_with_another_division_wait_until_the_others_have_left() {
    for seed in 0..20 {
        let mut simulation = Simulation::of_members(seed, 3);
        simulation.calm(20 * SECOND);
        simulation.divide(OTHER);
        for _ in 0..3 {
            simulation.start();
        }
        simulation.calm(20 * SECOND);
        simulation.assert_all_owned();
        assert_eq!(
            simulation.owning_divisions(),
            [ONE].into(),
            "seed {seed}: those that were first go on"
        );
        simulation.replace_all(ONE, SECOND);
        simulation.let_work_end();
        simulation.calm(2 * SECOND);
        simulation.assert_all_owned();
        assert_eq!(simulation.owning_divisions(), [OTHER].into(), "seed {seed}");
    }
}

// SHARD-11: the Lease of a crashed member expires first.
#[test]
fn a_crash_of_the_last_member_of_a_division_lets_the_others_begin() {
    for seed in 0..20 {
        let mut simulation = Simulation::of_members(seed, 1);
        simulation.calm(20 * SECOND);
        simulation.divide(OTHER);
        simulation.start();
        simulation.calm(5 * SECOND);
        simulation.fault(Fault::Crash, 0);
        simulation.calm(25 * SECOND);
        simulation.assert_all_owned();
        assert_eq!(simulation.owning_divisions(), [OTHER].into(), "seed {seed}");
    }
}

#[test]
fn an_assignment_that_cannot_be_read_is_replaced() {
    let mut simulation = Simulation::of_members(7, 3);
    simulation.calm(20 * SECOND);
    simulation.break_assignment();
    simulation.calm(20 * SECOND);
    simulation.assert_all_owned();
}
