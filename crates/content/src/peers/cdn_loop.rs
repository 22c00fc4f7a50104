//! CDN-Loop (RFC 8586): a request that comes back to the site that sent it is answered with 508.

use std::fmt;
use std::sync::{Arc, LazyLock};

use http::header::{HeaderName, HeaderValue};
use penstock_config::limits;
use penstock_http::Request;
use penstock_origin::http::Fetch;
use penstock_sys::digest::sha256;

use crate::peers::peer_fields::hexadecimal;

const CDN_LOOP: &str = "cdn-loop";

/// The member of CDN-Loop that a server adds.
///
/// A site whose objects are shared has the name of its node. Other sites have a name of their own that changes with the process,
/// because one site may lead to another of the same server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LoopMember(Arc<str>);

impl LoopMember {
    /// The member of a node.
    pub(crate) fn of_node(name: &str) -> Self {
        Self(format!("penstock; node=\"{name}\"").into())
    }

    /// The member of a site that is in no cluster.
    pub(crate) fn of_site(name: &str) -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(penstock_tls::random_number);
        Self::in_process(*PROCESS, name)
    }

    /// A digest, so that the member tells nothing about the origin.
    fn in_process(process: u64, name: &str) -> Self {
        let digest = sha256(&[b"penstock loop", &process.to_ne_bytes(), name.as_bytes()]);
        Self(format!("penstock; site=\"{}\"", hexadecimal(&digest[..8])).into())
    }

    /// The node that a member names, if it is that of a node.
    pub(crate) fn node_of(member: &str) -> Option<&str> {
        member.strip_prefix("penstock; node=\"")?.strip_suffix('"')
    }

    /// Whether a request has passed through this server.
    pub(crate) fn has_passed(&self, request: &Request<'_>) -> bool {
        let is_own = |value| memchr::memmem::find(value, self.0.as_bytes()).is_some();
        request.has_cdn_loop() && request.values(CDN_LOOP).any(is_own)
    }

    /// Adds the member to a request for the next server, behind those of the request that causes it.
    pub(crate) fn add_to(&self, fetch: &mut Fetch, before: Option<&str>) {
        let members = before.map_or_else(|| (*self.0).to_owned(), |before| format!("{before}, {}", self.0));
        if let Ok(value) = HeaderValue::from_str(&members) {
            fetch.fields.insert(HeaderName::from_static(CDN_LOOP), value);
        }
    }
}

impl fmt::Debug for LoopMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The members of a request, for [`LoopMember::add_to`]; `None` without any, or beyond [`limits::CDN_LOOP_BYTES`].
pub(crate) fn passed_through(request: &Request<'_>) -> Option<Arc<str>> {
    let values = request.values(CDN_LOOP).filter_map(|value| str::from_utf8(value).ok());
    let joined = values.collect::<Vec<_>>().join(", ");
    (!joined.is_empty() && joined.len() <= limits::CDN_LOOP_BYTES).then(|| joined.into())
}

#[cfg(test)]
mod tests {
    use penstock_http::HeadLimits;

    use super::*;

    /// Calls `check` with a request that has these values of CDN-Loop.
    fn with_request<T>(values: &[&str], check: impl Fn(&Request<'_>) -> T) -> T {
        let lines: String = values.iter().map(|value| format!("CDN-Loop: {value}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
        let limits = HeadLimits { head_bytes: 16 * 1024, fields: 16, target_bytes: 1024 };
        check(&Request::parse(head.as_bytes(), &limits).unwrap())
    }

    #[test]
    fn a_server_finds_itself_among_the_members_and_no_other() {
        let one = LoopMember::of_node("edge1");
        let another = LoopMember::of_node("edge22");
        let field = format!("other; a=b, {one:?}, {another:?}");
        let passed = |member: &LoopMember, value: &str| {
            with_request(&["first", value], |request| member.has_passed(request))
        };
        assert!(passed(&one, &field) && passed(&another, &field));
        assert!(!passed(&LoopMember::of_node("edge2"), &field) && !passed(&one, "penstock"));
        let sites =
            [(1, "a"), (1, "b"), (2, "a")].map(|(process, name)| LoopMember::in_process(process, name));
        for (place, own) in sites.iter().enumerate() {
            for (other, value) in sites.iter().enumerate() {
                assert_eq!(passed(own, &format!("{value:?}")), place == other);
            }
        }
        assert_eq!(LoopMember::of_site("a"), LoopMember::of_site("a"), "the same in the whole process");
    }

    #[test]
    fn the_members_of_a_request_go_on_in_order_within_a_bound() {
        let member = LoopMember::of_node("edge1");
        let long = "a".repeat(limits::CDN_LOOP_BYTES);
        for (values, expected) in [
            (vec![], "penstock; node=\"edge1\""),
            (vec!["a; b=c", "d"], "a; b=c, d, penstock; node=\"edge1\""),
            (vec!["a", &*long], "penstock; node=\"edge1\""),
        ] {
            let mut fetch = Fetch::get("/");
            // What the client sent stands there already.
            fetch.pass(CDN_LOOP, b"a");
            fetch.pass(CDN_LOOP, b"b");
            member.add_to(&mut fetch, with_request(&values, passed_through).as_deref());
            let sent: Vec<_> = fetch.fields.get_all(CDN_LOOP).iter().collect();
            assert_eq!(sent, [expected]);
        }
    }
}
