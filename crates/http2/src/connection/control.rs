//! Frames without a body: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM and priorities (RFC 9113 §6, RFC 9218 §7).

use super::ServerConnection;
use super::ending::{Phase, SHUTDOWN_PING, Shutdown};
use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::flood::Flood;
use crate::frame::{FrameHeader, MAX_31_BITS, calm, flag, kind, number, protocol, push_number, setting};
use crate::priority::PriorityParameters;
use crate::streams::{Closed, Incoming, Outgoing};

/// Settings in one frame. RFCs define fewer than ten.
const SETTINGS_MAX: usize = 64;

/// Streams whose priority is kept before they are open (RFC 9218 §7.1).
const EARLY_PRIORITIES_MAX: usize = 16;

/// Bytes of a window that a usual client gives back at once.
const UPDATE_BYTES_USUAL: u64 = 1024;

impl ServerConnection {
    /// Whether the client has not opened this stream.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    pub(super) fn queue_reset(&mut self, id: u32, code: ErrorCode) {
        push_number(kind::RST_STREAM, id, code.get(), &mut self.control);
    }

    /// Resets a stream because of an error of the client (RFC 9113 §5.4.2).
    ///
    /// # Errors
    /// The client provoked too many resets.
    pub(super) fn stream_error(
        &mut self,
        id: u32,
        code: ErrorCode,
        reason: &'static str,
    ) -> Result<(), ConnectionError> {
        self.queue_reset(id, code);
        match self.streams.get_mut(id) {
            Some(state) => {
                if state.reset.replace(Closed::ByServer).is_none() {
                    state.outgoing = Outgoing::Nothing;
                    self.events.push_back(StreamEvent::Reset { stream: StreamId::new(id), code, reason });
                }
            }
            None => self.streams.remember(id, Closed::ByServer),
        }
        self.guard.count(Flood::ProvokedReset)
    }

    pub(super) fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        self.guard.count(Flood::Settings)?;
        if header.has(flag::ACK) {
            self.settings_acknowledged();
            return Ok(());
        }
        let (settings, _) = payload.as_chunks::<6>();
        if settings.len() > SETTINGS_MAX {
            return Err(calm("settings_flood"));
        }
        for &[a, b, c, d, e, f] in settings {
            self.setting(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))?;
        }
        self.peer.is_received = true;
        self.control.extend(FrameHeader::new(0, kind::SETTINGS, flag::ACK, 0).write());
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), ConnectionError> {
        match name {
            setting::HEADER_TABLE_SIZE => {
                self.encoder.set_limit(value as usize);
                self.last_head = None;
            }
            setting::ENABLE_PUSH if value > 1 => return Err(protocol("setting_value")),
            setting::INITIAL_WINDOW_SIZE => return self.set_peer_window(value),
            setting::MAX_FRAME_SIZE => {
                if !(1 << 14..1 << 24).contains(&value) {
                    return Err(protocol("setting_value"));
                }
                self.peer.frame_bytes_max = value;
            }
            setting::NO_RFC7540_PRIORITIES => {
                let is_first = *self.peer.no_rfc7540_priorities.get_or_insert(value) == value;
                if value > 1 || !is_first {
                    return Err(protocol("setting_value"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the windows of all streams (RFC 9113 §6.9.2).
    fn set_peer_window(&mut self, window: u32) -> Result<(), ConnectionError> {
        let too_large = ConnectionError { code: ErrorCode::FLOW_CONTROL_ERROR, reason: "window_overflow" };
        if window > MAX_31_BITS {
            return Err(too_large);
        }
        let change = i64::from(window) - i64::from(self.peer.stream_window);
        self.peer.stream_window = window;
        for state in self.streams.iter_mut() {
            state.send_window += change;
            if state.send_window > i64::from(MAX_31_BITS) {
                return Err(too_large);
            }
        }
        Ok(())
    }

    /// The client has applied this side's SETTINGS, which are sent once.
    fn settings_acknowledged(&mut self) {
        let window = self.limits.stream_window.min(MAX_31_BITS);
        let change = i64::from(window) - i64::from(self.stream_window);
        if change != 0 {
            self.stream_window = window;
            self.streams.iter_mut().for_each(|state| state.receive_window += change);
        }
        if !self.peer.has_acknowledged {
            self.peer.has_acknowledged = true;
            self.decoder.set_limit(self.limits.header_table_bytes as usize);
        }
    }

    pub(super) fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        self.guard.count(Flood::Ping)?;
        if !header.has(flag::ACK) {
            self.control.extend(FrameHeader::new(8, kind::PING, flag::ACK, 0).write());
            self.control.extend(payload);
        } else if self.phase == Phase::Graceful && payload == SHUTDOWN_PING {
            self.shutdown(Shutdown::Final);
        }
        Ok(())
    }

    pub(super) fn goaway(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.guard.count(Flood::Ignored)?;
        self.events.push_back(StreamEvent::GoAway { code: ErrorCode::new(number(&payload[4..])) });
        Ok(())
    }

    pub(super) fn window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let increment = i64::from(number(payload) & MAX_31_BITS);
        self.count_update(increment.unsigned_abs())?;
        if header.stream == 0 {
            self.send_window += increment;
            return match increment {
                0 => Err(protocol("window_increment")),
                _ if self.send_window <= i64::from(MAX_31_BITS) => Ok(()),
                _ => Err(ConnectionError { code: ErrorCode::FLOW_CONTROL_ERROR, reason: "window_overflow" }),
            };
        }
        let Some(state) = self.streams.get_mut(header.stream) else {
            return if self.is_idle(header.stream) { Err(protocol("idle_stream")) } else { Ok(()) };
        };
        if !state.may_send() {
            return Ok(());
        }
        state.send_window += increment;
        if increment == 0 {
            return self.stream_error(header.stream, ErrorCode::PROTOCOL_ERROR, "window_increment");
        }
        if state.send_window > i64::from(MAX_31_BITS) {
            return self.stream_error(header.stream, ErrorCode::FLOW_CONTROL_ERROR, "window_overflow");
        }
        Ok(())
    }

    /// Counts a WINDOW_UPDATE, unless it gives back at least 1 KiB of what was sent: some clients send one for each window and
    /// each 4 KiB that their program reads, also long after the last byte was sent.
    fn count_update(&mut self, increment: u64) -> Result<(), ConnectionError> {
        match self.updates_credit.checked_sub(increment) {
            Some(left) if increment >= UPDATE_BYTES_USUAL => {
                self.updates_credit = left;
                Ok(())
            }
            _ => self.guard.count(Flood::WindowUpdate),
        }
    }

    pub(super) fn rst_stream(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let id = header.stream;
        let Some(state) = self.streams.get_mut(id) else {
            return if self.is_idle(id) {
                Err(protocol("idle_stream"))
            } else {
                self.guard.count(Flood::Ignored)
            };
        };
        let is_closed = state.is_sent() && state.incoming == Incoming::Ended;
        if state.reset.is_some() || is_closed {
            return self.guard.count(Flood::Ignored);
        }
        state.reset = Some(Closed::ByClient);
        state.outgoing = Outgoing::Nothing;
        let code = ErrorCode::new(number(payload));
        self.events.push_back(StreamEvent::Reset { stream: StreamId::new(id), code, reason: "client" });
        self.guard.count(Flood::Reset)
    }

    /// PRIORITY of RFC 7540: ignored (RFC 9113 §5.3.2), but for its length.
    pub(super) fn rfc7540_priority(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        self.guard.count(Flood::Priority)?;
        if header.length == 5 {
            return Ok(());
        }
        if self.is_idle(header.stream) {
            // RST_STREAM is not allowed for an idle stream.
            return Err(crate::frame::frame_size("frame_length"));
        }
        self.stream_error(header.stream, ErrorCode::FRAME_SIZE_ERROR, "frame_length")
    }

    pub(super) fn priority_update(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.guard.count(Flood::Priority)?;
        let id = number(payload) & MAX_31_BITS;
        if id.is_multiple_of(2) {
            return Err(protocol("stream_id"));
        }
        let asked = PriorityParameters::parse(&payload[4..]);
        if let Some(state) = self.streams.get_mut(id) {
            state.asked = asked;
        } else if self.is_idle(id) {
            self.early_priorities.retain(|(other, _)| *other != id);
            if self.early_priorities.len() < EARLY_PRIORITIES_MAX {
                self.early_priorities.push((id, asked));
            }
        }
        Ok(())
    }

    /// The priority that came before the stream. Those of streams that can not be opened any more are dropped.
    pub(super) fn take_early_priority(&mut self, id: u32) -> Option<PriorityParameters> {
        let asked = self.early_priorities.iter().find(|(other, _)| *other == id).map(|(_, asked)| *asked);
        self.early_priorities.retain(|(other, _)| *other > id);
        asked
    }
}
