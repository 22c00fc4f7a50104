//! A body that is sent no faster than its site says, and than what its client or its site has left.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_egress::Part;
use penstock_sys::file::Extent;
use tokio::time::sleep_until;

use super::{Body, ChunkSource};
use crate::context::Context;
use crate::fault::BodyError;
use crate::fill::{BodyChunk, BodyStream, RelayedBody};
use crate::site::Bandwidth;

/// How fast one response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BytePace {
    /// Bytes that are sent as fast as the client takes them.
    pub(crate) after: u64,
    /// Bytes in a second of the rest.
    pub(crate) rate: NonZeroU64,
}

/// A body in pieces, each of which has its time.
pub struct PacedBody {
    pub(super) source: PacedSource,
    schedule: Schedule,
}

/// Where the bytes of a paced body come from.
pub(super) enum PacedSource {
    /// Bytes that can be sent at once.
    Parts(VecDeque<Part>),
    /// An object of the cache.
    Object(BodyStream),
    /// A server whose responses are relayed.
    Relayed(RelayedBody),
}

/// When the next bytes may be sent.
#[derive(Debug)]
struct Schedule {
    own: Option<Own>,
    /// What other responses use too.
    shared: Option<Box<Bandwidth>>,
    /// When the bytes before have had their time.
    due: Instant,
}

/// The pace of one response.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Bytes in a second.
    rate: u64,
    /// Bytes that may still be sent at any time.
    free: u64,
    /// When the bytes before have had their time.
    due: Instant,
}

impl Schedule {
    fn new(pace: Option<BytePace>, shared: Option<Box<Bandwidth>>, now: Instant) -> Self {
        let own = pace.map(|pace| Own { rate: pace.rate.get(), free: pace.after, due: now });
        Self { own, shared, due: now }
    }

    /// Counts bytes that are sent now.
    fn count(&mut self, bytes: u64, now: Instant) {
        if let Some(own) = &mut self.own {
            own.count(bytes, now);
            self.due = own.due;
        }
        if let Some(shared) = &self.shared {
            self.due = self.due.max(now + shared.spend(bytes, now));
        }
    }

    fn rate(&self) -> u64 {
        let rates = [self.own.map(|own| own.rate), self.shared.as_ref().map(|shared| shared.rate())];
        rates.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Bytes that are sent at once however fast the rest is: all that is no longer than this is one piece.
    fn at_once(&self) -> u64 {
        match (self.own, &self.shared) {
            (Some(own), None) => own.free,
            (_, Some(_)) => self.piece(),
            (None, None) => u64::MAX,
        }
    }

    /// Bytes of the next piece.
    fn piece(&self) -> u64 {
        match (self.own, &self.shared) {
            (Some(own), None) if own.free > 0 => own.free,
            _ => piece_of(self.rate()),
        }
    }
}

impl Own {
    /// Counts bytes that are sent now. A client that took less for a while gets back a second of it at most.
    fn count(&mut self, bytes: u64, now: Instant) {
        let free = self.free.min(bytes);
        self.free -= free;
        let nanoseconds = u128::from(bytes - free) * 1_000_000_000 / u128::from(self.rate);
        let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let since = now.checked_sub(limits::PACE_CATCH_UP).unwrap_or(now);
        self.due = self.due.max(since) + time.min(limits::PACE_WAIT_MAX);
    }
}

/// Bytes of a piece: a quarter of a second.
fn piece_of(rate: u64) -> u64 {
    (rate / 4).clamp(limits::PACE_PIECE_BYTES_MIN, limits::PACE_PIECE_BYTES_MAX)
}

impl Body {
    /// The same bytes, no faster than `pace` and than what is `shared` with other responses. A body that is no longer than what may be
    /// sent at once stays as it is.
    pub(crate) fn paced(self, pace: Option<BytePace>, shared: Option<Box<Bandwidth>>, now: Instant) -> Self {
        let mut schedule = Schedule::new(pace, shared, now);
        let at_once = schedule.at_once();
        let parts = match self {
            Self::Part(part) => VecDeque::from([part]),
            Self::Parts(parts) => parts.into(),
            Self::Stream(length, stream) if length.is_none_or(|length| length > at_once) => {
                let (mut first, rest) = *stream;
                let source = match rest {
                    ChunkSource::Object(mut stream) => {
                        stream.limit_chunks(piece_of(schedule.rate()));
                        // The first chunk was made without a limit.
                        let length = schedule.piece();
                        let excess = first.length.saturating_sub(length);
                        if let [Part::Extent(extent)] = &mut first.parts[..]
                            && excess > 0
                            && stream.go_back(excess)
                        {
                            (extent.len, first.length) = (length, length);
                        }
                        PacedSource::Object(stream)
                    }
                    ChunkSource::Relayed(body) => PacedSource::Relayed(body),
                    paced @ ChunkSource::Paced(_) => return Self::Stream(length, Box::new((first, paced))),
                };
                schedule.count(first.length, now);
                let rest = ChunkSource::Paced(Box::new(PacedBody { source, schedule }));
                return Self::Stream(length, Box::new((first, rest)));
            }
            other => {
                if let Self::Stream(Some(length), _) = &other {
                    schedule.count(*length, now);
                }
                return other;
            }
        };
        let length = parts.iter().map(Part::len).sum::<u64>();
        if length <= at_once {
            schedule.count(length, now);
            return Self::Parts(parts.into());
        }
        let mut body = PacedBody { source: PacedSource::Parts(parts), schedule };
        match body.take_part(now) {
            Some(first) => Self::Stream(Some(length), Box::new((first, ChunkSource::Paced(Box::new(body))))),
            None => Self::Empty,
        }
    }
}

impl PacedBody {
    /// The next bytes, once they have their time; `None` behind the last.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub(super) async fn next(&mut self, context: &Rc<Context>) -> Result<Option<BodyChunk>, BodyError> {
        sleep_until(self.schedule.due.into()).await;
        let chunk = match &mut self.source {
            PacedSource::Parts(_) => return Ok(self.take_part(Instant::now())),
            PacedSource::Object(stream) => stream.next(context).await?,
            PacedSource::Relayed(body) => body.next(context).await?,
        };
        if let Some(chunk) = &chunk {
            self.schedule.count(chunk.length, Instant::now());
        }
        Ok(chunk)
    }

    /// Takes the next piece off the front of the parts. Bytes of a file are divided; others are few.
    fn take_part(&mut self, now: Instant) -> Option<BodyChunk> {
        let PacedSource::Parts(parts) = &mut self.source else { return None };
        let piece = self.schedule.piece();
        let part = loop {
            match parts.pop_front()? {
                part if part.len() == 0 => {}
                Part::Extent(Extent { file, offset, len }) if len > piece => {
                    let rest = Extent { file: file.clone(), offset: offset + piece, len: len - piece };
                    parts.push_front(Part::Extent(rest));
                    break Part::Extent(Extent { file, offset, len: piece });
                }
                part => break part,
            }
        };
        let length = part.len();
        self.schedule.count(length, now);
        Some(BodyChunk::of([part], length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    fn pace(after: u64) -> Option<BytePace> {
        Some(BytePace { after, rate: NonZeroU64::new(RATE).unwrap() })
    }

    #[test]
    fn bytes_behind_the_free_ones_take_their_time_and_a_second_is_made_up_for() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut schedule = Schedule::new(pace(3000), None, start);
        schedule.count(2000, start);
        assert_eq!((schedule.due, schedule.piece()), (start, 1000));
        schedule.count(251_000, start);
        assert_eq!((schedule.due, schedule.piece()), (at(250), 250_000));
        // Late by half a second, which is made up for.
        schedule.count(500_000, at(750));
        assert_eq!(schedule.due, at(750));
        // Late by ten seconds, of which nine are lost.
        schedule.count(500_000, at(10_750));
        assert_eq!(schedule.due, at(10_250));
    }

    #[test]
    fn a_body_is_divided_behind_its_free_bytes_and_a_short_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("film");
        std::fs::write(&path, vec![b'x'; 1_000_000]).unwrap();
        let file = std::sync::Arc::new(
            penstock_sys::file::OpenFile::from_fd(std::fs::File::open(&path).unwrap().into()).unwrap(),
        );
        let body = || {
            let head = Part::Owned(b"head".to_vec());
            Body::Parts(vec![head, Part::Extent(Extent::whole(file.clone()))])
        };
        let now = Instant::now();
        assert!(matches!(body().paced(pace(1_000_004), None, now), Body::Parts(parts) if parts.len() == 2));
        assert!(matches!(Body::Empty.paced(pace(0), None, now), Body::Empty));
        let Body::Stream(Some(1_000_004), stream) = body().paced(pace(300_004), None, now) else { panic!() };
        let (first, ChunkSource::Paced(mut rest)) = *stream else { panic!() };
        let mut lengths = vec![first.length];
        while let Some(chunk) = rest.take_part(now) {
            lengths.push(chunk.length);
        }
        assert_eq!(lengths, [4, 300_000, 250_000, 250_000, 200_000]);
        assert_eq!(rest.schedule.due, now + Duration::from_millis(700));
    }
}
