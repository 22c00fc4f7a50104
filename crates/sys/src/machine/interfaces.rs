//! Network interfaces, and whether they can seal TLS records themselves.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::source::Source;

/// The features as `ethtool -k` shows them.
const SEALS: &[u8] = b"tls-hw-tx-offload";
const SPLITS: &[u8] = b"tx-udp-segmentation";

/// More interfaces are not looked at: a container host has thousands of virtual ones.
const INTERFACES_MAX: usize = 64;

/// A kernel that claims more features is not believed; Linux 6.18 has about 64.
const FEATURES_MAX: u32 = 1024;

/// `ETH_GSTRING_LEN`
const NAME_BYTES: usize = 32;
const ETH_SS_FEATURES: u32 = 4;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The driver of its device; `None` for an interface without a device.
    pub driver: Option<String>,
    /// Its speed in megabits per second, if it has one and it is up.
    pub megabits_per_second: Option<u64>,
    /// Whether its card seals TLS records.
    pub tls_offload: Offload,
    /// Whether its card splits trains of UDP datagrams; without that the kernel does.
    pub udp_segmentation: Offload,
}

/// Whether a card can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// It can, and it is switched on.
    On,
    /// It can, and it is switched off.
    Off,
    /// It cannot.
    Absent,
    /// The kernel did not say.
    Unknown,
}

/// All interfaces with a device.
pub(super) fn read(source: &Source) -> Vec<Interface> {
    let control =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let mut names = source.names("sys/class/net");
    names.retain(|name| source.exists(&format!("sys/class/net/{name}/device")));
    names.truncate(INTERFACES_MAX);
    let ask = |name: &str| {
        let unknown = (Offload::Unknown, Offload::Unknown);
        control.as_ref().map_or(unknown, |control| features_of(control.as_raw_fd(), name).unwrap_or(unknown))
    };
    let describe = |name: String, (tls_offload, udp_segmentation)| Interface {
        driver: source.link_name(&format!("sys/class/net/{name}/device/driver")),
        megabits_per_second: source
            .line(&format!("sys/class/net/{name}/speed"))
            // Drivers say -1, or 2^32-1, when they do not know.
            .and_then(|line| line.parse().ok())
            .filter(|speed| (1..u64::from(u32::MAX)).contains(speed)),
        tls_offload,
        udp_segmentation,
        name,
    };
    let described = |name: String| {
        let features = ask(&name);
        describe(name, features)
    };
    names.into_iter().map(described).collect()
}

/// Asks the driver whether it seals and splits, as `ethtool -k` does.
fn features_of(control: libc::c_int, interface: &str) -> io::Result<(Offload, Offload)> {
    // struct ethtool_sset_info: command, reserved, mask of sets in 64 bits, one length.
    let mut info = words_of(&[ETHTOOL_GSSET_INFO, 0]);
    info.extend_from_slice(&(1_u64 << ETH_SS_FEATURES).to_ne_bytes());
    info.extend_from_slice(&0_u32.to_ne_bytes());
    ask(control, interface, &mut info)?;
    let count = word(&info, 4);
    if count > FEATURES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }

    // struct ethtool_gstrings: command, set, count, names of 32 bytes.
    let mut names = words_of(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count]);
    names.resize(names.len() + count as usize * NAME_BYTES, 0);
    ask(control, interface, &mut names)?;

    // struct ethtool_gfeatures: command, blocks, per block of 32 features four sets of bits.
    let blocks = count.div_ceil(32);
    let mut features = words_of(&[ETHTOOL_GFEATURES, blocks]);
    features.resize(features.len() + blocks as usize * 16, 0);
    ask(control, interface, &mut features)?;
    let names = names.get(12..).unwrap_or_default();
    Ok((feature_state(SEALS, names, &features), feature_state(SPLITS, names, &features)))
}

/// Finds a feature among the names, and its bits among the features.
fn feature_state(feature: &[u8], names: &[u8], features: &[u8]) -> Offload {
    let is_ours = |name: &[u8]| {
        name.strip_prefix(feature).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == 0))
    };
    let Some(index) = names.chunks(NAME_BYTES).position(is_ours) else { return Offload::Absent };
    let (block, bit) = (index / 32, index % 32);
    let is_set = |set: usize| word(features, 2 + block * 4 + set) >> bit & 1 == 1;
    // The sets are: available, requested, active, never changed.
    match (is_set(0), is_set(2)) {
        (_, true) => Offload::On,
        (true, false) => Offload::Off,
        (false, false) => Offload::Absent,
    }
}

/// One `SIOCETHTOOL`. `buffer` starts with the command and is as long as the kernel will write.
fn ask(control: libc::c_int, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays zero.
    let short =
        name.get_mut(..interface.len().min(libc::IFNAMSIZ)).filter(|short| short.len() < libc::IFNAMSIZ);
    let short = short.ok_or(io::ErrorKind::InvalidInput)?;
    for (to, from) in short.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: buffer.as_mut_ptr().cast::<libc::c_char>() },
    };
    // SAFETY: `request` and `buffer` live through the call, and the buffer is as long as what the kernel writes:
    // one length for the sets, the names of all features (their number is a constant of the running kernel, which
    // the first call told), and no more blocks of features than the buffer announces.
    let result = unsafe { libc::ioctl(control, libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn words_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The 32-bit word at `index`, 0 behind the end.
fn word(bytes: &[u8], index: usize) -> u32 {
    let four = bytes.get(index * 4..index * 4 + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<u8> {
        names
            .iter()
            .flat_map(|name| {
                let mut bytes = name.as_bytes().to_vec();
                bytes.resize(NAME_BYTES, 0);
                bytes
            })
            .collect()
    }

    #[test]
    fn the_offload_is_found_by_name_beyond_the_first_32_features() {
        let mut list = vec!["other"; 40];
        list[33] = "tls-hw-tx-offload";
        list[34] = "tls-hw-rx-offload";
        let state = |available: u32, active: u32| {
            feature_state(SEALS, &names(&list), &words_of(&[0, 2, !0, 0, !0, 0, available, 0, active, 0]))
        };
        assert_eq!(state(0b10, 0b10), Offload::On);
        assert_eq!(state(0b10, 0b101), Offload::Off);
        assert_eq!(state(0b101, 0b101), Offload::Absent);
    }

    #[test]
    fn a_card_without_the_feature_or_with_a_longer_name_cannot_seal() {
        assert_eq!(feature_state(SEALS, &names(&["rx-checksum"]), &[]), Offload::Absent);
        assert_eq!(feature_state(SEALS, &names(&["tls-hw-tx-offload-too"]), &[0xff; 64]), Offload::Absent);
        assert_eq!(feature_state(SEALS, &[], &[]), Offload::Absent);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let control =
            rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        assert!(features_of(control.as_raw_fd(), "nosuch0").is_err());
        assert!(features_of(control.as_raw_fd(), "a-name-longer-than-the-kernel-allows").is_err());
    }

    #[test]
    fn loopback_has_no_card() {
        let control =
            rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        // Drivers of software interfaces may or may not answer; they never seal.
        if let Ok((state, _)) = features_of(control.as_raw_fd(), "lo") {
            assert_ne!(state, Offload::On);
        }
    }
}
