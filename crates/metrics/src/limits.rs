//! The bounds of the metrics.

/// Listeners with labels of their own. The connections of all later listeners are counted together.
pub(crate) const LISTENERS: usize = 64;

/// Label sets of one counter per worker; all later label sets are counted as `other`. All TLS alerts in both directions
/// are 70 sets; clients negotiate fewer combinations of version, cipher, group and resumption.
pub(crate) const LABEL_SETS: usize = 128;

/// Certificates with a series of their own: the ones that expire first.
pub(crate) const CERTIFICATES: usize = 100;
