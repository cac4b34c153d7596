//! Machine: decides how far a stream of objects is read ahead, and when a batch of objects is processed.

/// The next step of an [`IngestStream`](super::stream::IngestStream) that has no finished part to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    Read,
    /// Process the waiting parts as a batch: [`ReadAhead::hand_over`].
    HandOver,
    /// Wait for the oldest batch that is being processed.
    AwaitBatch,
    AwaitStream,
    /// The stream ended, and every part was returned.
    End,
}

/// The task that processes a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// The task that reads the stream.
    Reader,
    /// A task of its own, beside the task that reads the stream.
    Task,
}

/// Decides how far a stream is read ahead (REFL-7): by one batch for each worker, and one waiting batch.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// The largest number of batches that are processed at once; 0 if the reader processes each object as it is read.
    workers: usize,
    /// The size of a batch, in bytes of JSON.
    batch: usize,
    waiting: usize,
    /// The size of the waiting parts, in bytes of JSON.
    bytes: usize,
    /// The number of batches that are being processed.
    in_flight: usize,
    ended: bool,
}

impl ReadAhead {
    pub(crate) fn new(workers: usize, batch: usize) -> Self {
        Self {
            workers,
            batch,
            ..Self::default()
        }
    }

    /// Decides what the reader of the stream does now: read on, hand a batch over, or wait. `is_dry`: the stream has no
    /// data at the moment.
    pub(crate) fn next(&self, is_dry: bool) -> ReadStep {
        let has_room = match self.workers {
            0 => self.waiting == 0 && self.in_flight == 0,
            workers => !self.is_full() || self.in_flight < workers,
        };
        if has_room && !is_dry && !self.ended {
            return match self.is_full() {
                true => ReadStep::HandOver,
                false => ReadStep::Read,
            };
        }
        match (self.in_flight, self.waiting, self.ended) {
            (1.., _, _) => ReadStep::AwaitBatch,
            (0, 1.., _) => ReadStep::HandOver,
            (0, 0, true) => ReadStep::End,
            (0, 0, false) => ReadStep::AwaitStream,
        }
    }

    /// Records a part that was read, with the size of its JSON in bytes.
    pub(crate) fn handle_part(&mut self, bytes: usize) {
        self.waiting += 1;
        self.bytes += bytes;
    }

    pub(crate) fn handle_end(&mut self) {
        self.ended = true;
    }

    /// Records that the oldest batch is done. Returns whether a full batch waits, to be handed over at once.
    pub(crate) fn handle_done(&mut self) -> bool {
        self.in_flight -= 1;
        self.is_full() && self.workers > 0
    }

    /// Takes the waiting parts as a batch. Returns the worker that processes it.
    pub(crate) fn hand_over(&mut self) -> Worker {
        (self.waiting, self.bytes) = (0, 0);
        if self.workers == 0 {
            return Worker::Reader;
        }
        self.in_flight += 1;
        Worker::Task
    }

    /// Ends the reading ahead: from now on the reader processes each object as it is read.
    pub(crate) fn stop_reading_ahead(&mut self) {
        self.workers = 0;
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: usize = 100;

    fn machine(workers: usize, parts: &[usize], in_flight: usize) -> ReadAhead {
        let mut machine = ReadAhead::new(workers, BATCH);
        machine.in_flight = in_flight;
        parts.iter().for_each(|bytes| machine.handle_part(*bytes));
        machine
    }

    // REFL-7
    #[test]
    fn refl_7_no_more_is_read_ahead_than_a_batch_for_each_worker_and_one_that_waits() {
        use ReadStep::{AwaitBatch, AwaitStream, End, HandOver, Read};
        for (workers, waiting, in_flight, [flows, is_dry, has_ended]) in [
            // Without workers, each part is processed before the next part is read.
            (0, &[][..], 0, [Read, AwaitStream, End]),
            (0, &[10], 0, [HandOver, HandOver, HandOver]),
            (0, &[BATCH], 0, [HandOver, HandOver, HandOver]),
            // The batches were started before the reading ahead was ended.
            (0, &[], 1, [AwaitBatch, AwaitBatch, AwaitBatch]),
            (0, &[10], 1, [AwaitBatch, AwaitBatch, AwaitBatch]),
            // With workers, a batch is filled first, unless the stream has no data at the moment.
            (2, &[], 0, [Read, AwaitStream, End]),
            (2, &[10], 0, [Read, HandOver, HandOver]),
            (2, &[60, 60], 0, [HandOver, HandOver, HandOver]),
            (2, &[60, 60], 1, [HandOver, AwaitBatch, AwaitBatch]),
            // All workers are busy, so one batch waits, and nothing more is read.
            (2, &[60], 2, [Read, AwaitBatch, AwaitBatch]),
            (2, &[60, 60], 2, [AwaitBatch, AwaitBatch, AwaitBatch]),
        ] {
            let mut machine = machine(workers, waiting, in_flight);
            let row = format!("{workers} workers, {waiting:?}, {in_flight} in flight");
            assert_eq!(machine.next(false), flows, "{row}");
            assert_eq!(machine.next(true), is_dry, "{row}, dry");
            machine.handle_end();
            assert_eq!(machine.next(false), has_ended, "{row}, ended");
        }
    }

    #[test]
    fn a_full_batch_is_handed_over_as_soon_as_a_worker_is_free() {
        assert!(machine(2, &[BATCH], 2).handle_done());
        assert!(!machine(2, &[BATCH - 1], 2).handle_done());
        let mut stopped = machine(2, &[BATCH], 2);
        stopped.stop_reading_ahead();
        assert!(!stopped.handle_done(), "a batch in flight comes first");
        assert_eq!(machine(2, &[1], 0).hand_over(), Worker::Task);
        assert_eq!(machine(0, &[1], 0).hand_over(), Worker::Reader);
    }
}
