//! Settings of origins for tests: patient, so that no test depends on the speed of the machine.

use std::time::Duration;

use penstock_origin::http::{HealthLimits, MinimumRate, OriginLimits};

const MINUTE: Duration = Duration::from_secs(60);

/// Limits that only a test that changes them meets.
pub(crate) const LIMITS: OriginLimits = OriginLimits {
    connect: MINUTE,
    first_byte: MINUTE,
    between_bytes: MINUTE,
    minimum_rate: MinimumRate { bytes_per_second: 0, window: MINUTE },
    head_bytes: 65_536,
    read_bytes: 128 * 1024,
    head_fields: 100,
    idle_connections: 4,
    connection_age: MINUTE,
    connections: 4,
    waiting: 4,
    lookups: 2,
    retries: 0,
    redirects: 3,
    sessions: 4,
    health: HealthLimits {
        unhealthy_after: 3,
        healthy_after: 1,
        backoff: MINUTE,
        backoff_max: MINUTE,
        checked: false,
    },
};
