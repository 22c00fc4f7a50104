//! The five questions, and what their answers mean.

use std::net::SocketAddr;
use std::path::{Path, PathBuf, absolute};

use penstock_config::{Config, DotFiles, Environment, exposes, limits};
use rustix::fs::statvfs;

use crate::advice::Circumstances;
use crate::arguments::InitArgs;
use crate::failure::Failure;

use super::questions::{Question, Questions};
use super::yaml::{quoted, quoted_path};

/// What a configuration is made of.
pub(super) struct Answers {
    /// The host name of the site.
    pub(super) domain: String,
    pub(super) content: Content,
    pub(super) certificate: CertificateSource,
    /// The address of the admin listener.
    pub(super) admin: Option<SocketAddr>,
}

/// Where the content comes from.
pub(super) enum Content {
    /// Files.
    Directory(PathBuf),
    /// An HTTP server, and the cache for it.
    Origin { url: String, memory: String, disk: Option<DiskTier> },
}

/// A directory of the cache on a disk.
pub(super) struct DiskTier {
    pub(super) directory: PathBuf,
    /// As it was written.
    pub(super) size: String,
}

/// Where the certificate comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CertificateSource {
    /// It is to be made.
    SelfSigned,
    /// PEM files.
    Files { chain: PathBuf, key: PathBuf },
    /// An authority that speaks ACME, with the address for its messages.
    Acme { email: String },
}

/// Asks all questions that no option answers.
pub(super) fn ask(arguments: &InitArgs, questions: Questions) -> Result<Answers, Failure> {
    let domain = domain(arguments, questions)?;
    let content = content(arguments, questions)?;
    let certificate = certificate(arguments, questions, &domain, &content)?;
    let admin = admin(arguments, questions)?;
    Ok(Answers { domain, content, certificate, admin })
}

/// The proposal for "nothing".
const NONE: &str = "none";

fn domain(arguments: &InitArgs, questions: Questions) -> Result<String, Failure> {
    let name = Environment::of_process().host_name.to_ascii_lowercase();
    let known = if host(&name).is_ok() { name } else { "localhost".to_owned() };
    let question = Question {
        text: "1. Domain: the host name that clients use",
        option: "--domain",
        proposal: Some(known),
    };
    questions.ask(&question, arguments.domain.as_deref(), host)
}

/// A host name without wildcards.
fn host(text: &str) -> Result<String, String> {
    if text.contains('*') || text.is_empty() {
        return Err("write one name, such as video.example.com".to_owned());
    }
    accepted("", &format!("hosts: [{}], ", quoted(text)), "directory: /")?;
    Ok(text.to_ascii_lowercase())
}

/// Directories of content on many machines.
const DIRECTORIES: [&str; 3] = ["/srv/video", "/var/www/html", "/srv/www"];

fn content(arguments: &InitArgs, questions: Questions) -> Result<Content, Failure> {
    let found = DIRECTORIES.into_iter().find(|path| Path::new(path).is_dir());
    let question = Question {
        text: "2. Content: a directory, or the URL of an origin",
        option: "--directory or --origin",
        proposal: found.map(str::to_owned),
    };
    let directory = arguments.directory.as_ref().map(|path| path.to_string_lossy().into_owned());
    let given = arguments.origin.as_deref().or(directory.as_deref());
    match questions.ask(&question, given, place)? {
        ContentPlace::Directory(path) => Ok(Content::Directory(path)),
        ContentPlace::Origin(url) => {
            let memory = memory(arguments, questions)?;
            let disk = disk(arguments, questions)?;
            Ok(Content::Origin { url, memory, disk })
        }
    }
}

enum ContentPlace {
    Directory(PathBuf),
    Origin(String),
}

fn place(text: &str) -> Result<ContentPlace, String> {
    if text.contains("://") {
        accepted("", "", &format!("http: [{}]", quoted(text)))?;
        return Ok(ContentPlace::Origin(text.to_owned()));
    }
    if text.is_empty() {
        return Err("write a directory, or a URL such as http://192.0.2.5:8080".to_owned());
    }
    let path = absolute(text).map_err(|error| format!("{text}: {error}"))?;
    accepted("", "", &format!("directory: {}", quoted_path(&path)))?;
    Ok(ContentPlace::Directory(path))
}

fn memory(arguments: &InitArgs, questions: Questions) -> Result<String, Failure> {
    let question = Question {
        text: "3. Cache: the memory that it may take",
        option: "--memory",
        proposal: Some(size_text(proposed_memory())),
    };
    questions.ask(&question, arguments.memory.as_deref(), |text| {
        accepted(&format!("cache: {{memory: {{size: {}}}}}", quoted(text)), "", "directory: /")?;
        Ok(text.to_owned())
    })
}

/// A quarter of what is smallest: the free space of shared memory, the memory of the machine, or what this process may have.
fn proposed_memory() -> u64 {
    let Circumstances { memory_max, memory_total, .. } = Circumstances::read();
    let shared = statvfs("/dev/shm").ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    let most = [shared, memory_max, memory_total].into_iter().flatten().min();
    let least = limits::MEMORY_TIER_SLICES_MIN * u64::from(limits::SLICE_BYTES);
    (most.unwrap_or_default() / 4).max(least)
}

fn disk(arguments: &InitArgs, questions: Questions) -> Result<Option<DiskTier>, Failure> {
    let question = Question {
        text: "   and on a disk: a directory and its size, such as /var/cache/penstock 100GiB, or none",
        option: "--disk",
        proposal: Some(NONE.to_owned()),
    };
    questions.ask(&question, arguments.disk.as_deref(), |text| {
        if text == NONE {
            return Ok(None);
        }
        let (directory, size) =
            text.rsplit_once(' ').ok_or("write a directory, a space and a size; or none")?;
        let directory = absolute(directory.trim()).map_err(|error| format!("{directory}: {error}"))?;
        let shown = quoted_path(&directory);
        let tier = format!("cache: {{disk: [{{directory: {shown}, size: {}}}]}}", quoted(size));
        accepted(&tier, "", "directory: /")?;
        Ok(Some(DiskTier { directory, size: size.to_owned() }))
    })
}

fn certificate(
    arguments: &InitArgs,
    questions: Questions,
    domain: &str,
    content: &Content,
) -> Result<CertificateSource, Failure> {
    let live = PathBuf::from("/etc/letsencrypt/live").join(domain);
    let (chain, key) = (live.join("fullchain.pem"), live.join("privkey.pem"));
    let proposal = match chain.exists() && key.exists() {
        true => format!("{} {}", chain.display(), key.display()),
        false => SELF_SIGNED.to_owned(),
    };
    let text = "4. Certificate: an e-mail address, to get one by ACME and agree to the terms of its authority; self-signed; or \
                the PEM files of a chain and its key";
    let question = Question { text, option: "--certificate", proposal: Some(proposal) };
    questions.ask(&question, arguments.certificate.as_deref(), |text| {
        let source = certificate_source(text)?;
        let key = match &source {
            CertificateSource::SelfSigned => Some(arguments.output.with_file_name(key_name(domain))),
            CertificateSource::Files { key, .. } => Some(key.clone()),
            CertificateSource::Acme { .. } => None,
        };
        key.map_or(Ok(()), |key| is_safe(&key, content, &source))?;
        Ok(source)
    })
}

/// The name of the file with a key that is made for this host name.
pub(super) fn key_name(domain: &str) -> String {
    format!("{domain}.key")
}

/// Whether no client could download a private key.
fn is_safe(key: &Path, content: &Content, source: &CertificateSource) -> Result<(), String> {
    let Content::Directory(directory) = content else { return Ok(()) };
    if !exposes(directory, DotFiles::Deny, key) {
        return Ok(());
    }
    let instead = match source {
        CertificateSource::SelfSigned => "write the configuration to another directory with --output",
        CertificateSource::Files { .. } | CertificateSource::Acme { .. } => "move it elsewhere",
    };
    Err(format!(
        "the private key {} would lie in {}, from where clients can download it; {instead}",
        key.display(),
        directory.display()
    ))
}

/// The answer for a certificate that is to be made.
const SELF_SIGNED: &str = "self-signed";

fn certificate_source(text: &str) -> Result<CertificateSource, String> {
    if text == SELF_SIGNED {
        return Ok(CertificateSource::SelfSigned);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [email] if email.contains('@') => Ok(CertificateSource::Acme { email: email.to_owned() }),
        [chain, key] => {
            let path = |name: &str| absolute(name).map_err(|error| format!("{name}: {error}"));
            let (chain, key) = (path(chain)?, path(key)?);
            let [shown_chain, shown_key] = [&chain, &key].map(|path| quoted_path(path));
            let tls = format!("tls: {{certificates: [{{chain: {shown_chain}, key: {shown_key}}}]}}");
            accepted(&tls, "", "directory: /")?;
            Ok(CertificateSource::Files { chain, key })
        }
        _ => Err(format!("write an e-mail address, {SELF_SIGNED}, or two files with a space between them")),
    }
}

fn admin(arguments: &InitArgs, questions: Questions) -> Result<Option<SocketAddr>, Failure> {
    let question = Question {
        text: "5. Admin: the address of metrics, health and purges, or none",
        option: "--admin",
        proposal: Some(SocketAddr::from(([127, 0, 0, 1], limits::ADMIN_PORT)).to_string()),
    };
    questions.ask(&question, arguments.admin.as_deref(), |text| match text {
        NONE => Ok(None),
        text => {
            accepted(&format!("admin: {{address: {}}}", quoted(text)), "", "directory: /")?;
            text.parse().map(Some).map_err(|_| "write an IP address and a port".to_owned())
        }
    })
}

/// Whether a configuration with this section, these keys of a site and this origin is right; otherwise its first fault.
fn accepted(section: &str, site: &str, origin: &str) -> Result<(), String> {
    let text = format!(
        "listeners: [{{address: 127.0.0.1:0}}]\nsites: [{{{site}origin: {{{origin}}}}}]\n{section}\n"
    );
    let read = Config::from_text(&text, Path::new("/answer"));
    let fault = read.err().and_then(|faults| faults.into_iter().next());
    fault.map_or(Ok(()), |fault| Err(format!("{}; {}", fault.what, fault.instead)))
}

/// A size as it is written, rounded down to MiB or GiB.
fn size_text(bytes: u64) -> String {
    match bytes >> 30 {
        0..4 => format!("{}MiB", bytes >> 20),
        gibibytes => format!("{gibibytes}GiB"),
    }
}
