//! Order of key exchange groups for a client whose key shares miss the preferred group.

use crate::settings::Group;

/// The order of groups for a client whose key shares miss the preferred group; `None` if the default order fits.
///
/// The library takes the first of our groups that the client knows, and if there is no key share for it asks for one
/// (RFC 8446 §4.1.4): a round trip, and for a phone on a mobile network easily 100 ms. Groups for which there is a
/// share therefore come first, in our order. `supported_groups` and `key_share` are the bodies of these extensions.
pub(crate) fn sparing_a_round_trip(
    ours: &[Group],
    supported_groups: Option<&[u8]>,
    key_share: Option<&[u8]>,
) -> Option<Vec<Group>> {
    let supported: Vec<u16> = supported_groups
        .and_then(|body| body.get(2..))
        .unwrap_or_default()
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let shares: Vec<u16> = Shares(key_share.and_then(|body| body.get(2..)).unwrap_or_default()).collect();
    let has_share = |group: &Group| shares.contains(&group.number()) && supported.contains(&group.number());
    let best = ours.iter().find(|group| supported.contains(&group.number()))?;
    if has_share(best) || !ours.iter().any(has_share) {
        return None;
    }
    let (shared, others): (Vec<Group>, Vec<Group>) = ours.iter().partition(|group| has_share(group));
    Some([shared, others].concat())
}

/// The names of groups as the library takes them.
pub(crate) fn names(groups: &[Group]) -> String {
    groups.iter().map(|group| group.name()).collect::<Vec<_>>().join(":")
}

/// The groups of a list of key shares: group, length, key.
struct Shares<'b>(&'b [u8]);

impl Iterator for Shares<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let (&[a, b, c, d], rest) = self.0.split_first_chunk()?;
        self.0 = rest.get(usize::from(u16::from_be_bytes([c, d]))..)?;
        Some(u16::from_be_bytes([a, b]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [Group; 3] = [Group::X25519MlKem768, Group::X25519, Group::P256];
    const KEM: u16 = 0x11ec;
    const X25519: u16 = 0x1d;
    const P256: u16 = 0x17;
    const P384: u16 = 0x18;

    fn list(entries: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        let inside: Vec<u8> = entries.into_iter().flatten().collect();
        let length = u16::try_from(inside.len()).unwrap().to_be_bytes();
        [length.to_vec(), inside].concat()
    }

    fn order(supported: &[u16], shares: &[u16]) -> Option<Vec<u16>> {
        let supported = list(supported.iter().map(|group| group.to_be_bytes().to_vec()));
        let share = |group: &u16| [group.to_be_bytes().to_vec(), vec![0, 3, 7, 7, 7]].concat();
        let shares = list(shares.iter().map(share));
        let order = sparing_a_round_trip(&OURS, Some(&supported), Some(&shares))?;
        Some(order.into_iter().map(Group::number).collect())
    }

    #[test]
    fn a_share_that_will_do_is_taken() {
        assert_eq!(order(&[KEM, X25519, P256], &[X25519]), Some(vec![X25519, KEM, P256]));
        assert_eq!(order(&[X25519, P256, P384], &[0x0a0a, P256]), Some(vec![P256, KEM, X25519]));
        assert_eq!(order(&[KEM, X25519, P256], &[P256, X25519]), Some(vec![X25519, P256, KEM]));
    }

    #[test]
    fn the_usual_order_stands_where_the_guess_is_right_or_nothing_helps() {
        for (supported, shares) in [
            (&[KEM, X25519][..], &[KEM, X25519][..]),
            (&[X25519, P256], &[X25519]),
            (&[X25519, P384], &[P384]),
            (&[KEM, X25519], &[]),
            (&[P384], &[P384]),
            // A share of a group that it does not list breaks the rules (RFC 8446 §4.2.8).
            (&[KEM, X25519], &[P256]),
        ] {
            assert_eq!(order(supported, shares), None, "{supported:04x?} {shares:04x?}");
        }
    }

    #[test]
    fn broken_extensions_change_nothing() {
        assert_eq!(sparing_a_round_trip(&OURS, None, None), None);
        let supported = [0, 4, 0x11, 0xec, 0, 0x1d];
        for share in [&[][..], &[0], &[0, 9, 0, 0x1d], &[0, 9, 0, 0x1d, 0xff, 0xff, 1], &[0, 9, 0, 0x1d, 0]] {
            assert_eq!(sparing_a_round_trip(&OURS, Some(&supported), Some(share)), None, "{share:?}");
        }
    }
}
