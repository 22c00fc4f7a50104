//! Answers to the challenges of an authority (RFC 8555 section 8, RFC 8737).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{ChallengeType, KeyAuthorization};
use penstock_config::{Acme, AcmeChallenge, limits};

use crate::failure::Failure;
use crate::self_signed;
use crate::shared::SharedStorage;
use crate::status::OrderOutcome;

/// The kind of challenge that the configuration chooses.
pub(crate) fn kind(settings: &Acme) -> ChallengeType {
    match settings.challenge {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns01(_) => ChallengeType::Dns01,
    }
}

/// An answer that the authority can find until this is dropped.
pub(crate) enum ChallengeAnswer {
    File(PathBuf),
    Record { command: PathBuf, name: String, value: String },
}

impl ChallengeAnswer {
    /// Presents the answer to a challenge for a name, which is without `*.`.
    pub(crate) async fn present(
        settings: &Acme,
        storage: &SharedStorage,
        name: &str,
        token: &str,
        authorization: &KeyAuthorization,
    ) -> Result<Self, Failure> {
        match &settings.challenge {
            AcmeChallenge::Http01 => {
                let path = settings.http_answer(token).ok_or_else(|| {
                    Failure::new(
                        OrderOutcome::Unavailable,
                        "the CA's token is not one (RFC 8555 section 8.3)",
                    )
                })?;
                storage.set_answer(&path, authorization.as_str().as_bytes()).await?;
                Ok(Self::File(path))
            }
            AcmeChallenge::TlsAlpn01 => {
                let pem = self_signed::challenge(name, authorization.digest().as_ref(), SystemTime::now())?;
                let path = settings.tls_answer(name);
                storage.set_answer(&path, pem.as_bytes()).await?;
                Ok(Self::File(path))
            }
            AcmeChallenge::Dns01(command) => {
                let name = format!("_acme-challenge.{name}");
                let value = authorization.dns_value();
                run(command, "present", &name, &value).await?;
                Ok(Self::Record { command: command.clone(), name, value })
            }
        }
    }
}

impl Drop for ChallengeAnswer {
    fn drop(&mut self) {
        match self {
            // One that stays is removed before a later order.
            Self::File(path) => drop(fs::remove_file(path)),
            Self::Record { command, name, value } => match start(command, "cleanup", name, value) {
                Ok(child) => reap(child),
                Err(error) => tracing::warn!("acme: cannot run {} cleanup: {error}", command.display()),
            },
        }
    }
}

fn start(command: &Path, action: &str, name: &str, value: &str) -> std::io::Result<Child> {
    Command::new(command)
        .args([action, name, value])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
}

/// Waits for the end of a command on a thread of its own.
fn reap(mut child: Child) {
    let wait = move || {
        let until = Instant::now() + Duration::from_secs(limits::ACME_COMMAND_SECONDS);
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _killed = child.kill();
            }
            std::thread::sleep(limits::ACME_COMMAND_CHECK);
        }
    };
    // Without space for a thread the command is not waited for.
    drop(std::thread::Builder::new().name("acme-cleanup".into()).spawn(wait));
}

/// Runs the command and waits for its success.
async fn run(command: &Path, action: &str, name: &str, value: &str) -> Result<(), Failure> {
    let fault = |what: String| {
        Failure::new(OrderOutcome::Local, format_args!("{} {action}: {what}", command.display()))
    };
    let mut child = start(command, action, name, value).map_err(|error| fault(error.to_string()))?;
    let until = Instant::now() + Duration::from_secs(limits::ACME_COMMAND_SECONDS);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(fault(format!("ended with {status}"))),
            Ok(None) if Instant::now() < until => tokio::time::sleep(limits::ACME_COMMAND_CHECK).await,
            Ok(None) => {
                let _killed = child.kill();
                reap(child);
                return Err(fault(format!("had not ended after {} s", limits::ACME_COMMAND_SECONDS)));
            }
            Err(error) => return Err(fault(error.to_string())),
        }
    }
}
