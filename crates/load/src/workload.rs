//! The requests of a run: objects, methods, ranges.

use std::sync::Arc;
use std::time::Duration;

use crate::random::{Random, Zipf};
use crate::target::TargetUrl;

/// The requests of a run.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Paths; `{}` in them stands for the number of an object.
    pub paths: Vec<String>,
    /// The number of objects that `{}` stands for.
    pub objects: u64,
    /// The order of objects.
    pub order: ObjectOrder,
    /// Methods with their weights.
    pub methods: Vec<(String, u32)>,
    /// The byte ranges.
    pub range: RangeChoice,
    /// Additional fields, names and values.
    pub fields: Vec<(String, String)>,
    /// The value of the Host field.
    pub host: String,
    /// Whether each request uses a new connection.
    pub connection_each: bool,
    /// The mean pause between a response and the next request, exponentially distributed.
    pub think: Duration,
    /// The expected bodies.
    pub checksum: Checksum,
}

/// The order in which objects are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ObjectOrder {
    /// One after the other, across all connections.
    #[default]
    InTurn,
    /// Each as likely as any other.
    Random,
    /// By popularity (Zipf's distribution), with this exponent.
    Zipf(f64),
}

/// The byte range of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RangeChoice {
    /// None: the whole object.
    #[default]
    Whole,
    /// Always this one: the value of Range after `bytes=` (RFC 9110 §14.1.2).
    Fixed(String),
    /// A random range.
    Random {
        /// Bytes of the range.
        length: u64,
        /// Bytes of the object.
        size: u64,
    },
}

/// The expected bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// They are not compared.
    #[default]
    Off,
    /// The first body of the same object and range.
    Consistent,
    /// This SHA-256.
    Exactly([u8; 32]),
}

/// A request that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRequest {
    /// The method.
    pub method: String,
    /// The value of Host or `:authority`.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// The fields beside Host, names and values.
    pub fields: Vec<(String, String)>,
    /// Whether the response has no body because the method is HEAD.
    pub for_head: bool,
    /// Whether it asks for a playlist delta update.
    pub is_delta: bool,
    /// Whether the status must be 206.
    pub ranged: bool,
    /// Object and range; equal for requests with the same body.
    pub object: String,
}

/// Chooses requests. Each thread has its own.
#[derive(Debug)]
pub struct RequestChooser {
    workload: Arc<Workload>,
    random: Random,
    zipf: Option<Zipf>,
    methods_total: u64,
    objects: u64,
    next: u64,
    step: u64,
}

impl RequestChooser {
    /// The chooser of thread `thread` of `threads`; together they take objects in turn.
    pub fn new(workload: Arc<Workload>, seed: u64, thread: usize, threads: usize) -> Self {
        let objects = workload.count();
        let zipf = match workload.order {
            ObjectOrder::Zipf(exponent) => Zipf::new(objects, exponent),
            _ => None,
        };
        let methods_total = workload.methods.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let (next, step) = (thread as u64, threads.max(1) as u64);
        let random = Random::new(seed.wrapping_add(next));
        Self { workload, random, zipf, methods_total, objects, next, step }
    }

    /// The next request.
    pub fn choose(&mut self) -> PreparedRequest {
        let object = match (self.workload.order, &self.zipf) {
            (_, Some(zipf)) => zipf.choose(&mut self.random),
            (ObjectOrder::Random, _) => self.random.below(self.objects),
            _ => {
                let object = self.next % self.objects;
                self.next = self.next.wrapping_add(self.step);
                object
            }
        };
        let path = self.workload.path(object);
        let method = self.method();
        let range = match &self.workload.range {
            RangeChoice::Whole => None,
            RangeChoice::Fixed(range) => Some(range.clone()),
            RangeChoice::Random { length, size } => {
                let length = (*length).clamp(1, *size);
                let first = self.random.below(size - length + 1);
                Some(format!("{first}-{}", first + length - 1))
            }
        };
        self.workload.request(&method, &path, range.as_deref())
    }

    /// The pause before the next request.
    pub fn think(&mut self) -> Duration {
        let mean = self.workload.think;
        if mean.is_zero() { mean } else { self.random.pause(mean) }
    }

    fn method(&mut self) -> String {
        let mut point = if self.methods_total == 0 { 0 } else { self.random.below(self.methods_total) };
        for (method, weight) in &self.workload.methods {
            match point.checked_sub(u64::from(*weight)) {
                None => return method.clone(),
                Some(rest) => point = rest,
            }
        }
        "GET".to_owned()
    }
}

impl Workload {
    /// One path without options.
    pub fn simple(host: String, path: &str) -> Self {
        Self { paths: vec![path.to_owned()], objects: 1, host, ..Self::default() }
    }

    /// The number of different objects.
    fn count(&self) -> u64 {
        (self.paths.len() as u64).max(1) * self.objects.max(1)
    }

    /// The path of an object. Consecutive numbers have different paths of the list.
    fn path(&self, object: u64) -> String {
        let paths = (self.paths.len() as u64).max(1);
        let place = usize::try_from(object % paths).unwrap_or(0);
        let path = self.paths.get(place).map_or("/", String::as_str);
        if path.contains("{}") { path.replace("{}", &(object / paths).to_string()) } else { path.to_owned() }
    }

    /// A request for a byte range of a path.
    pub fn request(&self, method: &str, path: &str, range: Option<&str>) -> PreparedRequest {
        self.request_at(&self.host, method, path, range)
    }

    /// The same at another host.
    pub fn request_at(&self, host: &str, method: &str, path: &str, range: Option<&str>) -> PreparedRequest {
        let mut fields = Vec::with_capacity(self.fields.len() + 2);
        let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
        let is_given = |name: &str| self.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !is_given("User-Agent") {
            add("User-Agent", "penstock-load".to_owned());
        }
        // RFC 9110 §8.6: methods that usually have content say if they have none.
        if matches!(method, "POST" | "PUT" | "PATCH") && !is_given("Content-Length") {
            add("Content-Length", "0".to_owned());
        }
        if let Some(range) = range {
            add("Range", format!("bytes={range}"));
        }
        fields.extend_from_slice(&self.fields);
        PreparedRequest {
            method: method.to_owned(),
            authority: host.to_owned(),
            path: path.to_owned(),
            fields,
            for_head: method == "HEAD",
            is_delta: false,
            ranged: range.is_some(),
            object: format!("{path} {}", range.unwrap_or_default()),
        }
    }
}

impl PreparedRequest {
    /// Whether several such requests do no more than one (RFC 9110 §9.2.2). Unknown methods are taken as others.
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }

    /// The request as HTTP/1.1 (RFC 9112 §3).
    pub fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.path, self.authority);
        for (name, value) in &self.fields {
            for part in [name, ": ", value, "\r\n"] {
                head.push_str(part);
            }
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Reads a list of paths, one per line, without empty lines and comments (`#`).
///
/// # Errors
/// Names the line that is not a path or URL of the target.
pub fn paths(text: &str, target: &TargetUrl) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let found = target.join(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        if !found.same_server(target) {
            return Err(format!("line {}: {line} is not at {}", number + 1, target.authority()));
        }
        paths.push(found.path);
    }
    if paths.is_empty() { Err("there is no path in it".to_owned()) } else { Ok(paths) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn chooser(workload: Workload) -> RequestChooser {
        RequestChooser::new(Arc::new(workload), 1, 0, 1)
    }

    fn objects(workload: Workload, count: usize) -> Vec<String> {
        let mut chooser = chooser(workload);
        (0..count).map(|_| chooser.choose().object.trim().to_owned()).collect()
    }

    #[test]
    fn a_request_is_a_head_with_host_and_nothing_else() {
        let request = chooser(Workload::simple("a:1".to_owned(), "/x?y")).choose();
        let text = String::from_utf8(request.head()).unwrap();
        assert_eq!(text, "GET /x?y HTTP/1.1\r\nHost: a:1\r\nUser-Agent: penstock-load\r\n\r\n");
        assert!(!request.for_head && !request.ranged);
    }

    #[test]
    fn a_method_that_usually_has_a_body_says_that_there_is_none() {
        let text = |method, workload: &Workload| {
            String::from_utf8(workload.request(method, "/", None).head()).unwrap()
        };
        let mut workload = Workload::simple("a".to_owned(), "/");
        assert!(text("POST", &workload).contains("\r\nContent-Length: 0\r\n"));
        assert!(!text("GET", &workload).contains("Content-Length"));
        workload.fields.push(("content-length".to_owned(), "0".to_owned()));
        assert!(!text("POST", &workload).contains("Content-Length"));
    }

    #[test]
    fn a_template_numbers_its_objects_and_a_list_is_gone_through() {
        let list = Workload {
            paths: vec!["/a".to_owned(), "/s{}.ts".to_owned()],
            objects: 2,
            ..Workload::default()
        };
        assert_eq!(objects(list, 5), ["/a", "/s0.ts", "/a", "/s1.ts", "/a"]);
    }

    #[test]
    fn threads_share_the_objects_in_turn() {
        let workload = Arc::new(Workload { objects: 4, ..Workload::simple(String::new(), "/{}") });
        let mut second = RequestChooser::new(workload, 1, 1, 2);
        assert_eq!(second.choose().object, "/1 ");
        assert_eq!(second.choose().object, "/3 ");
        assert_eq!(second.choose().object, "/1 ");
    }

    #[test]
    fn zipf_asks_for_the_first_object_most() {
        let mut workload = Workload::simple(String::new(), "/{}");
        workload.objects = 100;
        workload.order = ObjectOrder::Zipf(1.0);
        let mut counts = BTreeMap::<_, u32>::new();
        for object in objects(workload, 10_000) {
            *counts.entry(object).or_default() += 1;
        }
        assert!(counts["/0"] > 4 * counts["/9"] && counts["/0"] > 1500, "{counts:?}");
    }

    #[test]
    fn methods_are_mixed_by_their_weights() {
        let mut workload = Workload::simple(String::new(), "/");
        workload.methods = vec![("GET".to_owned(), 9), ("HEAD".to_owned(), 1)];
        let mut chooser = chooser(workload);
        let heads = (0..10_000).filter(|_| chooser.choose().for_head).count();
        assert!((900..1100).contains(&heads), "{heads}");
    }

    #[test]
    fn random_ranges_stay_inside_the_object() {
        let mut workload = Workload::simple(String::new(), "/");
        workload.range = RangeChoice::Random { length: 100, size: 1000 };
        let mut chooser = chooser(workload);
        for _ in 0..1000 {
            let request = chooser.choose();
            assert!(request.ranged);
            let (first, last) = request.object.trim_start_matches("/ ").split_once('-').unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            assert!(last < 1000 && last - first == 99, "{}", request.object);
        }
    }

    #[test]
    fn own_fields_replace_the_usual_ones() {
        let mut workload = Workload::simple("a".to_owned(), "/");
        workload.fields = [("user-agent", "me"), ("X", "y")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        workload.range = RangeChoice::Fixed("0-9".to_owned());
        let text = String::from_utf8(chooser(workload).choose().head()).unwrap();
        assert_eq!(text, "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\nuser-agent: me\r\nX: y\r\n\r\n");
    }

    #[test]
    fn a_list_of_urls_must_belong_to_the_target() {
        let target: TargetUrl = "https://a:8443/".parse().unwrap();
        let list = paths("# a comment\n/x\n\nhttps://a:8443/y?z\n", &target).unwrap();
        assert_eq!(list, ["/x", "/y?z"]);
        let said = paths("/x\nhttps://b/y\n", &target).unwrap_err();
        assert_eq!(said, "line 2: https://b/y is not at a:8443");
        assert!(paths("\n", &target).is_err());
    }
}
