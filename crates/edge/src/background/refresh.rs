//! The thread that refreshes what handshakes need: OCSP responses and ECH keys.
//!
//! OCSP responses come from files or responders and expire; ECH keys come and go as files. A handshake uses the ones that
//! are in memory, and never waits.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use penstock_config::{Config, limits};
use penstock_sys::lock::Unpoisoned;
use penstock_tls::ocsp::Staples;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::ech::{EchFiles, EchSource};
use super::ocsp::{Files, Questions, Sources};
use crate::metrics::BackgroundCounters;
use crate::settings::Settings;

/// The running thread. Dropping this ends it, even during a request to a responder.
pub(crate) struct Refresher {
    sources: Arc<Mutex<Arc<Sources>>>,
    files: Arc<Files>,
    ech: Arc<EchFiles>,
    ech_source: Arc<Mutex<Arc<EchSource>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refresher {
    /// Reads the files once, so that the first client finds their staples, then starts the thread.
    ///
    /// # Errors
    /// When the system has no space for another thread.
    pub(crate) fn start(
        config: &Config,
        settings: &Arc<Settings>,
        staples: &Arc<Staples>,
        counters: &Arc<BackgroundCounters>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let sources = Arc::new(Mutex::new(Arc::new(Sources::of(config, staples))));
        let files = Arc::new(Files::new(Arc::clone(staples), Arc::clone(counters)));
        files.read(&current(&sources), SystemTime::now());
        let directory = config.tls.ech.clone();
        let ech_source = EchSource { directory, settings: Arc::clone(settings), generation: 1 };
        let ech_source = Arc::new(Mutex::new(Arc::new(ech_source)));
        let ech = Arc::new(EchFiles::new(Arc::clone(counters)));
        ech.read(&current(&ech_source));
        let rounds = Rounds {
            ech: Arc::clone(&ech),
            ech_source: Arc::clone(&ech_source),
            sources: Arc::clone(&sources),
            staples: Arc::clone(staples),
            files: Arc::clone(&files),
            questions: Questions::new(Arc::clone(staples), Arc::clone(counters)),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("refresh".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = rounds.run() => {}
                    _ = stopped => {}
                }
            });
            // A DNS lookup must not delay the end of the program.
            runtime.shutdown_background();
        })?;
        Ok(Self { sources, files, ech, ech_source, stop: Some(stop), thread: Some(thread) })
    }

    /// Puts another configuration in force after its certificates are prepared.
    pub(crate) fn change(&self, config: &Config, settings: &Arc<Settings>, staples: &Staples) {
        let mut source = self.ech_source.lock().unpoisoned();
        *source = Arc::new(EchSource {
            directory: config.tls.ech.clone(),
            settings: Arc::clone(settings),
            generation: source.generation + 1,
        });
        self.ech.read(&source);
        drop(source);
        let sources = Arc::new(Sources::of(config, staples));
        self.files.read(&sources, SystemTime::now());
        *self.sources.lock().unpoisoned() = sources;
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the refresh thread panicked; OCSP responses were no longer renewed");
        }
    }
}

fn current<S>(sources: &Mutex<Arc<S>>) -> Arc<S> {
    Arc::clone(&sources.lock().unpoisoned())
}

/// The work of the thread.
struct Rounds {
    ech: Arc<EchFiles>,
    ech_source: Arc<Mutex<Arc<EchSource>>>,
    sources: Arc<Mutex<Arc<Sources>>>,
    staples: Arc<Staples>,
    files: Arc<Files>,
    questions: Questions,
}

impl Rounds {
    async fn run(mut self) {
        let mut rounds = tokio::time::interval(Duration::from_millis(limits::REFRESH_INTERVAL_MILLISECONDS));
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = rounds.tick() => self.round(SystemTime::now()),
                () = self.questions.take_answer() => {}
            }
        }
    }

    fn round(&mut self, now: SystemTime) {
        self.staples.prune(now);
        let sources = current(&self.sources);
        self.files.read(&sources, now);
        self.questions.ask(&sources, now);
        self.ech.read(&current(&self.ech_source));
    }
}
