//! The name of a request, in fields and in the access log.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use penstock_config::limits;
use penstock_http::Request;

/// The field that has the name of a request.
pub(crate) const REQUEST_ID: &str = "X-Request-Id";

/// The name of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Name);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// 128 random bits, written as 32 hexadecimal digits.
    Random([u64; 2]),
    /// The client's own.
    Given(Box<str>),
}

impl RequestId {
    /// A new name. The bits are those of SipHash under random keys, of which each call has others. They tell nothing of other
    /// requests.
    pub(crate) fn new() -> Self {
        let bits = || RandomState::new().build_hasher().finish();
        Self(Name::Random([bits(), bits()]))
    }

    /// The name that a request has in its only field `X-Request-Id`: 1 to 128 letters, digits and `-_.:+/=@`. `None` if it has
    /// another value there.
    pub(crate) fn given(request: &Request<'_>) -> Option<Self> {
        let mut values = request.values(REQUEST_ID);
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
        let is_fine = (1..=limits::REQUEST_ID_BYTES).contains(&value.len()) && value.iter().all(is_plain);
        let value = str::from_utf8(value).ok().filter(|_| is_fine)?;
        Some(Self(Name::Given(value.into())))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Random([first, second]) => write!(out, "{first:016x}{second:016x}"),
            Name::Given(name) => out.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::tests::fixture::{head, parse};

    #[test]
    fn names_are_32_digits_and_differ() {
        let names: HashSet<String> = (0..1000).map(|_| RequestId::new().to_string()).collect();
        assert_eq!(names.len(), 1000);
        assert!(
            names.iter().all(|name| name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn a_name_of_a_client_is_taken_if_it_is_the_only_one_short_and_plain() {
        let (longest, longer) = ("a".repeat(128), "a".repeat(129));
        for (values, taken) in [
            (&["0af7651916cd43dd8448eb211c80319c"][..], true),
            (&["Root=1-67:a_b.c+d/e@f"], true),
            (&[&longest], true),
            (&[], false),
            (&[""], false),
            (&[&longer], false),
            (&["a b"], false),
            (&["a\"b"], false),
            (&["a,b"], false),
            (&["\u{e4}"], false),
            (&["a", "a"], false),
        ] {
            let fields: String = values.iter().map(|value| format!("x-request-id: {value}\r\n")).collect();
            let bytes = head("GET /x", &fields);
            let given = RequestId::given(&parse(&bytes)).map(|id| id.to_string());
            assert_eq!(given.as_deref(), values.first().copied().filter(|_| taken), "{values:?}");
        }
    }
}
