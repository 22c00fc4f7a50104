//! Asks a store about itself, from outside of a fleet.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Pipeline, Value};

use crate::counters::Operation;
use crate::fleet::FleetOptions;
use crate::link::{Fault, Link, list_of, text_of};
use crate::look::visit;
use crate::store_facts::StoreFacts;

/// Answers that are timed.
const PROBES: usize = 5;

/// Asks the store of a fleet about itself. Blocks for some seconds at most.
///
/// # Errors
/// Why it cannot be used.
pub fn examine(options: &FleetOptions) -> Result<StoreFacts, String> {
    visit(options, async |parts| {
        let link = &parts.link;
        let mut latency = Duration::MAX;
        for _ in 0..PROBES {
            let began = Instant::now();
            asked(link, &["PING"]).await.map_err(|fault| said(link, fault))?;
            latency = latency.min(began.elapsed());
        }
        let info = asked(link, &["INFO"]).await.unwrap_or(Value::Nil);
        let facts = StoreFacts::of_info(text_of(&info).unwrap_or_default());
        let time = asked(link, &["TIME"]).await.unwrap_or(Value::Nil);
        let seconds = list_of(&time).first().and_then(text_of).and_then(|text| text.parse::<i64>().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(StoreFacts {
            latency,
            clock_ahead: seconds.map(|seconds| seconds.saturating_sub(now.cast_signed())),
            ..facts
        })
    })
}

async fn asked(link: &Link, words: &[&str]) -> Result<Value, Fault> {
    let mut commands = Pipeline::with_capacity(1);
    commands.cmd(words[0]).arg(&words[1..]);
    let answers = link.ask_patiently(Operation::Edges, &commands).await?;
    Ok(answers.into_iter().next().unwrap_or(Value::Nil))
}

fn said(link: &Link, fault: Fault) -> String {
    match fault {
        Fault::Refused => link.refusal(),
        _ => "it does not answer".to_owned(),
    }
}
