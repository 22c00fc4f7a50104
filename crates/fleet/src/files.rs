//! Small files that all edges share, and a right that one of them has at a time: for orders of certificates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use penstock_sys::traffic::Secret;
use redis::{Pipeline, Value};

use crate::counters::{Operation, Outcome};
use crate::link::{Link, bytes_of, text_of};
use crate::seal::{OVERHEAD_BYTES, Purpose, Sealer};
use crate::sessions::millis;

/// Bytes of a file: a chain of certificates with its key has some KiB.
const FILE_BYTES: usize = 256 * 1024;

/// The store has not done what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store of the fleet does not answer")
    }
}

impl std::error::Error for NoAnswer {}

/// Files in the store, sealed with the fleet's secret. Each call waits for half a second at most.
#[derive(Clone)]
pub struct SharedFiles {
    pub(crate) link: Arc<Link>,
    pub(crate) sealer: Arc<Sealer>,
    /// Begins the name of everything that the fleet stores.
    pub(crate) prefix: String,
    /// This process, as the holder of the right.
    pub(crate) own: String,
}

impl fmt::Debug for SharedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFiles").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl SharedFiles {
    /// The content of a file; `None` if there is none, or if another program has written it.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn get(&self, name: &str) -> Result<Option<Secret>, NoAnswer> {
        let mut commands = Pipeline::with_capacity(1);
        // One more byte than a record can have: what is larger was not written by this fleet.
        let bytes_max = FILE_BYTES + OVERHEAD_BYTES;
        commands.cmd("GETRANGE").arg(self.key(name)).arg(0).arg(bytes_max);
        let answers = self.ask(&commands).await?;
        let record = answers.first().and_then(bytes_of).filter(|record| !record.is_empty());
        let opened = record
            .filter(|record| record.len() <= bytes_max)
            .and_then(|record| self.sealer.open(Purpose::File, &[name.as_bytes()], record));
        self.link.counters.count(
            Operation::Certificates,
            match (record, &opened) {
                (None, _) => Outcome::Miss,
                (Some(_), None) => Outcome::Forged,
                (Some(_), Some(_)) => Outcome::Ok,
            },
        );
        Ok(opened)
    }

    /// Replaces a file, for so long.
    ///
    /// # Errors
    /// [`NoAnswer`], also for a content of more than 256 KiB.
    pub async fn put(&self, name: &str, content: &[u8], lifetime: Duration) -> Result<(), NoAnswer> {
        let sealed = self.sealer.seal(Purpose::File, &[name.as_bytes()], content);
        let sealed = sealed.filter(|_| content.len() <= FILE_BYTES).ok_or(NoAnswer)?;
        self.set(self.key(name), &sealed, lifetime, None).await.map(drop)
    }

    /// Removes a file. One that stays ends with its time.
    pub async fn remove(&self, name: &str) {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("DEL").arg(self.key(name));
        drop(self.ask(&commands).await);
    }

    /// Takes a right for so long; false if another process has it.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn lock(&self, name: &str, time: Duration) -> Result<bool, NoAnswer> {
        Ok(self.set(self.key(name), self.own.as_bytes(), time, Some("NX")).await?
            || self.keep(name, time).await?)
    }

    /// Keeps a right for so long from now on; false if this process has not got it.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn keep(&self, name: &str, time: Duration) -> Result<bool, NoAnswer> {
        let has_it = self.has(name).await?;
        Ok(has_it && self.set(self.key(name), self.own.as_bytes(), time, Some("XX")).await?)
    }

    /// Gives a right up.
    pub async fn unlock(&self, name: &str) {
        if self.has(name).await == Ok(true) {
            self.remove(name).await;
        }
    }

    async fn has(&self, name: &str) -> Result<bool, NoAnswer> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("GETRANGE").arg(self.key(name)).arg(0).arg(self.own.len());
        let answers = self.ask(&commands).await?;
        Ok(answers.first().and_then(text_of) == Some(&self.own))
    }

    /// Sets an entry; false if the condition does not hold.
    async fn set(
        &self,
        key: String,
        value: &[u8],
        lifetime: Duration,
        condition: Option<&str>,
    ) -> Result<bool, NoAnswer> {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("SET").arg(key).arg(value).arg("PX").arg(millis(lifetime)).arg(condition);
        let answers = self.ask(&commands).await?;
        self.link.counters.count(Operation::Certificates, Outcome::Ok);
        Ok(answers.first().is_some_and(|answer| *answer != Value::Nil))
    }

    async fn ask(&self, commands: &Pipeline) -> Result<Vec<Value>, NoAnswer> {
        self.link.ask_patiently(Operation::Certificates, commands).await.map_err(|_| NoAnswer)
    }

    fn key(&self, name: &str) -> String {
        format!("{}file:{}", self.prefix, self.sealer.pseudonym("file", &[name.as_bytes()]))
    }
}
