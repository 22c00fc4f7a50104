//! The private keys of a configuration that are elsewhere.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use penstock_config::{KeyserverAccess, RemoteKeyPlace, Tls, TokenAccess, limits};
use penstock_keys::{
    KeyserverAddress, KeyserverGroup, KeyserverLimits, Keyservers, SignerCounts, Token, TokenLimits,
};
use penstock_tls::remote_key::{RemoteKey, RemoteKeyError};
use penstock_tls::trial_request;
use tokio::runtime::Builder;
use tokio::spawn;

use crate::metrics::{RemoteKeysReading, SignerStatus};

/// The groups of keyservers and the tokens of a configuration, each with its connections or sessions.
#[derive(Debug, Default)]
pub(crate) struct RemoteKeys {
    groups: Vec<(Arc<KeyserverAccess>, Arc<Keyservers>)>,
    tokens: Vec<(Arc<TokenAccess>, Arc<Token>)>,
    /// Of all configurations of this process.
    counts: Arc<SignerCounts>,
}

impl RemoteKeys {
    /// Connects to the keyservers and opens the tokens of a configuration. Those that `previous` has stay as they are.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(tls: &Tls, previous: Option<&Self>) -> io::Result<Self> {
        let counts = previous.map(|previous| Arc::clone(&previous.counts)).unwrap_or_default();
        let mut keys = Self { counts, ..Self::default() };
        for place in tls.certificates.iter().filter_map(|one| one.remote.as_ref()) {
            match place {
                RemoteKeyPlace::Keyserver(access) if keys.group(access).is_none() => {
                    bounded("groups of keyservers", keys.groups.len(), limits::KEYSERVER_GROUPS_MAX)?;
                    let group = match previous.and_then(|previous| previous.group(access)) {
                        Some(group) => Arc::clone(group),
                        None => Keyservers::start(&group_of(access), &keys.counts)?,
                    };
                    keys.groups.push((Arc::clone(access), group));
                }
                RemoteKeyPlace::Token(access) if keys.token(access).is_none() => {
                    bounded("tokens", keys.tokens.len(), limits::TOKENS_MAX)?;
                    let token = match previous.and_then(|previous| previous.token(access)) {
                        Some(token) => Arc::clone(token),
                        None => Token::start(&access.uri, token_limits(access), &keys.counts)?,
                    };
                    keys.tokens.push((Arc::clone(access), token));
                }
                RemoteKeyPlace::Keyserver(_) | RemoteKeyPlace::Token(_) => {}
            }
        }
        Ok(keys)
    }

    /// What signs for a key at this place.
    pub(crate) fn at(&self, place: &RemoteKeyPlace) -> Option<Arc<dyn RemoteKey>> {
        match place {
            RemoteKeyPlace::Keyserver(access) => {
                self.group(access).map(|group| Arc::clone(group) as Arc<dyn RemoteKey>)
            }
            RemoteKeyPlace::Token(access) => {
                self.token(access).map(|token| token.key(&access.uri.key) as Arc<dyn RemoteKey>)
            }
        }
    }

    /// The state of each server and token; `None` if no certificate has its key elsewhere. One of several groups is up if it
    /// is up for all of them.
    pub(crate) fn reading(&self) -> Option<RemoteKeysReading> {
        if self.groups.is_empty() && self.tokens.is_empty() {
            return None;
        }
        let groups = self.groups.iter().map(|(_, group)| group);
        let tokens: Vec<SignerStatus> = self.tokens.iter().map(|(_, token)| token.status()).collect();
        Some(RemoteKeysReading {
            fallbacks: self.counts.fallbacks(),
            under_way: groups.clone().map(|group| group.under_way() as u64).sum::<u64>()
                + tokens.iter().map(|token| token.under_way).sum::<u64>(),
            keyservers: by_name(groups.flat_map(|group| group.status())),
            tokens: by_name(tokens.into_iter()),
        })
    }

    fn token(&self, access: &TokenAccess) -> Option<&Arc<Token>> {
        self.tokens.iter().find(|(known, _)| known.is_same_token(access)).map(|(_, token)| token)
    }

    fn group(&self, access: &KeyserverAccess) -> Option<&Arc<Keyservers>> {
        self.groups.iter().find(|(known, _)| known.is_same(access)).map(|(_, group)| group)
    }
}

fn bounded(what: &str, count: usize, most: usize) -> io::Result<()> {
    if count < most { Ok(()) } else { Err(io::Error::other(format!("there are more than {most} {what}"))) }
}

/// One reading for each name. Those of one name share their counts.
fn by_name(all: impl Iterator<Item = SignerStatus>) -> Vec<SignerStatus> {
    let mut readings: BTreeMap<String, SignerStatus> = BTreeMap::new();
    for seen in all {
        match readings.get_mut(&seen.name) {
            None => drop(readings.insert(seen.name.clone(), seen)),
            Some(reading) => {
                reading.up &= seen.up;
                reading.circuit_open |= seen.circuit_open;
                reading.under_way += seen.under_way;
                reading.certificate_end = reading.certificate_end.or(seen.certificate_end);
            }
        }
    }
    readings.into_values().collect()
}

fn group_of(access: &KeyserverAccess) -> KeyserverGroup {
    let address = |(host, port): &(String, u16)| KeyserverAddress { host: host.clone(), port: *port };
    KeyserverGroup {
        servers: access.servers.iter().map(address).collect(),
        authorities: access.authorities.clone(),
        certificate: Arc::clone(&access.certificate),
        limits: KeyserverLimits {
            deadline: access.deadline,
            operations: limits::KEYSERVER_OPERATIONS,
            connect: Duration::from_secs(limits::KEYSERVER_CONNECT_SECONDS),
            ping: Duration::from_secs(limits::KEYSERVER_PING_SECONDS),
            reconnect_min: Duration::from_millis(limits::KEYSERVER_RECONNECT_MILLISECONDS_MIN),
            reconnect_max: Duration::from_millis(limits::KEYSERVER_RECONNECT_MILLISECONDS_MAX),
            circuit_failures: limits::KEYSERVER_CIRCUIT_FAILURES,
            circuit_open: Duration::from_secs(limits::KEYSERVER_CIRCUIT_SECONDS),
        },
    }
}

fn token_limits(access: &TokenAccess) -> TokenLimits {
    TokenLimits {
        deadline: access.deadline,
        operations: limits::TOKEN_OPERATIONS,
        sessions: limits::TOKEN_SESSIONS,
        reopen_min: Duration::from_millis(limits::TOKEN_REOPEN_MILLISECONDS_MIN),
        reopen_max: Duration::from_millis(limits::TOKEN_REOPEN_MILLISECONDS_MAX),
        circuit_failures: limits::KEYSERVER_CIRCUIT_FAILURES,
        circuit_open: Duration::from_secs(limits::KEYSERVER_CIRCUIT_SECONDS),
        look: Duration::from_secs(limits::TOKEN_KEYS_LOOK_SECONDS),
    }
}

/// What came of one signature by a keyserver or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeyCheck {
    /// `keyserver HOST:PORT` or `token LABEL`.
    pub signer: String,
    /// The first name of the certificate.
    pub certificate: String,
    /// How long a signature took; otherwise why there is none.
    pub signed: Result<Duration, String>,
    /// The end of the keyserver's own certificate; `None` for a token, and without a connection.
    pub certificate_end: Option<SystemTime>,
}

/// Has each keyserver and each token sign once for each certificate of a configuration, all at the same time. Blocks for
/// the deadlines of these keys at most twice.
///
/// # Errors
/// The error of the system.
pub fn check_remote_keys(tls: &Tls) -> io::Result<Vec<RemoteKeyCheck>> {
    let mut begun = Vec::new();
    for certificate in
        tls.certificates.iter().filter(|one| one.remote.is_some()).take(limits::REMOTE_KEY_CHECKS)
    {
        let Some(request) = trial_request(&certificate.certificate) else { continue };
        match &certificate.remote {
            Some(RemoteKeyPlace::Keyserver(access)) => {
                let group = group_of(access);
                for server in &group.servers {
                    let alone = KeyserverGroup { servers: vec![server.clone()], ..group.clone() };
                    let signer = Keyservers::start(&alone, &SignerCounts::default())?;
                    let end = Arc::clone(&signer);
                    let name = format!("keyserver {server}");
                    begun.push((name, certificate, request.clone(), signer as Arc<dyn RemoteKey>, Some(end)));
                }
            }
            Some(RemoteKeyPlace::Token(access)) => {
                let token = Token::start(&access.uri, token_limits(access), &SignerCounts::default())?;
                let signer = token.key(&access.uri.key) as Arc<dyn RemoteKey>;
                begun.push((format!("token {}", access.uri.token), certificate, request, signer, None));
            }
            None => {}
        }
    }
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        // The first signature includes the connection, the second shows the latency.
        let first: Vec<_> =
            begun.iter().map(|(.., request, signer, _)| spawn(signer.sign(request.clone()))).collect();
        let mut checks = Vec::new();
        for ((signer, certificate, request, remote, keyservers), first) in begun.iter().zip(first) {
            let mut signed = first.await.unwrap_or(Err(RemoteKeyError::Unavailable)).map(|_| Duration::ZERO);
            if signed.is_ok() {
                let started = Instant::now();
                signed = remote.sign(request.clone()).await.map(|_| started.elapsed());
            }
            let status = keyservers.as_ref().and_then(|group| group.status().pop());
            checks.push(RemoteKeyCheck {
                signer: signer.clone(),
                certificate: certificate.certificate.names().first().cloned().unwrap_or_default(),
                signed: signed.map_err(|error| error.to_string()),
                certificate_end: status.and_then(|status| status.certificate_end),
            });
        }
        Ok(checks)
    })
}
