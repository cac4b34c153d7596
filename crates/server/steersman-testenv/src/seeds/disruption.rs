//! Words: the failures of a server and of its connections that seeded simulations share.

use std::time::Duration;

use steersman_apiserver::faults::{Effect, FaultSpec, Restart};
use steersman_apiserver::{ApiServer, History};

use super::seeded_rng::SeededRng;

/// A failure of an embedded server, or of the connections to it.
#[derive(Clone, Debug)]
pub enum Disruption {
    /// All open watches end in order.
    Cut,
    /// All open watches end with a broken connection.
    Break,
    /// All open watches are silent until [`Resume`](Self::Resume).
    Silence,
    /// Silent watches deliver the events that they missed.
    Resume,
    /// All open watches end with an event of 410.
    Expire,
    /// The server forgets its history: a watch from an older version gets a 410.
    Compact,
    /// The server restarts; its phases may take time.
    Restart(Restart),
    /// The connection is dead for this number of milliseconds: open watches are silent for good,
    /// and requests are not answered in this time.
    Die(u64),
    /// The fault is planned for the next requests that it matches.
    Fault(Box<FaultSpec>),
}

impl Disruption {
    /// Disrupts a server. The failure stays after this call, for as long as the variant says.
    ///
    /// # Panics
    /// If the server refuses the fault of [`Fault`](Self::Fault).
    pub fn inflict(&self, server: &ApiServer) {
        let faults = server.faults();
        match self {
            Self::Cut => drop(faults.cut_watches()),
            Self::Break => drop(faults.break_watches()),
            Self::Silence => drop(faults.silence_watches()),
            Self::Resume => drop(faults.resume_watches()),
            Self::Expire => drop(faults.expire_watches()),
            Self::Compact => server.compact(),
            Self::Restart(restart) => drop(server.restart(*restart)),
            Self::Die(millis) => {
                faults.silence_watches();
                plan(server, FaultSpec::new(Effect::Swallow).for_millis(*millis));
            }
            Self::Fault(fault) => plan(server, (**fault).clone()),
        }
    }

    /// Draws a restart: with or without its history, at once or slowly. Its three phases take at most 20, 5 and 5
    /// seconds.
    #[must_use]
    pub fn restart(rng: &mut SeededRng) -> Self {
        let mut phase = |most: u64| {
            let millis = rng.maybe(60, |rng| rng.below(most));
            Duration::from_millis(millis.unwrap_or(0))
        };
        let (away, installing, initializing) = (phase(20_000), phase(5_000), phase(5_000));
        let history = rng.pick(&[History::Kept, History::Lost]);
        let restart = Restart::new(history).away(away).installing(installing);
        Self::Restart(restart.initializing(initializing))
    }
}

fn plan(server: &ApiServer, fault: FaultSpec) {
    match server.faults().add(fault) {
        Ok(guard) => guard.keep(),
        Err(refused) => panic!("the server refuses a fault: {refused}"),
    }
}
