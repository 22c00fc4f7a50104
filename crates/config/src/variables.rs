//! Variables of the environment in values: `${NAME}`, `${NAME:-default}`, and `$${` for the two characters themselves.

use std::time::SystemTime;
use std::{env, fs};

use crate::fault::{Fault, Position};
use crate::limits::CONFIG_FILE_BYTES;

/// The machine and the process for which a configuration is read.
pub struct Environment<'e> {
    /// The time: certificates expire.
    pub now: SystemTime,
    /// The name of the machine.
    pub host_name: String,
    /// The value of a variable; `None` if it is not set.
    pub variable: &'e dyn Fn(&str) -> Option<String>,
}

impl Environment<'_> {
    /// This process, now.
    #[must_use]
    pub fn of_process() -> Self {
        let host_name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            now: SystemTime::now(),
            host_name: host_name.trim().to_owned(),
            variable: &|name| env::var(name).ok(),
        }
    }

    /// Without variables and a name, at this time.
    #[must_use]
    pub fn at(now: SystemTime) -> Self {
        Self { now, host_name: String::new(), variable: &|_| None }
    }
}

/// Expands the variables of a file, and remembers their values: messages must not repeat them.
pub(crate) struct Expansion<'e> {
    /// The number of the file whose values are expanded.
    pub(crate) file: u32,
    variable: &'e dyn Fn(&str) -> Option<String>,
    expanded: Vec<Expanded>,
    pub(crate) faults: Vec<(Position, String, String)>,
}

/// A value with variables.
struct Expanded {
    position: Position,
    /// As it stands in the file.
    written: String,
    value: String,
    /// What came from the environment, with the words that stand for it.
    variables: Vec<(String, String)>,
}

/// Shorter values of variables are hidden only in messages about the value that has them: such words occur by chance.
const HIDDEN_EVERYWHERE_BYTES: usize = 6;

impl<'e> Expansion<'e> {
    pub(crate) fn new(environment: &Environment<'e>) -> Self {
        Self { file: 0, variable: environment.variable, expanded: Vec::new(), faults: Vec::new() }
    }

    /// Expands the variables in the value at `position`. One that is not set is a fault.
    pub(crate) fn expand(&mut self, text: &mut String, position: Position) {
        if !text.contains("${") {
            return;
        }
        match expand(text, self.variable) {
            Ok((value, variables)) => {
                let written = std::mem::replace(text, value.clone());
                self.expanded.push(Expanded { position, written, value, variables });
            }
            Err((what, instead)) => self.faults.push((position, what, instead)),
        }
    }

    /// Replaces values that came from the environment by the names of their variables.
    pub(crate) fn hide(&self, fault: &mut Fault, position: Position) {
        for one in &self.expanded {
            if one.position == position && !one.variables.is_empty() {
                for text in [&mut fault.what, &mut fault.instead] {
                    *text = match one.value.len() < HIDDEN_EVERYWHERE_BYTES {
                        true => text.replace(&format!("`{}`", one.value), &format!("`{}`", one.written)),
                        false => replace(text, &one.value, &one.written),
                    };
                }
            }
            for (name, value) in &one.variables {
                if value.len() >= HIDDEN_EVERYWHERE_BYTES {
                    fault.what = replace(&fault.what, value, name);
                    fault.instead = replace(&fault.instead, value, name);
                }
            }
        }
    }
}

/// Replaces a value in a message, also where its control characters and quotes are escaped.
fn replace(message: &str, value: &str, by: &str) -> String {
    message.replace(value, by).replace(&value.escape_debug().to_string(), by)
}

/// The text with its variables expanded, and what came from the environment. An error is the fault and its remedy.
#[expect(clippy::type_complexity, reason = "used once")]
fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, Vec<(String, String)>), (String, String)> {
    let (mut value, mut variables, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        let behind = &rest[at + 2..];
        if let Some(before) = before.strip_suffix('$') {
            value.push_str(before);
            value.push_str("${");
            rest = behind;
            continue;
        }
        value.push_str(before);
        let Some((inside, behind)) = behind.split_once('}') else {
            let what = format!("`{}` has no end", &rest[at..]);
            return Err((what, "write ${NAME} or ${NAME:-default}, or $${ for the characters ${".to_owned()));
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        };
        if !is_name(name) {
            let what = format!("`${{{inside}}}` does not name a variable");
            return Err((what, "write ${NAME} or ${NAME:-default}, or $${ for the characters ${".to_owned()));
        }
        // As in a shell, a default also counts for a variable that is set and empty.
        match (variable(name).filter(|found| default.is_none() || !found.is_empty()), default) {
            (Some(found), _) => {
                value.push_str(&found);
                variables.push((format!("${{{name}}}"), found));
            }
            (None, Some(default)) => value.push_str(default),
            (None, None) => {
                let what = format!("the variable {name} of the environment is not set");
                let instead = format!("set it for the service, or write ${{{name}:-default}}");
                return Err((what, instead));
            }
        }
        if value.len() as u64 > CONFIG_FILE_BYTES {
            let what = format!("the value is too long with the variable {name}");
            return Err((what, "write a shorter one".to_owned()));
        }
        rest = behind;
    }
    value.push_str(rest);
    Ok((value, variables))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let variable = |name: &str| match name {
            "HOST" => Some("edge1".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOST}".to_owned()),
            _ => None,
        };
        expand(text, &variable)
            .map(|(value, _)| value)
            .map_err(|(what, instead)| format!("{what}; {instead}"))
    }

    #[test]
    fn variables_are_expanded() {
        for (text, value) in [
            ("${HOST}", "edge1"),
            ("a-${HOST}.${HOST}:443", "a-edge1.edge1:443"),
            ("${NONE:-x}", "x"),
            ("${HOST:-x}", "edge1"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("$${HOST}", "${HOST}"),
            ("$$${HOST}", "$${HOST}"),
            ("$HOST and $", "$HOST and $"),
            // What a variable has is not expanded again.
            ("${NESTED}", "${HOST}"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn variables_without_a_value_or_a_name_are_refused() {
        let shown = |text: &str| expanded(text).unwrap_err();
        assert_eq!(
            shown("${NONE}"),
            "the variable NONE of the environment is not set; set it for the service, or write ${NONE:-default}"
        );
        for text in ["${}", "${A B}", "${1A}", "${:-x}", "${A-x}", "${HOST"] {
            assert!(shown(text).contains("write ${NAME}"), "{text}");
        }
    }
}
