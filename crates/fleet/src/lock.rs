//! Locks in the store, for work that one edge does for all.

use redis::{Pipeline, Value};

use crate::counters::Operation;
use crate::link::{Fault, Link};

/// For how long one edge alone may do such work.
pub(crate) const LOCK_MILLISECONDS: u64 = 5000;

/// Takes a lock until it is removed or its time has passed; false if another edge has it.
///
/// # Errors
/// The store does not answer.
pub(crate) async fn take_lock(link: &Link, operation: Operation, name: &str) -> Result<bool, Fault> {
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("SET").arg(name).arg(1).arg("NX").arg("PX").arg(LOCK_MILLISECONDS);
    commands.cmd("PTTL").arg(name);
    match link.ask_patiently(operation, &commands).await?.as_slice() {
        [Value::Okay, _] => return Ok(true),
        [_, Value::Int(left)] if !(0..=LOCK_MILLISECONDS.cast_signed()).contains(left) => {
            // No edge wrote it, because it would never expire.
            link.remove(operation, &[name.to_owned()]).await;
        }
        _ => {}
    }
    Ok(false)
}
