//! The idle connections of one worker: which of them ends first when another client needs the place, and what wakes all of
//! them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The idle connections of one worker, in the order in which they became idle.
///
/// An idle connection counts against the limit of connections until its idle timeout, or until another client connects at that
/// limit. A connection enters and
/// leaves with each request, so that both take constant time and no memory of their own.
pub(crate) struct IdleConnections {
    list: RefCell<List>,
    /// Called with the number of idle connections when it changes.
    count_changed: Box<dyn Fn(usize)>,
}

/// A list that is linked both ways, in one piece of memory.
#[derive(Default)]
struct List {
    entries: Vec<ListNode>,
    /// Places in `entries` that are free.
    free: Vec<u32>,
    /// The connection that has been idle longest, and the one that has become idle last.
    ends: Option<(u32, u32)>,
    count: usize,
}

struct ListNode {
    before: Option<u32>,
    after: Option<u32>,
    state: IdleState,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IdleState {
    Idle,
    /// To look at what has changed.
    Woken,
    /// To end. It is no longer in the list.
    Evicted,
}

impl List {
    fn enter(&mut self) -> u32 {
        let before = self.ends.map(|(_, last)| last);
        let entry = ListNode { before, after: None, state: IdleState::Idle, waker: None };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("descriptors are fewer than 2^32")
            }
        };
        if let Some(before) = before {
            self.entries[before as usize].after = Some(place);
        }
        self.ends = Some((self.ends.map_or(place, |(first, _)| first), place));
        self.count += 1;
        place
    }

    fn unlink(&mut self, place: u32) {
        let ListNode { before, after, .. } = self.entries[place as usize];
        if let Some(before) = before {
            self.entries[before as usize].after = after;
        }
        if let Some(after) = after {
            self.entries[after as usize].before = before;
        }
        self.ends = self.ends.and_then(|(first, last)| {
            let first = if first == place { after } else { Some(first) };
            let last = if last == place { before } else { Some(last) };
            first.zip(last)
        });
        self.count -= 1;
    }
}

impl IdleConnections {
    /// None yet. `count_changed` is told of each change of their number.
    pub(crate) fn new(count_changed: impl Fn(usize) + 'static) -> Self {
        Self { list: RefCell::default(), count_changed: Box::new(count_changed) }
    }

    /// Registers a connection that has become idle, as long as the entry lives.
    pub(crate) fn enter(self: &Rc<Self>) -> IdleEntry {
        let mut list = self.list.borrow_mut();
        let place = list.enter();
        (self.count_changed)(list.count);
        drop(list);
        IdleEntry { connections: Rc::clone(self), place }
    }

    /// Orders the longest idle connection to end. Returns false if none is idle.
    pub(crate) fn evict_longest(&self) -> bool {
        let mut list = self.list.borrow_mut();
        let Some((place, _)) = list.ends else { return false };
        list.unlink(place);
        (self.count_changed)(list.count);
        let entry = &mut list.entries[place as usize];
        entry.state = IdleState::Evicted;
        let waker = entry.waker.take();
        drop(list);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Wakes all of them.
    pub(crate) fn wake_all(&self) {
        let mut wakers = Vec::new();
        let mut list = self.list.borrow_mut();
        let mut next = list.ends.map(|(first, _)| first);
        while let Some(place) = next {
            let entry = &mut list.entries[place as usize];
            entry.state = IdleState::Woken;
            wakers.extend(entry.waker.take());
            next = entry.after;
        }
        drop(list);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A connection that is idle.
pub(crate) struct IdleEntry {
    connections: Rc<IdleConnections>,
    place: u32,
}

impl IdleEntry {
    pub(crate) fn is_evicted(&self) -> bool {
        self.connections.list.borrow().entries[self.place as usize].state == IdleState::Evicted
    }

    /// Waits until the connection is evicted, or all are woken.
    pub(crate) async fn woken(&self) {
        poll_fn(|context| self.poll_woken(context)).await;
    }

    fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        let entry = &mut self.connections.list.borrow_mut().entries[self.place as usize];
        match entry.state {
            IdleState::Idle => {
                match &mut entry.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => entry.waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            IdleState::Woken => {
                entry.state = IdleState::Idle;
                Poll::Ready(())
            }
            IdleState::Evicted => Poll::Ready(()),
        }
    }
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        let mut list = self.connections.list.borrow_mut();
        if list.entries[self.place as usize].state != IdleState::Evicted {
            list.unlink(self.place);
            (self.connections.count_changed)(list.count);
        }
        let waker = list.entries[self.place as usize].waker.take();
        list.free.push(self.place);
        drop(list);
        // Behind the borrow: the last waker of a task drops it.
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[test]
    fn the_longest_idle_connection_is_evicted_first_and_once() {
        let count = Rc::new(Cell::new(0));
        let seen = Rc::clone(&count);
        let connections = Rc::new(IdleConnections::new(move |count| seen.set(count)));
        let [first, second, third] = [(); 3].map(|()| connections.enter());
        drop(second);
        assert_eq!(count.get(), 2);
        assert!(connections.evict_longest());
        assert!(first.is_evicted() && !third.is_evicted());
        let fourth = connections.enter();
        assert!(connections.evict_longest() && third.is_evicted() && !fourth.is_evicted());
        drop((first, third));
        assert_eq!(count.get(), 1);
        drop(fourth);
        assert!(!connections.evict_longest(), "none is left");
        assert_eq!((count.get(), connections.list.borrow().entries.len()), (0, 3));
    }

    #[test]
    fn any_order_of_entering_leaving_and_evicting_keeps_the_order() {
        let connections = Rc::new(IdleConnections::new(|_| ()));
        let (mut idle, mut random): (Vec<IdleEntry>, u32) = (Vec::new(), 1);
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match random >> 30 {
                0 if !idle.is_empty() => drop(idle.remove(random as usize % idle.len())),
                1 => {
                    assert_eq!(connections.evict_longest(), !idle.is_empty());
                    assert!(idle.iter().skip(1).all(|entry| !entry.is_evicted()));
                    if !idle.is_empty() {
                        assert!(idle.remove(0).is_evicted());
                    }
                }
                _ => idle.push(connections.enter()),
            }
            assert_eq!(connections.list.borrow().count, idle.len());
        }
    }

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_drain_wakes_each_once_and_an_eviction_stays() {
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let (waker, wakes) = (Waker::from(Arc::clone(&woken)), || woken.0.load(Ordering::Relaxed));
        let context = Context::from_waker(&waker);
        let connections = Rc::new(IdleConnections::new(|_| ()));
        let [first, second] = [(); 2].map(|()| connections.enter());
        assert!(first.poll_woken(&context).is_pending() && second.poll_woken(&context).is_pending());
        connections.wake_all();
        assert_eq!(wakes(), 2);
        assert!(first.poll_woken(&context).is_ready() && first.poll_woken(&context).is_pending());
        assert!(connections.evict_longest());
        assert_eq!(wakes(), 3);
        assert!(first.poll_woken(&context).is_ready() && first.poll_woken(&context).is_ready());
        assert!(second.poll_woken(&context).is_ready() && second.poll_woken(&context).is_pending());
    }
}
