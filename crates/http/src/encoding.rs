//! Choice of a content coding (RFC 9110 §12.5.3).

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As it is: no Content-Encoding field.
    Identity,
    /// gzip (RFC 1952)
    Gzip,
    /// br (RFC 7932)
    Brotli,
}

impl Encoding {
    /// The name in Accept-Encoding and Content-Encoding.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }
}

/// Chooses the coding with the highest weight among `offered` and identity. Between equals the earlier one offered
/// wins, and identity comes last.
///
/// Without a field, and where the client refuses everything there is, the answer is identity: a
/// manifest that may play is better than a 406 that cannot.
pub fn negotiate(accept_encoding: Option<&str>, offered: &[Encoding]) -> Encoding {
    let Some(accepted) = accept_encoding else { return Encoding::Identity };
    let weight_of = |coding: Encoding| weight_of(accepted.split(','), coding.token());
    let mut best = (Encoding::Identity, weight_of(Encoding::Identity));
    // Later ones first, so that on a tie the earlier one overwrites.
    for &coding in offered.iter().rev() {
        let weight = weight_of(coding);
        if weight > 0 && weight >= best.1 {
            best = (coding, weight);
        }
    }
    best.0
}

/// Whether the elements of Accept-Encoding allow a coding, named in lower case (RFC 9110 §12.5.3).
pub(crate) fn accepts<'e>(elements: impl Iterator<Item = &'e str>, coding: &str) -> bool {
    weight_of(elements, coding) > 0
}

/// The weight of a coding in thousandths; 0 refuses it.
fn weight_of<'e>(elements: impl Iterator<Item = &'e str>, coding: &str) -> u16 {
    let mut wildcard = None;
    for element in elements {
        let (token, parameter) = match element.split_once(';') {
            Some((token, parameter)) => (token.trim_ascii(), Some(parameter)),
            None => (element.trim_ascii(), None),
        };
        // RFC 9110 §8.4.1.3.
        let token = if token.eq_ignore_ascii_case("x-gzip") { "gzip" } else { token };
        if token.eq_ignore_ascii_case(coding) {
            return weight(parameter);
        }
        if token == "*" {
            wildcard.get_or_insert_with(|| weight(parameter));
        }
    }
    match (coding, wildcard) {
        // Identity is acceptable unless refused (§12.5.3), with the lowest weight.
        ("identity", Some(0)) => 0,
        ("identity", _) => 1,
        (_, wildcard) => wildcard.unwrap_or(0),
    }
}

/// A weight in thousandths (RFC 9110 §12.4.2). A malformed one refuses.
fn weight(parameter: Option<&str>) -> u16 {
    let Some(parameter) = parameter else { return 1000 };
    let Some((name, value)) = parameter.split_once('=') else { return 0 };
    if !name.trim_ascii().eq_ignore_ascii_case("q") {
        return 0;
    }
    let (whole, fraction) = match value.trim_ascii().split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (value.trim_ascii(), ""),
    };
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    let thousandths =
        fraction.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match whole {
        "0" => thousandths,
        "1" if thousandths == 0 => 1000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, negotiate};

    #[test]
    fn the_client_gets_what_it_likes_best() {
        for (accepted, chosen) in [
            (None, Encoding::Identity),
            (Some(""), Encoding::Identity),
            (Some("gzip, deflate, br, zstd"), Encoding::Brotli),
            (Some("gzip, deflate"), Encoding::Gzip),
            (Some("deflate, zstd"), Encoding::Identity),
            (Some("x-gzip"), Encoding::Gzip),
            (Some("GZIP"), Encoding::Gzip),
            (Some("br;q=0.5, gzip;q=0.8"), Encoding::Gzip),
            (Some("br;q=0.8,gzip;q=0.800"), Encoding::Brotli),
            (Some("gzip;q=0, br;q=0"), Encoding::Identity),
            (Some("gzip;q=0.001"), Encoding::Gzip),
            (Some("gzip ; q=1.000"), Encoding::Gzip),
            (Some("gzip; Q=0.5"), Encoding::Gzip),
            (Some("*"), Encoding::Brotli),
            (Some("*;q=0.1, br;q=0"), Encoding::Gzip),
            (Some("*;q=0"), Encoding::Identity),
            (Some("*;q=0, gzip"), Encoding::Gzip),
            (Some("identity;q=0"), Encoding::Identity),
            (Some("identity;q=0, gzip;q=0.1"), Encoding::Gzip),
            (Some("identity, gzip;q=0.5"), Encoding::Identity),
            (Some("identity;q=0.5, gzip;q=0.5"), Encoding::Gzip),
            (Some("identity;q=0.5, gzip;q=1.0"), Encoding::Gzip),
            (Some(",,gzip,,"), Encoding::Gzip),
        ] {
            assert_eq!(negotiate(accepted, &[Encoding::Brotli, Encoding::Gzip]), chosen, "{accepted:?}");
        }
    }

    #[test]
    fn a_malformed_weight_refuses_its_coding() {
        for q in ["q", "q=", "q=2", "q=1.001", "q=-1", "q=0.1234", "q=.5", "q=a", "p=1", "q=1.0x", "q=+1"] {
            let accepted = format!("gzip;{q}");
            assert_eq!(negotiate(Some(&accepted), &[Encoding::Gzip]), Encoding::Identity, "{q}");
        }
    }

    #[test]
    fn only_what_is_offered_is_chosen() {
        assert_eq!(negotiate(Some("br, gzip"), &[Encoding::Gzip]), Encoding::Gzip);
        assert_eq!(negotiate(Some("br, gzip"), &[]), Encoding::Identity);
        assert_eq!(negotiate(Some("br, gzip"), &[Encoding::Gzip, Encoding::Brotli]), Encoding::Gzip);
    }
}
