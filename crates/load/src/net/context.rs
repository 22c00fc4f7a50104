//! TLS contexts from a plan. Errors name the option that is wrong.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::ssl::{
    SslContext, SslContextBuilder, SslFiletype, SslMethod, SslOptions, SslSessionCacheMode, SslVerifyMode,
    SslVersion,
};
use penstock_sys::ssl;

use super::sessions::SessionPool;
use crate::plan::{OfferedVersion, Resume, TlsPlan};

/// Builds a context for all connections of a thread. New sessions go into `sessions`.
pub(super) fn build(tls: &TlsPlan, sessions: &Arc<SessionPool>) -> Result<SslContext, String> {
    Ok(builder(tls, sessions)?.build())
}

/// The context, for QUIC, which keeps sessions by itself.
pub(super) fn builder(tls: &TlsPlan, sessions: &Arc<SessionPool>) -> Result<SslContextBuilder, String> {
    let mut context = SslContext::builder(SslMethod::tls()).map_err(failed("start TLS"))?;
    set_versions(&mut context, tls)?;
    set_algorithms(&mut context, tls)?;
    set_certificates(&mut context, tls)?;
    if !tls.alpn.is_empty() {
        context.set_alpn_protos(&wire_names(&tls.alpn)?).map_err(failed("use --alpn"))?;
    }
    match tls.resume {
        Resume::None => {
            context.set_session_cache_mode(SslSessionCacheMode::OFF);
        }
        Resume::Ticket | Resume::Id | Resume::EarlyData => {
            context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
            let sessions = Arc::clone(sessions);
            context.set_new_session_callback(move |_, session| sessions.put(session));
        }
    }
    ssl::observe_messages(&mut context);
    Ok(context)
}

fn set_versions(context: &mut SslContextBuilder, tls: &TlsPlan) -> Result<(), String> {
    let (min, max) = match (tls.version, tls.resume) {
        (Some(OfferedVersion::Tls13), Resume::Id) => {
            return Err("TLS 1.3 has no session IDs: write --resume ticket, or --tls 1.2".to_owned());
        }
        (Some(OfferedVersion::Tls12), Resume::EarlyData) => {
            return Err("TLS 1.2 has no early data: write --tls 1.3".to_owned());
        }
        _ if tls.no_tickets && matches!(tls.resume, Resume::Ticket | Resume::EarlyData) => {
            return Err("--no-tickets leaves nothing to resume by: write --resume id".to_owned());
        }
        (Some(OfferedVersion::Tls12), _) | (None, Resume::Id) => (SslVersion::TLS1_2, SslVersion::TLS1_2),
        (Some(OfferedVersion::Tls13), _) | (None, Resume::EarlyData) => {
            (SslVersion::TLS1_3, SslVersion::TLS1_3)
        }
        (None, _) => (SslVersion::TLS1_2, SslVersion::TLS1_3),
    };
    context.set_min_proto_version(Some(min)).map_err(failed("use --tls"))?;
    context.set_max_proto_version(Some(max)).map_err(failed("use --tls"))?;
    if tls.resume == Resume::Id || tls.no_tickets {
        context.set_options(SslOptions::NO_TICKET);
    }
    Ok(())
}

/// Suites of TLS 1.3 with their numbers in the IANA registry.
const SUITES: [(&str, u16); 3] = [
    ("TLS_AES_128_GCM_SHA256", 0x1301),
    ("TLS_AES_256_GCM_SHA384", 0x1302),
    ("TLS_CHACHA20_POLY1305_SHA256", 0x1303),
];

fn set_algorithms(context: &mut SslContextBuilder, tls: &TlsPlan) -> Result<(), String> {
    let number = |name: &String| SUITES.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
    let suites: Vec<u16> = tls.ciphers.iter().filter_map(number).collect();
    if !suites.is_empty() {
        ssl::set_tls13_suites_of_context(context, &suites).map_err(failed("use --cipher"))?;
    }
    let older: Vec<&str> =
        tls.ciphers.iter().filter(|name| number(name).is_none()).map(String::as_str).collect();
    if !older.is_empty() {
        let list = CString::new(older.join(":")).map_err(|_| "--cipher has a NUL in it".to_owned())?;
        ssl::set_tls12_suites_of_context(context, &list).map_err(|_| {
            format!(
                "--cipher: `{}` is unknown; write a name such as ECDHE-ECDSA-AES128-GCM-SHA256 or \
                 TLS_AES_128_GCM_SHA256",
                older.join(":")
            )
        })?;
    }
    if !tls.groups.is_empty() {
        let list = tls.groups.join(":");
        let unknown =
            |_| format!("--group: `{list}` is unknown; write X25519, P-256, P-384 or X25519MLKEM768");
        context.set_curves_list(&list).map_err(unknown)?;
    }
    if !tls.signature_algorithms.is_empty() {
        let list = tls.signature_algorithms.join(":");
        let unknown = |_| {
            format!(
                "--signature-algorithm: `{list}` is unknown; write ECDSA+SHA256, RSA-PSS+SHA256, RSA+SHA256 or their like"
            )
        };
        context.set_sigalgs_list(&list).map_err(unknown)?;
    }
    Ok(())
}

fn set_certificates(context: &mut SslContextBuilder, tls: &TlsPlan) -> Result<(), String> {
    if tls.insecure {
        context.set_verify(SslVerifyMode::NONE);
    } else {
        context.set_verify(SslVerifyMode::PEER);
        // Without authorities on this machine, verification rejects all certificates and says so.
        drop(context.set_default_verify_paths());
        if let Some(file) = &tls.authorities {
            context.set_ca_file(file).map_err(unreadable("--ca", file))?;
        }
    }
    if let Some((chain, key)) = &tls.client_certificate {
        context.set_certificate_chain_file(chain).map_err(unreadable("--client-certificate", chain))?;
        context.set_private_key_file(key, SslFiletype::PEM).map_err(unreadable("--client-key", key))?;
        context
            .check_private_key()
            .map_err(|_| "--client-key is not the key of --client-certificate".to_owned())?;
    }
    Ok(())
}

fn unreadable<'a>(option: &'a str, file: &'a Path) -> impl FnOnce(ErrorStack) -> String + 'a {
    move |error| format!("{option}: cannot use {}: {error}", file.display())
}

fn failed(what: &str) -> impl FnOnce(ErrorStack) -> String {
    move |error| format!("cannot {what}: {error}")
}

/// Encodes names with their lengths (RFC 7301 §3.1).
fn wire_names(names: &[String]) -> Result<Vec<u8>, String> {
    let mut wire = Vec::new();
    for name in names {
        let length = u8::try_from(name.len()).ok().filter(|length| *length > 0);
        wire.push(length.ok_or("--alpn: a name has 1 to 255 bytes, such as http/1.1")?);
        wire.extend_from_slice(name.as_bytes());
    }
    Ok(wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut TlsPlan)) -> String {
        let mut tls = TlsPlan { insecure: true, ..TlsPlan::default() };
        change(&mut tls);
        build(&tls, &Arc::default()).err().unwrap_or_default()
    }

    #[test]
    fn names_unknown_to_the_library_are_reported_with_their_option() {
        assert_eq!(fault(|_| ()), "");
        assert!(fault(|tls| tls.ciphers = vec!["RC5".to_owned()]).starts_with("--cipher: `RC5` is unknown"));
        assert!(fault(|tls| tls.groups = vec!["P-1".to_owned()]).starts_with("--group: `P-1`"));
        assert!(fault(|tls| tls.signature_algorithms = vec!["X".to_owned()]).contains("ECDSA+SHA256"));
        assert!(fault(|tls| tls.alpn = vec![String::new()]).starts_with("--alpn"));
        assert!(
            fault(|tls| tls.authorities = Some("/none".into())).is_empty(),
            "insecure needs no authority"
        );
        let missing = |tls: &mut TlsPlan| tls.client_certificate = Some(("/none".into(), "/none".into()));
        assert!(fault(missing).starts_with("--client-certificate: cannot use /none"));
    }

    #[test]
    fn versions_and_ways_to_resume_must_fit() {
        let both = |version, resume| {
            fault(|tls| {
                tls.version = Some(version);
                tls.resume = resume;
            })
        };
        assert!(both(OfferedVersion::Tls13, Resume::Id).contains("no session IDs"));
        assert!(both(OfferedVersion::Tls12, Resume::EarlyData).contains("no early data"));
        assert_eq!(both(OfferedVersion::Tls12, Resume::Id), "");
        assert_eq!(both(OfferedVersion::Tls13, Resume::Ticket), "");
        let without_tickets = |resume| {
            fault(|tls| {
                tls.no_tickets = true;
                tls.resume = resume;
            })
        };
        assert!(without_tickets(Resume::Ticket).contains("--resume id"));
        assert_eq!(without_tickets(Resume::Id), "");
    }

    #[test]
    fn suites_of_both_versions_can_be_mixed() {
        let names = ["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256"].map(str::to_owned);
        assert_eq!(fault(|tls| tls.ciphers = names.to_vec()), "");
    }
}
