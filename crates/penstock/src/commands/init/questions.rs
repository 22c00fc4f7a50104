//! Questions on the terminal.

use std::io::{self, BufRead, Read};

use crate::failure::Failure;
use crate::terminal;

/// Bytes of an answer.
const ANSWER_BYTES: u64 = 4096;

/// Wrong answers to one question.
const ATTEMPTS: usize = 10;

/// Whether questions are asked, or their proposals taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Questions {
    Asked,
    Proposed,
}

/// One question.
pub(super) struct Question<'q> {
    /// What is asked.
    pub(super) text: &'q str,
    /// The option that answers it.
    pub(super) option: &'q str,
    /// What an empty answer means; `None` if there has to be one.
    pub(super) proposal: Option<String>,
}

impl Questions {
    pub(super) fn new(yes: bool) -> Self {
        if yes { Self::Proposed } else { Self::Asked }
    }

    /// The answer to a question, or what the command line has `given`. `read` gives its meaning or says what is wrong with it.
    ///
    /// # Errors
    /// A wrong answer on the command line, no proposal where nothing is asked, or the end of the answers.
    pub(super) fn ask<T>(
        self,
        question: &Question<'_>,
        given: Option<&str>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let option = question.option;
        if let Some(given) = given {
            return read(given).map_err(|what| Failure::Usage(format!("{option}: {what}")));
        }
        let proposal = question.proposal.as_deref();
        if self == Self::Proposed {
            let proposal =
                proposal.ok_or_else(|| Failure::Usage(format!("{option} is needed with --yes")))?;
            return read(proposal).map_err(|what| Failure::Usage(format!("{what}; add {option}")));
        }
        let shown = proposal.map(|proposal| format!(" [{proposal}]")).unwrap_or_default();
        for _ in 0..ATTEMPTS {
            terminal::ask(&format!("{}{shown}: ", question.text));
            let answer = line()?;
            let answer = if answer.is_empty() { proposal.unwrap_or_default() } else { &answer };
            match read(answer) {
                Ok(meaning) => return Ok(meaning),
                Err(what) => terminal::complain(&what),
            }
        }
        Err(Failure::Usage(format!("{option}: there was no right answer in {ATTEMPTS} attempts")))
    }
}

/// The next line of standard input, without spaces around it.
fn line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().take(ANSWER_BYTES).read_line(&mut line);
    match read.map_err(Failure::machine("read an answer"))? {
        0 => Err(Failure::Usage("the answers end; --yes asks nothing".to_owned())),
        _ => Ok(line.trim().to_owned()),
    }
}
