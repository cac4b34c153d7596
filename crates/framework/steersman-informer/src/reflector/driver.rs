//! Driver: executes the machine's steps against a [`ListWatch`] and sends deltas.

mod quiet_watch;
mod slots;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::Either;
use steersman_api::clock::now;
use steersman_api::{
    Decoded, Error, ListPart, ListStream, ListWatch, PageEnd, PageRequest, Paging, Projection,
    VersionMatch, WatchEvent, WatchOptions, WatchStream,
};
use steersman_object::{ResourceVersion, SlotSet};
use tokio::sync::OwnedSemaphorePermit;

use crate::chunked_vec::ChunkedVec;
use crate::delta::{Arrived, Delta, EventType};
use crate::health::Pause;
use crate::ingest::stream::{Ingest, IngestStream, StreamPart, listed, watched};
use crate::options::{Failed, InformerOptions};
use crate::reflector::failure::{RequestFailure, is_timeout};
use crate::reflector::machine::ReflectorMachine;
use crate::reflector::partial_list::PartialList;
use crate::reflector::request_metrics::RequestMetrics;
use crate::reflector::step::{BookmarkEffect, ReflectorStep, RequestProblem, WatchEnd};
use crate::reflector::version_check::VersionCheck;
use crate::shard_filter::slot_ledger::{ListSlots, SlotDemand};

pub(crate) trait DeltaSink: Send + Sync {
    fn send(&self, delta: Delta) -> impl Future<Output = ()> + Send;
}

/// The informer of a reflector: tells the reflector what to request, and receives the failures of its requests.
pub(crate) trait ReflectorHost: Send + Sync {
    type Ingest: Ingest;

    fn ingest(&self) -> Self::Ingest;

    /// Reports why requests fail at the moment; `None` if they do not fail.
    fn report(&self, problem: Option<&RequestProblem>);

    /// Returns how much of each object to request. The value never shrinks.
    fn wanted(&self) -> Projection;

    /// Tells the informer the instant by which the reflector acts, receives data, or times out (HEALTH-3).
    fn expect_activity(&self, by: Instant);

    /// Tells the informer that the reflector rests, and is not expected to act.
    fn expect_nothing(&self);

    fn relists(&self) -> u64;

    /// Returns whether a list of further slots is needed, or no request at all.
    fn slot_demand(&self) -> SlotDemand;

    /// Begins a list. If it asks for the newest state, the reflector follows the slots that are wanted now, and otherwise
    /// those that it followed before and are still wanted.
    fn begin_list(&self, is_newest: bool) -> ListSlots;

    /// Returns the slots of the newest list that are still wanted.
    fn followed_slots(&self) -> SlotSet;

    /// Returns the selector with which the server sends only the objects of these slots; `None` for no selector.
    fn shard_selector(&self, slots: &SlotSet) -> Option<String>;

    /// Waits until more than `projection` of each object is wanted, more than `relists` relists are requested, a slot
    /// was gained, or every slot was lost (if the present list has slots).
    fn wants_list(
        &self,
        projection: Projection,
        relists: u64,
        list: &ListSlots,
    ) -> impl Future<Output = ()> + Send;
}

/// Lists and watches one kind. Never ends by itself.
pub(crate) struct Reflector<L, S, H> {
    list_watch: L,
    sink: S,
    host: H,
    options: InformerOptions,
    machine: ReflectorMachine,
    request_metrics: RequestMetrics,
    partial_list: PartialList,
    /// How much of each object the present requests ask for.
    projection: Projection,
    /// The number of relist requests when the present list began. A later request causes another list.
    relists: u64,
    /// The slots of the present list, and of the watch that continues it.
    list_slots: ListSlots,
    version_check: VersionCheck,
    /// The number of outages that had ended by the last failure, to recognise a new one, and the time of the failure.
    failed: (u64, Instant),
    /// Whether a list was completed. Only later lists need a permit; the cache decides when first lists run.
    listed: bool,
    /// The permit that is held during each list but the first: it limits how many informers list again at once.
    turn: Option<OwnedSemaphorePermit>,
}

/// The longest time for which the health of the server delays a repeated request: the server may only seem to be away.
const AT_LAST: Duration = Duration::from_secs(30);

/// The longest time without data of a list, or until a watch opens: more than a request and the wait for a permit.
const LONGEST_REQUEST: Duration = Duration::from_secs(180);

/// The number of listed objects after which the reflector reports again that it is active (HEALTH-3).
const NOTED_OBJECTS: usize = 1024;

impl<L: ListWatch, S: DeltaSink, H: ReflectorHost> Reflector<L, S, H> {
    pub(crate) fn new(
        list_watch: L,
        sink: S,
        host: H,
        options: InformerOptions,
        request_metrics: RequestMetrics,
    ) -> Self {
        let first_version = options.first_version.as_ref();
        let first_version = first_version.map_or_else(ResourceVersion::any, |ask| ask());
        Self {
            list_watch,
            projection: host.wanted(),
            relists: host.relists(),
            sink,
            host,
            machine: ReflectorMachine::new(
                // A streaming list needs bookmarks, because a bookmark ends it.
                options.watch_list && options.bookmarks,
                options.page_size,
                options.seed,
            )
            .starting_at(first_version),
            options,
            request_metrics,
            partial_list: PartialList::default(),
            list_slots: ListSlots::ALL,
            version_check: VersionCheck::default(),
            failed: (0, now()),
            listed: false,
            turn: None,
        }
    }

    #[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
    pub(crate) async fn run(mut self) {
        loop {
            let (wanted, relists) = (self.host.wanted(), self.host.relists());
            if (wanted, relists) != (self.projection, self.relists) {
                (self.projection, self.relists) = (wanted, relists);
                self.machine.handle_relist(now());
            }
            match self.host.slot_demand() {
                SlotDemand::Followed => {}
                SlotDemand::Gained => self.machine.handle_gained_slots(now()),
                SlotDemand::Nothing => {
                    self.rest().await;
                    continue;
                }
            }
            match self.machine.next_step(now()) {
                ReflectorStep::List {
                    version,
                    limit,
                    page,
                } => {
                    self.expect_request();
                    self.take_turn().await;
                    self.list(version, limit, page).await;
                }
                ReflectorStep::Watch { after, timeout } => {
                    let options = WatchOptions::after(after);
                    self.watch(options, timeout).await;
                    self.request_metrics.end_watch(now());
                }
                ReflectorStep::Stream { version, timeout } => {
                    self.expect_request();
                    self.take_turn().await;
                    if !self.begin_list(&version) {
                        continue;
                    }
                    let options = WatchOptions::streaming_list(version);
                    self.watch(options, timeout).await;
                    self.request_metrics.end_watch(now());
                }
                ReflectorStep::Sleep { until, away } => {
                    self.turn = None;
                    self.sleep(until, away).await;
                }
            }
            self.host.report(self.machine.problem());
        }
    }

    /// Sleeps until `until`. If the server may be away, sleeps until it returns or may be tried again.
    async fn sleep(&mut self, until: Instant, away: bool) {
        if !away {
            self.host.expect_activity(until);
            return tokio::time::sleep_until(until.into()).await;
        }
        let (returns, since) = self.failed;
        let share = self.machine.pauses().share();
        let pause = Pause {
            returns,
            until,
            at_last: until.max(since + AT_LAST.mul_f64(1.0 - share / 4.0)),
        };
        self.host.expect_activity(pause.at_last);
        let health = &self.options.health;
        if health.wait(&pause, share, &self.list_watch).await {
            self.machine.handle_return();
        } else {
            self.machine.pauses().handle_turn();
        }
    }

    /// Tells the informer that a request begins, or that data of a list arrived (HEALTH-3).
    fn expect_request(&self) {
        self.host.expect_activity(now() + LONGEST_REQUEST);
    }

    /// Waits for a permit for any list but the first, because after an outage all informers would list at once.
    async fn take_turn(&mut self) {
        if self.listed && self.turn.is_none() {
            self.turn = self.options.health.list_turn().await;
        }
    }

    async fn list(&mut self, version: ResourceVersion, limit: Option<u32>, page: Option<String>) {
        let mut paging = Paging::new().page_size(limit.unwrap_or(0));
        if page.is_none() && !self.begin_list(&version) {
            return;
        }
        // An exact version is listed without pages; the server refuses a version match together with a continue token.
        paging.version_match = (version.is_exact() && limit.is_none() && page.is_none())
            .then_some(VersionMatch::NotOlderThan);
        paging.resource_version = Some(version);
        paging.continue_token = page;
        let mut request = PageRequest::new(paging);
        request.labels.clone_from(&self.options.labels);
        request.fields.clone_from(&self.options.fields);
        // SHARD-8: every page of a list has the selector of the first one.
        request.shard_selector = self.host.shard_selector(&self.list_slots.requested);
        request.projection = self.projection;
        let parts = match self.list_watch.list(&request).await {
            Ok(parts) => parts,
            Err(error) => return self.fail(&RequestFailure::of(&error)),
        };
        self.machine.handle_answer();
        self.options.health.handle_answer();
        match self.page(parts).await {
            Ok((items, end)) => {
                for item in items.into_items() {
                    self.partial_list.put(item);
                }
                if self.machine.handle_page(&end.version, end.continue_token) {
                    self.replace(end.version).await;
                }
            }
            Err(failure) => self.fail(&failure),
        }
    }

    /// Reads one page, and makes entries as its objects arrive (STORE-5). Discards a page that ends early (REFL-6).
    async fn page(
        &self,
        parts: ListStream,
    ) -> Result<(ChunkedVec<Arrived>, PageEnd), RequestFailure> {
        let parts = parts.map(listed);
        let mut parts = IngestStream::new(
            parts,
            self.host.ingest(),
            self.projection,
            true,
            self.options.decode_batches,
        );
        let mut items = ChunkedVec::default();
        while let Some(part) = parts.next().await {
            match part {
                StreamPart::Object(_, item) => {
                    items.push(item);
                    if items.len() % NOTED_OBJECTS == 0 {
                        self.expect_request();
                    }
                }
                StreamPart::Other(Ok(ListPart::End(end))) => return Ok((items, end)),
                // Messages of an unknown type are ignored, and so are objects of other replicas (SHARD-5).
                StreamPart::Other(Ok(_)) | StreamPart::Foreign(..) => {}
                StreamPart::Other(Err(error)) => return Err(RequestFailure::within(&error)),
            }
            // Yields regularly, because a chunk of the response may hold many objects.
            tokio::task::coop::consume_budget().await;
        }
        Err(RequestFailure::cut())
    }

    async fn watch(&mut self, options: WatchOptions, timeout: Duration) {
        self.follow(options, timeout).await;
        self.version_check.note_end(now(), timeout);
    }

    async fn follow(&mut self, options: WatchOptions, timeout: Duration) {
        let options = self.complete_options(options, timeout);
        self.request_metrics.ask_watch();
        self.expect_request();
        let events = match self.open(&options).await {
            Ok(events) => events.map(watched),
            Err(error) => return self.fail(&RequestFailure::of(&error)),
        };
        self.machine.handle_open(now());
        self.options.health.handle_answer();
        self.request_metrics.open_watch(now());
        self.version_check.note_open(!options.initial_events, now());
        let mut initial = options.initial_events;
        let mut events = IngestStream::new(
            events,
            self.host.ingest(),
            self.projection,
            initial,
            self.options.decode_batches,
        );
        loop {
            let deadline = self.version_check.or_before(self.machine.deadline(now()));
            self.host.expect_activity(deadline);
            let event = tokio::select! {
                // A wanted list is looked at first, so that no stream of events delays it.
                biased;
                () = self.host.wants_list(self.projection, self.relists, &self.list_slots) => return,
                event = tokio::time::timeout_at(deadline.into(), events.next()) => event,
            };
            let Ok(event) = event else {
                match self.is_quiet_watch_kept(&options.resource_version).await {
                    true => continue,
                    false => return,
                }
            };
            let degraded = self.machine.problem().is_some();
            if !matches!(event, None | Some(StreamPart::Other(Err(_)))) {
                self.request_metrics.count_event();
                self.version_check.note_reached();
            }
            match event {
                Some(StreamPart::Object(change, arrived)) => {
                    self.object(change, arrived, initial).await;
                }
                Some(StreamPart::Foreign(change, version)) => {
                    self.foreign(change, version, initial).await;
                }
                // The connection broke.
                Some(StreamPart::Other(Ok(WatchEvent::Error(error)) | Err(error)))
                    if error.is_transport() =>
                {
                    // A timeout of the transport means that the watch was silent: that is no ordinary end of a watch.
                    let silent = is_timeout(&error);
                    return self.end(if silent {
                        WatchEnd::Silent
                    } else {
                        WatchEnd::Broken
                    });
                }
                Some(StreamPart::Other(Ok(WatchEvent::Error(error)) | Err(error))) => {
                    return self.fail(&RequestFailure::within(&error));
                }
                Some(StreamPart::Other(Ok(WatchEvent::Bookmark {
                    version,
                    initial_events_end,
                }))) => match self.bookmark(version, initial_events_end).await {
                    BookmarkEffect::Complete => {
                        initial = false;
                        events.end_list();
                    }
                    BookmarkEffect::Position => {}
                    BookmarkEffect::NoStream => return,
                },
                // Events of an unknown type are ignored.
                Some(StreamPart::Other(Ok(_))) => {}
                None => return self.end(WatchEnd::Closed),
            }
            if degraded {
                self.host.report(self.machine.problem());
            }
        }
    }

    /// Adds the informer's own selectors and settings to the options of a watch.
    fn complete_options(&self, mut options: WatchOptions, timeout: Duration) -> WatchOptions {
        options.labels.clone_from(&self.options.labels);
        options.fields.clone_from(&self.options.fields);
        options.shard_selector = self.host.shard_selector(&self.host.followed_slots());
        options.projection = self.projection;
        options.bookmarks = self.options.bookmarks;
        options.timeout = Some(timeout);
        options
    }

    /// Opens a watch. If the response is late, reports the delay and goes on waiting.
    async fn open(&mut self, options: &WatchOptions) -> Result<WatchStream, Error> {
        let due = self.machine.answer_due(now());
        let asked = std::pin::pin!(self.list_watch.watch(options));
        let late = std::pin::pin!(tokio::time::sleep_until(due.into()));
        match futures::future::select(asked, late).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), asked)) => {
                self.machine.handle_late(now());
                self.host.report(self.machine.problem());
                asked.await
            }
        }
    }

    /// Sends an object as a delta, or collects it while a streaming list is incomplete.
    async fn object(&mut self, change: EventType, arrived: Arrived, initial: bool) {
        if change != EventType::Added {
            self.machine.handle_live_event(now());
        }
        let version = match &arrived.item {
            Decoded::Good(entry) => entry.version(),
            Decoded::Malformed(malformed) => &malformed.version,
        };
        self.machine.handle_event(version, now());
        match (initial, change) {
            (true, EventType::Deleted) => self.partial_list.remove(&arrived.item),
            (true, EventType::Added | EventType::Modified) => self.partial_list.put(arrived),
            (false, EventType::Deleted) => self.sink.send(Delta::Removed(arrived)).await,
            (false, EventType::Added | EventType::Modified) => {
                self.sink.send(Delta::Put(arrived)).await
            }
        }
    }

    async fn bookmark(
        &mut self,
        version: ResourceVersion,
        initial_events_end: bool,
    ) -> BookmarkEffect {
        let marked = self
            .machine
            .handle_bookmark(&version, initial_events_end, now());
        match marked {
            BookmarkEffect::Complete => self.replace(version).await,
            BookmarkEffect::Position => self.sink.send(Delta::Bookmark { version }).await,
            BookmarkEffect::NoStream => {}
        }
        marked
    }

    async fn replace(&mut self, version: ResourceVersion) {
        self.expect_request();
        self.listed = true;
        self.version_check.note_reached();
        self.turn = None;
        let items = self.partial_list.take();
        self.request_metrics.complete_list(items.len(), now());
        self.sink.send(self.replaced(version, items)).await;
    }

    /// Returns the complete list of the present slots as a delta.
    fn replaced(&self, version: ResourceVersion, items: ChunkedVec<Arrived>) -> Delta {
        Delta::Replaced {
            version,
            items,
            projection: self.projection,
            relists: self.relists,
            slots: self.list_slots,
        }
    }

    fn end(&mut self, end: WatchEnd) {
        if let Some(failed) = self.machine.handle_end(end, now()) {
            self.report_failure(&failed);
        }
    }

    fn fail(&mut self, failure: &RequestFailure) {
        if failure.is_outage() {
            self.version_check.note_outage();
            let returns = self.options.health.handle_failure(now());
            if returns > self.failed.0 {
                // The server has returned since the last failure, so this failure begins a new outage.
                self.machine.handle_return();
            }
            self.failed = (returns, now());
        } else if failure.class.is_refusal() {
            self.options.health.handle_answer();
        }
        let failed = self.machine.handle_failure(failure, now());
        self.report_failure(&failed);
    }

    fn report_failure(&self, failed: &Failed) {
        self.request_metrics.fail(failed.reason.as_str());
        if let Some(hook) = &self.options.on_failure {
            hook(failed);
        }
    }
}
