//! Scripted clients and a scripted origin, as the bytes of an input say, against a model of what each client may get: no
//! byte of another version, variant or client, an end for every body, and one site for Host, token and origin.

mod client;
mod model;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_config::signing::secret_of_file;
use penstock_config::{HostPattern, HttpOrigin, Origin, SigningKey, Site, TokenRules, Uncached};
use penstock_http::OriginUrl;
use tokio::task::{JoinError, JoinHandle, yield_now};
use tokio::time::advance;

use self::client::Ask;
use self::model::Model;
use super::fixture::{self, Fixture};
use crate::nodes::{PurgeOrder, PurgeTarget};
use crate::site::tokens::makers::{encode, sign};

/// Steps of one input, so that an input takes bounded time.
const STEPS_MAX: usize = 160;
/// Hosts of the sites: with the cache, with signed URLs, without the cache, and one with signed URLs and the servers of the
/// first, which are asked without fields of the client.
pub(super) const HOSTS: [&str; 4] = ["a.example", "b.example", "r.example", "c.example"];
pub(super) const UNCACHED: usize = 2;
pub(super) const FIELDLESS: usize = 3;
/// The origin of each site. Each has two servers.
pub(super) const ORIGINS: [usize; 4] = [0, 1, UNCACHED, 0];
/// Time passes in pieces of at most so many seconds.
pub(super) const PIECE_SECONDS: u64 = 7;
/// Paths of each site.
pub(super) const PATHS: u8 = 3;

/// The bytes that have not chosen anything yet. Without any, each choice is the first.
#[derive(Clone)]
pub(super) struct Choices(Rc<(Vec<u8>, Cell<usize>)>);

impl Choices {
    /// One of so many.
    pub(super) fn of(&self, number: u8) -> u8 {
        let (bytes, at) = &*self.0;
        at.set(at.get() + 1);
        bytes.get(at.get() - 1).map_or(0, |byte| byte % number)
    }

    fn are_left(&self) -> bool {
        self.0.1.get() < self.0.0.len()
    }
}

/// Body of the fuzz target `exchange`: what clients get fits the model. Returns how many requests clients and origin got.
pub fn fuzz_exchange(input: &[u8]) -> usize {
    let choices = Choices(Rc::new((input.to_vec(), Cell::new(0))));
    let steps = Rc::new(Cell::new(0));
    let counted = Rc::clone(&steps);
    fixture::run(async move { counted.set(Exchange::new(choices).run().await) });
    steps.get()
}

struct Exchange {
    fixture: Fixture,
    model: Rc<RefCell<Model>>,
    choices: Choices,
    keys: [Arc<SigningKey>; 2],
    open: Vec<JoinHandle<()>>,
    asked: usize,
}

impl Exchange {
    fn new(choices: Choices) -> Self {
        let keys = ["a secret of a key\n", "the secret of another\n"].map(|text| {
            let secret = secret_of_file(text.into()).unwrap();
            Arc::new(SigningKey::new("one", secret))
        });
        let fixture = Fixture::of_sites(&sites(&keys));
        let model = Rc::new(RefCell::new(Model::new(choices.clone(), fixture.context.clock)));
        let answering = Rc::clone(&model);
        fixture.origin.handle(move |asked| answering.borrow_mut().answer(asked));
        Self { fixture, model, choices, keys, open: Vec::new(), asked: 0 }
    }

    async fn run(mut self) -> usize {
        for _ in 0..STEPS_MAX {
            if !self.choices.are_left() {
                break;
            }
            match self.choices.of(12) {
                0..=5 => self.ask(),
                6 => self.pass_time().await,
                7 => self.model.borrow_mut().publish(),
                8 => self.purge(),
                9 => self.join().await,
                10 => self.leave(),
                _ => {}
            }
            // A few turns of the others, so that steps fall between theirs.
            for _ in 0..self.choices.of(16) {
                yield_now().await;
            }
        }
        self.join().await;
        assert_eq!(self.model.borrow().wrong, Vec::<String>::new());
        self.asked + self.fixture.origin.requests()
    }

    /// In small pieces, so that what is under way goes on meanwhile.
    async fn pass_time(&self) {
        let (pieces, seconds) =
            [(1, 1), (6, 1), (61, 1), (100, PIECE_SECONDS)][usize::from(self.choices.of(4))];
        for _ in 0..pieces {
            advance(Duration::from_secs(seconds)).await;
            for _ in 0..4 {
                yield_now().await;
            }
        }
    }

    async fn join(&mut self) {
        for client in self.open.drain(..) {
            // A panic of a client is a panic of the test.
            if let Err(Ok(panic)) = client.await.map_err(JoinError::try_into_panic) {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// A client leaves before the end of its response.
    fn leave(&self) {
        if !self.open.is_empty() {
            self.open[usize::from(self.choices.of(255)) % self.open.len()].abort();
        }
    }

    /// A client asks, and compares what it gets with the model.
    fn ask(&mut self) {
        self.asked += 1;
        let token = |site: usize, path: &str| {
            let expires = SystemTime::now() + Duration::from_secs(1_000_000);
            encode(&sign(&self.keys[site / FIELDLESS], path, expires).unwrap())
        };
        let ask = Ask::new(&self.choices, &mut self.model.borrow_mut(), token);
        let model = Rc::clone(&self.model);
        let (context, sites) = (Rc::clone(&self.fixture.context), Arc::clone(&self.fixture.sites));
        self.open.push(tokio::task::spawn_local(async move {
            let response = fixture::open_head(&context, &sites, &ask.head, ask.is_early).await;
            let answer = fixture::read(&context, response).await;
            ask.check(&answer, &mut model.borrow_mut());
        }));
    }

    fn purge(&self) {
        let path = self.choices.of(PATHS);
        let soft = self.choices.of(2) == 1;
        let target = PurgeTarget::Url(format!("/p{path}"));
        let now = self.fixture.context.moment();
        self.fixture.store.purge_at(&PurgeOrder { target, soft }, &self.fixture.sites, now).unwrap();
        if !soft {
            self.model.borrow_mut().purged(path);
        }
    }
}

/// Whether the URLs of a site are signed.
pub(super) fn is_signed(site: usize) -> bool {
    matches!(site, 1 | FIELDLESS)
}

fn sites(keys: &[Arc<SigningKey>; 2]) -> [Site; 4] {
    [0, 1, UNCACHED, FIELDLESS].map(|number| {
        let server = |port: u16| {
            let url = format!("http://192.0.2.{}:{port}/", ORIGINS[number] + 1);
            (OriginUrl::parse(&url).unwrap(), 1)
        };
        let mut origin = HttpOrigin::new(vec![server(80), server(8080)]);
        origin.uncached = (number == UNCACHED).then(Uncached::default);
        let site = fixture::site(Origin::Http(Box::new(origin)), |site| {
            let fields = ["accept-language", "authorization"].map(str::to_owned);
            site.cache.vary = fields[..[1, 2, 1, 0][number]].to_vec();
            if is_signed(number) {
                let keys = vec![Arc::clone(&keys[number / FIELDLESS])];
                site.tokens = Some(TokenRules::signed_urls(keys, "token", None));
            }
            if number != 0 {
                site.methods = vec!["POST".to_owned()];
            }
        });
        Site { hosts: vec![HostPattern::Exact(HOSTS[number].to_owned())], ..site }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::fuzz_exchange;

    /// Numbers that look random and are the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn input(&mut self) -> Vec<u8> {
            let mut next = || {
                self.0 ^= self.0 << 13;
                self.0 ^= self.0 >> 7;
                self.0 ^= self.0 << 17;
                self.0.to_le_bytes()[3]
            };
            (0..512).map(|_| next()).collect()
        }
    }

    #[test]
    fn what_clients_get_fits_the_model_whatever_clients_origin_and_purges_do() {
        // A longer run has more inputs, and others: PENSTOCK_TEST_EXCHANGES=100000 PENSTOCK_TEST_EXCHANGES_SEED=2.
        let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
        let mut numbers =
            Numbers(0x9e37_79b9_7f4a_7c15 ^ number("PENSTOCK_TEST_EXCHANGES_SEED").unwrap_or(0));
        let inputs = number("PENSTOCK_TEST_EXCHANGES").unwrap_or(120);
        let steps: usize = (0..inputs).map(|_| fuzz_exchange(&numbers.input())).sum();
        assert!(steps > 2000, "{steps} steps");
        println!("{steps} steps");
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_fit_the_model() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/exchange");
        let mut seeds = 0;
        for entry in fs::read_dir(folder).unwrap() {
            assert!(fuzz_exchange(&fs::read(entry.unwrap().path()).unwrap()) > 0);
            seeds += 1;
        }
        assert!(seeds > 0, "there are no seeds");
    }
}
