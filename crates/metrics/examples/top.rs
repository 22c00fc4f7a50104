//! Counts responses in the tables of the most frequent keys, for a tool that counts the instructions:
//!
//! ```text
//! cargo build --release --package penstock-metrics --example top
//! valgrind --tool=callgrind target/release/examples/top 2000 300000
//! ```
//!
//! The first argument is the number of equally popular titles, the second that of responses.
#![expect(clippy::unwrap_used, reason = "a tool stops where it cannot go on")]

use std::fmt::Display;

use penstock_metrics::{Asked, ClientKind, ClientMarks, Metrics};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u32>().unwrap());
    let (count, responses) = (numbers.next().unwrap(), numbers.next().unwrap());
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    let titles: Vec<String> = (0..count).map(|number| format!("/videos/title-{number}.mp4")).collect();
    let user_agent = Some("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)");
    let client = ClientMarks { user_agent, ja4: None, table: 1, kind: &|| ClientKind::Browser };
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..responses {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        shard.asked(&Asked {
            site: "video.example",
            title: &titles[(random % count) as usize],
            player: None,
            refused_path: None,
            network: Some((1, &"192.0.2.0/24" as &dyn Display)),
            client,
            bytes: 1024,
        });
    }
}
