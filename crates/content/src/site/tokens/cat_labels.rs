//! Labels of the claims of a Common Access Token (RFC 8392 §4, CTA-5007 §4).

pub(super) const ISSUER: i128 = 1;
pub(super) const SUBJECT: i128 = 2;
pub(super) const AUDIENCE: i128 = 3;
pub(super) const EXPIRES: i128 = 4;
pub(super) const BEGINS: i128 = 5;
pub(super) const ISSUED: i128 = 6;
pub(super) const ID: i128 = 7;
pub(super) const REPLAY: i128 = 308;
pub(super) const VERSION: i128 = 310;
pub(super) const ADDRESSES: i128 = 311;
pub(super) const URI: i128 = 312;
pub(super) const METHODS: i128 = 313;
pub(super) const PROTOCOLS: i128 = 314;
pub(super) const FIELDS: i128 = 315;
pub(super) const COUNTRIES: i128 = 316;
pub(super) const RENEWAL: i128 = 323;
