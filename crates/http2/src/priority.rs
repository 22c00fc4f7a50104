//! The priority of a response (RFC 9218 §4).

/// Urgency and incremental, as a client asked for them or as they are by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is sent first, 7 last.
    pub urgency: u8,
    /// Whether the client can use parts of the response: then it shares the connection with others of its urgency.
    pub incremental: bool,
}

impl Priority {
    /// The urgency of a request that says nothing (RFC 9218 §4.1).
    pub const DEFAULT_URGENCY: u8 = 3;

    /// The least urgent.
    pub const URGENCY_MAX: u8 = 7;
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: Self::DEFAULT_URGENCY, incremental: false }
    }
}

/// What a client said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityParameters {
    /// 0 to 7; `None` if it said nothing.
    pub urgency: Option<u8>,
    /// Whether it can use parts of the response.
    pub incremental: bool,
}

impl PriorityParameters {
    /// Reads a Priority field, a dictionary of RFC 8941. Members that are unknown, or that have another type or value than
    /// RFC 9218 §4 says, are ignored; of repeated members the last counts. A further line of the field adds to the first.
    pub(crate) fn read(&mut self, field: &[u8]) {
        for member in members(field) {
            let value = member.split(|byte| *byte == b';').next().unwrap_or_default();
            match value.trim_ascii() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => self.urgency = Some(urgency - b'0'),
                b"i" | b"i=?1" => self.incremental = true,
                b"i=?0" => self.incremental = false,
                _ => {}
            }
        }
    }

    /// The parameters of one field.
    pub fn parse(field: &[u8]) -> Self {
        let mut parameters = Self::default();
        parameters.read(field);
        parameters
    }
}

/// The members of a dictionary: divided by commas that do not stand in a string.
fn members(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut in_string, mut escaped) = (false, false);
    field.split(move |&byte| {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            _ => {}
        }
        byte == b',' && !in_string
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_everything_else_is_ignored() {
        for (field, urgency, incremental) in [
            ("", None, false),
            ("u=5, i", Some(5), true),
            ("i, u=0", Some(0), true),
            ("u=1,i=?0", Some(1), false),
            ("i=?1", None, true),
            ("u=7;a=1, i;b", Some(7), true),
            ("u=8", None, false),
            ("u=-1", None, false),
            ("u=1.0", None, false),
            ("u=33", None, false),
            ("u", None, false),
            ("u=2, u=4", Some(4), false),
            ("u=2, u=9", Some(2), false),
            ("x=\"a, u=6, i\", u=1", Some(1), false),
            ("x=\"a\\\", u=6\", i", None, true),
            ("U=1, I", None, false),
            (" \tu=1\t , , i ", Some(1), true),
        ] {
            let parameters = PriorityParameters { urgency, incremental };
            assert_eq!(PriorityParameters::parse(field.as_bytes()), parameters, "{field}");
        }
    }

    #[test]
    fn lines_add_up() {
        let mut parameters = PriorityParameters::default();
        parameters.read(b"u=5");
        parameters.read(b"i");
        assert_eq!(parameters, PriorityParameters { urgency: Some(5), incremental: true });
    }
}
