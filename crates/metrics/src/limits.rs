//! The bounds of the metrics.

/// Listeners with labels of their own. The connections of all later listeners are counted together.
pub(crate) const LISTENERS: usize = 64;

/// Label sets of one counter per worker; all later label sets are counted as `other`. All TLS alerts in both directions
/// are 70 sets; clients negotiate fewer combinations of version, cipher, group and resumption.
pub(crate) const LABEL_SETS: usize = 128;

/// Certificates with a series of their own: the ones that expire first.
pub(crate) const CERTIFICATES: usize = 100;

/// Sites with labels of their own. The requests of all later sites are counted together. docs/numbers.md has the memory of each.
pub(crate) const SITES: usize = 1024;

/// Edges of a fleet with series of their own, and those that `/status.json` names.
pub(crate) const FLEET_EDGES: usize = 1000;
pub(crate) const FLEET_EDGES_SHOWN: usize = 100;

/// Rates that the configurations of one process can name; further ones are not counted.
pub(crate) const RATES: usize = 16;

/// Entries that stay in a table of the most frequent keys of one worker. The error of a count is at most this part of the total.
pub(crate) const TOP_KEYS: usize = 512;

/// Entries of such a table. Those beyond [`TOP_KEYS`] are evicted together: the more they are, the less each costs.
pub(crate) const TOP_ENTRIES: usize = 704;

/// Cells in which keys without an entry are counted.
pub(crate) const TOP_CELLS: usize = 4096;

/// Bytes of what a client has made of such a key; the name of the site stands in front. docs/numbers.md has the memory of the tables.
pub(crate) const TOP_KEY_BYTES: usize = 256;

/// Kinds of clients that one worker keeps by what tells them, so that it seldom looks into the table of kinds.
pub(crate) const KNOWN_KINDS: usize = 256;

/// Entries shown of each table.
pub(crate) const TOP_KEYS_SHOWN: usize = 25;
