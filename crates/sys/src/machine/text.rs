//! Parsers of what the kernel writes: pure, and without a panic whatever it is.

use std::fmt;

use super::source::printable;

/// How a part of the kernel was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `y`
    BuiltIn,
    /// `m`
    Module,
    /// Not set.
    Off,
}

/// The first two numbers of a kernel's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl KernelVersion {
    /// `6.14` of `6.14.0-rc2+`.
    #[must_use]
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|character: char| !character.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The word in brackets of `always [madvise] never`.
#[must_use]
pub fn chosen(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    (!word.is_empty()).then_some(word)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub(super) fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The model of the first processor in `/proc/cpuinfo`; ARM kernels tell numbers instead of a name.
pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted).then(|| printable(value)).flatten()
        })
    };
    if let Some(model) = value("model name") {
        return Some(model);
    }
    let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
    Some(format!("implementer {implementer}, part {part}"))
}

/// A setting in a kernel's configuration; `None` if there is no word about it.
pub(super) fn kernel_setting(config: &str, name: &str) -> Option<Setting> {
    config.lines().find_map(|line| {
        if let Some(rest) = line.strip_prefix(name) {
            return match rest.strip_prefix('=')? {
                "y" => Some(Setting::BuiltIn),
                "m" => Some(Setting::Module),
                "n" => Some(Setting::Off),
                _ => None,
            };
        }
        let off = line.strip_prefix("# ")?.strip_suffix(" is not set")?;
        (off == name).then_some(Setting::Off)
    })
}

/// The file of a module in `modules.dep` (`kernel/net/tls/tls.ko.xz: ...`) or `modules.builtin`.
pub(super) fn module_file<'a>(list: &'a str, stem: &str) -> Option<&'a str> {
    list.lines().map(|line| line.split(':').next().unwrap_or(line)).find(|path| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.strip_prefix(stem).is_some_and(|rest| rest == ".ko" || rest.starts_with(".ko."))
    })
}

/// The driver of the highest priority that `/proc/crypto` lists for an algorithm.
pub(super) fn crypto_driver(crypto: &str, algorithm: &str) -> Option<String> {
    let mut best: Option<(i64, String)> = None;
    for block in crypto.split("\n\n") {
        let value = |wanted: &str| {
            block.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == wanted).then_some(value.trim())
            })
        };
        if value("name") != Some(algorithm) {
            continue;
        }
        let priority = value("priority").and_then(|text| text.parse().ok()).unwrap_or(0);
        let driver = value("driver").and_then(printable);
        if let Some(driver) = driver
            && best.as_ref().is_none_or(|(highest, _)| priority > *highest)
        {
            best = Some((priority, driver));
        }
    }
    best.map(|(_, driver)| driver)
}

/// Numbers separated by blanks; `None` if there are more or fewer than asked for.
pub(super) fn numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// Words separated by blanks, each fit to be printed.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().filter_map(printable).collect()
}
