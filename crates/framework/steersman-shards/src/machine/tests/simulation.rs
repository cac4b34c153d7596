//! The server, the network and the members of a simulated group.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fastrand::Rng;
use steersman_lease::Timing;
use steersman_object::{ShardSlot, SlotSet};

use crate::machine::{MemberMachine, RenewReply, ShardStep};
use crate::record::GroupSnapshot;

use self::server::{Reply, Request, Server};

const GROUP: &str = "group";
/// Two divisions.
pub(super) const ONE: &str = "one";
pub(super) const OTHER: &str = "other";
/// The shortest and the longest step of the simulated time.
const TICK: Duration = Duration::from_millis(5);
const LONGEST_TICK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Crash,
    Leave,
    Pause(Duration),
    Cut(Duration),
    DeleteLease,
}

/// A request that a member waits for.
#[derive(Debug)]
struct InFlight {
    id: u64,
    request: Request,
    answered_at: Instant,
    /// Whether the reply arrives; the member learns of a failure otherwise.
    delivers: bool,
    reply: Option<Reply>,
}

/// A request on its way to the server, which may outlive the wait of its member.
#[derive(Debug)]
struct Arriving {
    at: Instant,
    id: u64,
    member: String,
    request: Request,
}

#[derive(Debug)]
struct Member {
    name: String,
    division: &'static str,
    machine: MemberMachine,
    in_flight: Vec<InFlight>,
    /// For each slot with work: when the work ends.
    work: BTreeMap<u8, Instant>,
    paused_until: Option<Instant>,
    cut_until: Option<Instant>,
    has_ended: bool,
}

/// A group and its server on a simulated clock.
#[derive(Debug)]
pub(super) struct Simulation {
    seed: u64,
    rng: Rng,
    began: Instant,
    now: Instant,
    server: Server,
    arriving: Vec<Arriving>,
    members: Vec<Member>,
    /// The number of members and requests so far.
    names: u64,
    /// The longest time of each way of a request, in milliseconds.
    latency: u64,
    works: bool,
    /// The division of the members that start.
    division: &'static str,
}

impl Member {
    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Work ends when it is done, and at the latest when the member may not work any more (SHARD-3).
    fn end_work(&mut self, now: Instant) {
        let holding = self.machine.holding(now);
        let may_work = holding.until.is_some_and(|until| now < until);
        self.work.retain(|_, ends| now < *ends && may_work);
        let busy = self.work.keys().map(|slot| ShardSlot::new(*slot));
        self.machine.handle_busy(busy.collect());
    }

    fn answer(&mut self, now: Instant) {
        let (due, rest) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition::<Vec<_>, _>(|sent| sent.answered_at <= now);
        self.in_flight = rest;
        for done in due {
            let reply = done.reply.filter(|_| done.delivers);
            match (reply, done.request) {
                (Some(Reply::Renewed(reply)), _) => self.machine.handle_renewed(reply, now),
                (Some(Reply::Listed(snapshot)), _) => self.machine.handle_listed(snapshot, now),
                (Some(Reply::Written(is_done)), _) => self.machine.handle_written(is_done, now),
                (None, Request::Renew(..)) => self.machine.handle_renewed(RenewReply::Failed, now),
                (None, Request::List) => self.machine.handle_listed(None, now),
                (None, Request::Write(_)) => self.machine.handle_written(false, now),
            }
        }
    }
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        let members = Rng::with_seed(seed).usize(1..=8);
        Self::of_members(seed, members)
    }

    pub(super) fn of_members(seed: u64, members: usize) -> Self {
        let now = tokio::time::Instant::now().into_std();
        let mut this = Self {
            seed,
            rng: Rng::with_seed(seed),
            began: now,
            now,
            server: Server::default(),
            arriving: Vec::new(),
            members: Vec::new(),
            names: 0,
            latency: 20,
            works: true,
            division: ONE,
        };
        for _ in 0..members {
            this.start();
        }
        this
    }

    /// Starts members with a division from now on.
    pub(super) fn divide(&mut self, division: &'static str) {
        self.division = division;
    }

    /// Lets the members of a division leave, one after the other.
    pub(super) fn replace_all(&mut self, division: &'static str, pause: Duration) {
        while let Some(at) = self.members.iter().position(|one| one.division == division) {
            self.fault(Fault::Leave, at);
            self.calm(pause);
        }
    }

    /// Returns the divisions of the members that own slots.
    pub(super) fn owning_divisions(&self) -> BTreeSet<&'static str> {
        let owners = self.members.iter();
        let owners = owners.filter(|one| !one.machine.holding(self.now).slots.is_empty());
        owners.map(|one| one.division).collect()
    }

    pub(super) fn start(&mut self) {
        self.names += 1;
        // Names are not in the order of the starts.
        let name = format!("{:02x}-{}", self.rng.u8(..), self.names);
        let seed = self.rng.u64(..);
        let named = (GROUP, &*name, self.division);
        let machine = MemberMachine::new(named, Timing::default(), seed, self.now);
        self.members.push(Member {
            name,
            division: self.division,
            machine,
            in_flight: Vec::new(),
            work: BTreeMap::new(),
            paused_until: None,
            cut_until: None,
            has_ended: false,
        });
    }

    /// Lets time pass with faults.
    pub(super) fn disturb(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let pause = Duration::from_millis(self.rng.u64(200..6_000));
            self.latency = [5, 50, 500, 4_000][self.rng.usize(0..4)];
            self.calm(pause);
            let at = self.rng.usize(0..8);
            let time = Duration::from_millis(self.rng.u64(100..25_000));
            match self.rng.u8(0..9) {
                0 => self.fault(Fault::Crash, at),
                1 => self.fault(Fault::Leave, at),
                2 | 3 => self.fault(Fault::Pause(time), at),
                4 | 5 => self.fault(Fault::Cut(time), at),
                6 => self.fault(Fault::DeleteLease, at),
                7 if self.rng.u8(0..4) == 0 => self.server.snapshot.group = None,
                // In half of the simulations, some members divide otherwise.
                _ if self.members.len() < 8 => {
                    let is_other = self.seed % 2 == 1 && self.rng.u8(0..3) == 0;
                    self.division = if is_other { OTHER } else { ONE };
                    self.start();
                }
                _ => {}
            }
        }
        self.latency = 20;
        // All others may be about to leave.
        self.start();
    }

    pub(super) fn fault(&mut self, fault: Fault, at: usize) {
        let now = self.now;
        if self.members.is_empty() {
            return;
        }
        let at = at % self.members.len();
        let member = &mut self.members[at];
        match fault {
            Fault::Crash => drop(self.members.remove(at)),
            Fault::Leave => member.machine.leave(),
            Fault::Pause(time) => member.paused_until = Some(now + time),
            Fault::Cut(time) => member.cut_until = Some(now + time),
            Fault::DeleteLease => {
                self.server.snapshot.members.remove(&member.name);
            }
        }
    }

    pub(super) fn delete_all_leases(&mut self) {
        self.server.snapshot = GroupSnapshot::default();
    }

    pub(super) fn break_assignment(&mut self) {
        let version = self.server.next();
        if let Some(group) = &mut self.server.snapshot.group {
            group.version = version;
            group.assignment = Err("no JSON".to_owned());
        }
    }

    /// From now on no work is begun.
    pub(super) fn let_work_end(&mut self) {
        self.works = false;
    }

    pub(super) fn calm(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self
                .next_event()
                .clamp(self.now + TICK, self.now + LONGEST_TICK);
            self.tick();
        }
    }

    /// Returns when the next request arrives at the server or is answered.
    fn next_event(&self) -> Instant {
        let members = self.members.iter().flat_map(|one| &one.in_flight);
        let answers = members.map(|sent| sent.answered_at);
        let arrivals = self.arriving.iter().map(|one| one.at);
        answers
            .chain(arrivals)
            .min()
            .unwrap_or(self.now + LONGEST_TICK)
    }

    fn tick(&mut self) {
        let now = self.now;
        let before = self.server.revision;
        let (due, rest) = std::mem::take(&mut self.arriving)
            .into_iter()
            .partition::<Vec<_>, _>(|one| one.at <= now);
        self.arriving = rest;
        for arrived in due {
            let reply = self.server.execute(&arrived.member, &arrived.request);
            let (member, request) = (&arrived.member, &arrived.request);
            if !matches!(request, Request::List) {
                let at = now.duration_since(self.began);
                let write = format!("{at:?} {member}: {request:?}: {reply:?}");
                self.server.writes.push(write);
            }
            let mut waiting = self.members.iter_mut().flat_map(|one| &mut one.in_flight);
            if let Some(sent) = waiting.find(|sent| sent.id == arrived.id) {
                sent.reply = Some(reply);
            }
        }
        let has_changed = before != self.server.revision;
        for at in 0..self.members.len() {
            self.run_member(at, has_changed);
        }
        self.members.retain(|member| !member.has_ended);
        self.assert_no_slot_has_two_workers();
    }

    fn run_member(&mut self, at: usize, has_changed: bool) {
        let now = self.now;
        let member = &mut self.members[at];
        if member.is_paused(now) {
            return;
        }
        let is_cut = member.cut_until.is_some_and(|until| now < until);
        if has_changed && !is_cut {
            member.machine.handle_notice();
        }
        member.answer(now);
        member.end_work(now);
        loop {
            let (request, limit) = match self.members[at].machine.next_step(now) {
                ShardStep::Wait(_) => break,
                ShardStep::End => {
                    self.members[at].has_ended = true;
                    break;
                }
                ShardStep::Renew(content, version, limit) => {
                    (Request::Renew(content, version), limit)
                }
                ShardStep::List(limit) => (Request::List, limit),
                ShardStep::Write(write, limit) => (Request::Write(write), limit),
            };
            self.send(at, request, limit, is_cut);
        }
        let member = &mut self.members[at];
        let holding = member.machine.holding(now);
        let may_work = self.works && holding.until.is_some_and(|until| now < until);
        for _ in 0..3 {
            let slot = self.rng.u8(..);
            if may_work && holding.slots.contains(ShardSlot::new(slot)) {
                let time = Duration::from_millis(self.rng.u64(1..1_500));
                member.work.entry(slot).or_insert(now + time);
            }
        }
        member.end_work(now);
    }

    fn send(&mut self, at: usize, request: Request, limit: Instant, is_cut: bool) {
        let member = &mut self.members[at];
        self.names += 1;
        let there = Duration::from_millis(self.rng.u64(0..=self.latency));
        let back = Duration::from_millis(self.rng.u64(0..=self.latency));
        let is_lost = self.latency > 20 && self.rng.u8(0..20) == 0;
        let answered = self.now + there + back;
        let delivers = !is_cut && !is_lost && answered < limit;
        if !is_cut && (!is_lost || self.rng.bool()) {
            self.arriving.push(Arriving {
                at: self.now + there,
                id: self.names,
                member: member.name.clone(),
                request: request.clone(),
            });
        }
        member.in_flight.push(InFlight {
            id: self.names,
            request,
            answered_at: if delivers { answered } else { limit },
            delivers,
            reply: None,
        });
    }

    fn assert_no_slot_has_two_workers(&self) {
        let mut workers: BTreeMap<u8, &str> = BTreeMap::new();
        let mut divided: Option<&Member> = None;
        for member in &self.members {
            if member.is_paused(self.now) {
                continue;
            }
            for slot in member.work.keys() {
                // SHARD-11: by another division, an object of this slot is in any slot.
                let other = divided.filter(|one| one.division != member.division);
                let other = other.map(|one| one.name.as_str());
                divided = Some(member);
                if let Some(other) = workers.insert(*slot, &member.name).or(other) {
                    let writes = self.server.writes.iter().rev().take(40).rev();
                    let writes: Vec<&str> = writes.map(String::as_str).collect();
                    panic!(
                        "seed {}, {:?}: {other} and {} work on slot {slot}; the last writes:\n{}",
                        self.seed,
                        self.now.duration_since(self.began),
                        member.name,
                        writes.join("\n")
                    );
                }
            }
        }
    }

    pub(super) fn assert_all_owned(&self) {
        let mut owned = SlotSet::EMPTY;
        for member in &self.members {
            let holding = member.machine.holding(self.now);
            if holding.until.is_some() {
                let twice = owned.intersection(&holding.slots);
                assert!(twice.is_empty(), "seed {}: two owners", self.seed);
                owned = owned.union(&holding.slots);
            }
        }
        assert_eq!(owned, SlotSet::ALL, "seed {}: {self:#?}", self.seed);
    }

    pub(super) fn fewest_slots(&self) -> usize {
        let members = self.members.iter();
        let counts = members.map(|member| member.machine.holding(self.now).slots.len());
        counts.min().unwrap_or_default()
    }
}
