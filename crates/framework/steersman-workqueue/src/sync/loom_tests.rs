//! Stand-ins that loom can explore, with the interface of `parking_lot::Mutex` and `tokio::sync::Notify`.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::MutexGuard;

pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// A stand-in for `tokio::sync::Notify`: if no task waits, `notify_one` stores a permit, and `notify_waiters` does not.
pub(crate) struct Notify(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    has_permit: bool,
    waiters: Vec<(u64, Waiter)>,
    next_id: u64,
}

enum Waiter {
    Waiting(Option<Waker>),
    NotifiedAlone,
    NotifiedWithAll,
}

/// A waiter from its `enable` or first poll until it is notified or dropped.
pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    id: Option<u64>,
    is_done: bool,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Waiters::default()))
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            id: None,
            is_done: false,
        }
    }

    pub(crate) fn notify_one(&self) {
        let mut waiters = self.0.lock();
        let mut waiting = waiters.waiters.iter_mut().map(|(_, waiter)| waiter);
        let waker = match waiting.find(|waiter| matches!(waiter, Waiter::Waiting(_))) {
            Some(waiter) => match std::mem::replace(waiter, Waiter::NotifiedAlone) {
                Waiter::Waiting(waker) => waker,
                Waiter::NotifiedAlone | Waiter::NotifiedWithAll => None,
            },
            None => {
                waiters.has_permit = true;
                None
            }
        };
        drop(waiters);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn notify_waiters(&self) {
        let mut wakers = Vec::new();
        for (_, waiter) in &mut self.0.lock().waiters {
            if let Waiter::Waiting(waker) = waiter {
                wakers.extend(waker.take());
                *waiter = Waiter::NotifiedWithAll;
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Notified<'_> {
    pub(crate) fn enable(mut self: Pin<&mut Self>) {
        if self.id.is_some() {
            return;
        }
        let mut waiters = self.notify.0.lock();
        let id = waiters.next_id;
        waiters.next_id += 1;
        let waiter = if std::mem::take(&mut waiters.has_permit) {
            Waiter::NotifiedAlone
        } else {
            Waiter::Waiting(None)
        };
        waiters.waiters.push((id, waiter));
        drop(waiters);
        self.id = Some(id);
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.as_mut().enable();
        let id = self.id;
        let mut waiters = self.notify.0.lock();
        let at = waiters.waiters.iter().position(|(of, _)| Some(*of) == id);
        if let Some(at) = at {
            if let Waiter::Waiting(waker) = &mut waiters.waiters[at].1 {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            waiters.waiters.remove(at);
        }
        drop(waiters);
        self.is_done = true;
        Poll::Ready(())
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.is_done || self.id.is_none() {
            return;
        }
        let mut waiters = self.notify.0.lock();
        let id = self.id;
        let at = waiters.waiters.iter().position(|(of, _)| Some(*of) == id);
        let waiter = at.map(|at| waiters.waiters.remove(at).1);
        drop(waiters);
        // A notification that this waiter did not use goes to another waiter.
        if matches!(waiter, Some(Waiter::NotifiedAlone)) {
            self.notify.notify_one();
        }
    }
}
