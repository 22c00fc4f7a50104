//! The connection to the store, as workers and the fleet's thread use it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::circuit::Circuit;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};

use crate::connect::Meter;
use crate::counters::{Counters, Operation, Outcome};
use crate::outage::Losses;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store was not asked.
    Skipped,
    Timeout,
    Lost,
    Full,
    /// An entry has another type than this program gives it.
    WrongType,
    /// The store is a replica and takes no entries.
    ReadOnly,
    Refused,
}

impl Fault {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Skipped => Outcome::Skipped,
            Self::Timeout => Outcome::Timeout,
            Self::Lost => Outcome::Lost,
            Self::Full => Outcome::Full,
            Self::WrongType => Outcome::Forged,
            Self::ReadOnly | Self::Refused => Outcome::Refused,
        }
    }
}

/// The connection, whether it may be used, and counts. Shared by all workers.
///
/// One connection serves the whole process: a request goes to its task through a channel, so that requests of all
/// workers share packets, and no worker owns a socket to the store.
pub(crate) struct Link {
    connection: ArcSwapOption<MultiplexedConnection>,
    pub(crate) circuit: Circuit,
    pub(crate) counters: Counters,
    /// How long a handshake waits.
    pub(crate) deadline: Duration,
    /// How long the fleet's own thread waits.
    pub(crate) patience: Duration,
    operations_max: usize,
    under_way: AtomicUsize,
    /// Microseconds that the last probe took.
    pub(crate) latency: AtomicU64,
    /// Whether the store needs what is left of its memory for purges, ticket keys and strikes.
    pub(crate) is_nearly_full: AtomicBool,
    /// Counts what the store sends.
    pub(crate) meter: Arc<Meter>,
    pub(crate) losses: Losses,
    /// The code of the last command that the store refused.
    refusal: Mutex<String>,
    /// The store's name for its process; `None` if it does not say.
    run: Mutex<Option<String>>,
}

/// Bytes of the code of an error that are kept.
const CODE_BYTES: usize = 32;

/// Timers of the runtime are this coarse.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

impl Link {
    pub(crate) fn new(
        circuit: Circuit,
        deadline: Duration,
        patience: Duration,
        operations_max: usize,
        meter: Meter,
    ) -> Self {
        Self {
            connection: ArcSwapOption::empty(),
            circuit,
            counters: Counters::default(),
            deadline,
            patience,
            operations_max,
            under_way: AtomicUsize::new(0),
            latency: AtomicU64::new(0),
            is_nearly_full: AtomicBool::new(false),
            meter: Arc::new(meter),
            losses: Losses::default(),
            refusal: Mutex::default(),
            run: Mutex::default(),
        }
    }

    /// Why a store that answers cannot be used, by the last command that it refused.
    pub(crate) fn refusal(&self) -> String {
        let code = self.refusal.lock().unpoisoned();
        match code.as_str() {
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => {
                format!("it is a node of a store in cluster mode ({code}), which a fleet cannot use")
            }
            _ => format!("it refuses commands ({code}): is a password missing, or has its user no right?"),
        }
    }

    pub(crate) fn connected(&self, connection: MultiplexedConnection) {
        self.connection.store(Some(Arc::new(connection)));
    }

    pub(crate) fn disconnected(&self) {
        self.connection.store(None);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Finds out which process of the store answers: another one may have read an older state from its disk.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn identify(&self) -> Result<(), Fault> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("INFO").arg("server");
        let run = match self.ask_patiently(Operation::Edges, &commands).await {
            Ok(answers) => run_of(answers.first().and_then(text_of).unwrap_or_default()),
            // Its user may not ask.
            Err(Fault::Refused) => None,
            Err(fault) => return Err(fault),
        };
        *self.run.lock().unpoisoned() = run;
        Ok(())
    }

    /// The process of the store, as [`Self::identify`] found it.
    pub(crate) fn run(&self) -> Option<String> {
        self.run.lock().unpoisoned().clone()
    }

    /// Operations of handshakes under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// Whether a handshake may ask now. Counts one that may not.
    pub(crate) fn may_ask(&self, operation: Operation) -> bool {
        let may = self.is_connected() && !self.circuit.is_open() && self.under_way() < self.operations_max;
        if !may {
            self.counters.count(operation, Outcome::Skipped);
        }
        may
    }

    /// Asks for a handshake. The caller drops the future after [`Self::deadline`], which counts as no answer in time.
    ///
    /// # Errors
    /// See [`Fault`]; counted. An answer is not counted: the caller knows what it means.
    pub(crate) async fn ask(&self, operation: Operation, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let connection = self.connection.load_full();
        let Some(connection) = connection else {
            self.counters.count(operation, Outcome::Skipped);
            return Err(Fault::Skipped);
        };
        let waiting = Waiting::new(self, operation);
        let answer = self.send(&connection, commands).await;
        waiting.answered(matches!(answer, Err(Fault::Lost)));
        self.counted(operation, answer)
    }

    /// [`Self::ask`] that gives up at the deadline.
    pub(crate) async fn ask_in_time(
        &self,
        operation: Operation,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Fault> {
        tokio::time::timeout(self.deadline, self.ask(operation, commands))
            .await
            .unwrap_or(Err(Fault::Timeout))
    }

    /// Asks for the fleet's own thread: with more patience, and whether handshakes may ask or not.
    pub(crate) async fn ask_patiently(
        &self,
        operation: Operation,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Fault> {
        let answer = match self.connection.load_full() {
            None => Err(Fault::Skipped),
            Some(connection) => tokio::time::timeout(self.patience, self.send(&connection, commands))
                .await
                .unwrap_or(Err(Fault::Timeout)),
        };
        self.counted(operation, answer)
    }

    fn counted(&self, operation: Operation, answer: Result<Vec<Value>, Fault>) -> Result<Vec<Value>, Fault> {
        if let Err(fault) = &answer {
            self.counters.count(operation, fault.outcome());
        }
        answer
    }

    async fn send(
        &self,
        connection: &MultiplexedConnection,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Fault> {
        let mut connection = connection.clone();
        let answers = connection.send_packed_commands(commands, 0, commands.len()).await;
        let answers =
            answers.map_err(|error| if error.is_io_error() { Fault::Lost } else { Fault::Refused })?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                tracing::debug!(%error, "fleet: the store refused a command");
                let code: String = error.code().escape_debug().take(CODE_BYTES).collect();
                let fault = match code.as_str() {
                    "OOM" => Fault::Full,
                    "WRONGTYPE" => Fault::WrongType,
                    "READONLY" => Fault::ReadOnly,
                    _ => Fault::Refused,
                };
                *self.refusal.lock().unpoisoned() = code;
                return Err(fault);
            }
        }
        Ok(answers)
    }

    /// Removes entries that are damaged.
    pub(crate) async fn remove(&self, operation: Operation, names: &[String]) {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("DEL").arg(names);
        // The next round tries again.
        drop(self.ask_patiently(operation, &commands).await);
    }

    /// Records an answer in time.
    pub(crate) fn succeeded(&self) {
        if self.circuit.succeeded() {
            tracing::info!("fleet: the store answers in time");
        }
    }

    fn failed(&self) {
        if self.circuit.failed(Instant::now()) {
            tracing::warn!(
                "fleet: the store does not answer within {:?}; handshakes do without it until it does",
                self.deadline
            );
        }
    }
}

/// An operation of a handshake. Dropped after the deadline it counts as one without an answer in time.
struct Waiting<'l> {
    link: &'l Link,
    operation: Operation,
    since: Instant,
    is_answered: bool,
}

impl<'l> Waiting<'l> {
    fn new(link: &'l Link, operation: Operation) -> Self {
        link.under_way.fetch_add(1, Relaxed);
        Self { link, operation, since: Instant::now(), is_answered: false }
    }

    fn answered(mut self, is_lost: bool) {
        self.is_answered = true;
        if is_lost {
            self.link.failed();
        } else {
            self.link.succeeded();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.under_way.fetch_sub(1, Relaxed);
        if self.is_answered {
            return;
        }
        // A client that leaves early must not open the circuit for others.
        if self.since.elapsed() + TIMER_GRAIN < self.link.deadline {
            self.link.counters.count(self.operation, Outcome::Abandoned);
            return;
        }
        self.link.counters.count(self.operation, Outcome::Timeout);
        self.link.failed();
    }
}

/// Characters of the name of a process.
pub(crate) const RUN_DIGITS: usize = 64;

/// The name of the process in the text of INFO.
fn run_of(info: &str) -> Option<String> {
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
    let is_name =
        (1..=RUN_DIGITS).contains(&run.len()) && run.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| run.to_owned())
}

/// The bytes of a string; `None` for anything else.
pub(crate) fn bytes_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// The text of a string; `None` for anything else.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes_of(value)?).ok()
}

/// The elements of an array; none for anything else.
pub(crate) fn list_of(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        _ => &[],
    }
}
