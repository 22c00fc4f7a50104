//! Bounded load: an owner that has much more to do than the others sheds new work to the next in rank.

/// What a node has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of other nodes that it works on.
    pub requests: u64,
    /// Open connections of clients and nodes.
    pub connections: u64,
    /// The share of the time that its workers work, in thousandths.
    pub busy: u64,
}

/// When a node is over its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Load as a percentage of a node's share of the load of all nodes that it may have.
    pub percent_of_share: u64,
    /// A load that is never too much, so that an idle cluster does not move objects about.
    pub always: Load,
}

/// The first node of a rank whose load is within its bound, and its place in the rank. `nodes` has weight and load of each
/// node that answers, and `None` for one that does not: that one is never chosen.
///
/// Requests and connections are compared in proportion to weights. A busy node is busy whatever its weight.
pub fn first_below_bound(rank: &[usize], nodes: &[Option<(u32, Load)>], limits: LoadLimits) -> Option<usize> {
    let node = |place: &usize| nodes.get(*place).copied().flatten();
    let known: Vec<(u32, Load)> = rank.iter().filter_map(node).collect();
    let weights: u64 = known.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let sum =
        |measure: fn(&Load) -> u64| known.iter().map(|(_, load)| measure(load)).fold(0, u64::saturating_add);
    let all = Load {
        requests: sum(|load| load.requests),
        connections: sum(|load| load.connections),
        busy: sum(|load| load.busy),
    };
    let bound = |total: u64, share: u64, shares: u64, always: u64| {
        let share = (u128::from(total) * u128::from(share)).div_ceil(u128::from(shares.max(1)));
        let bound = share * u128::from(limits.percent_of_share) / 100;
        u64::try_from(bound).unwrap_or(u64::MAX).max(always)
    };
    let fits = |(weight, load): (u32, Load)| {
        let (weight, always) = (u64::from(weight), limits.always);
        load.requests <= bound(all.requests, weight, weights, always.requests)
            && load.connections <= bound(all.connections, weight, weights, always.connections)
            && load.busy <= bound(all.busy, 1, known.len() as u64, always.busy)
    };
    // With each node above one of its bounds, the first that answers is as good as any.
    let place =
        |fits: &dyn Fn((u32, Load)) -> bool| rank.iter().position(|place| node(place).is_some_and(fits));
    place(&fits).or_else(|| place(&|_| true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LoadLimits =
        LoadLimits { percent_of_share: 125, always: Load { requests: 10, connections: 100, busy: 500 } };

    fn requests(number: u64) -> Option<(u32, Load)> {
        Some((1, Load { requests: number, ..Load::default() }))
    }

    #[test]
    fn an_owner_over_its_share_sheds_to_the_next_in_rank() {
        let nodes = [requests(100), requests(20), requests(30)];
        assert_eq!(first_below_bound(&[0, 1, 2], &nodes, LIMITS), Some(1));
        assert_eq!(first_below_bound(&[2, 0, 1], &nodes, LIMITS), Some(0), "within its share");
    }

    #[test]
    fn connections_and_a_busy_cpu_shed_too() {
        let with = |connections, busy| Some((1, Load { requests: 0, connections, busy }));
        for (owner, other, expected) in [
            (with(100, 0), with(0, 0), 0),
            (with(101, 0), with(0, 0), 1),
            (with(1000, 0), with(900, 0), 0),
            (with(0, 500), with(0, 100), 0),
            (with(0, 900), with(0, 100), 1),
            (with(0, 900), with(0, 800), 0),
        ] {
            assert_eq!(first_below_bound(&[0, 1], &[owner, other], LIMITS), Some(expected), "{owner:?}");
        }
    }

    #[test]
    fn a_node_of_more_weight_may_have_more_to_do() {
        let nodes = [(3, 300), (1, 100), (1, 126)]
            .map(|(weight, requests)| Some((weight, Load { requests, ..Load::default() })));
        assert_eq!(first_below_bound(&[0, 1, 2], &nodes, LIMITS), Some(0));
        let nodes = [nodes[0], nodes[1], Some((1, Load { requests: 140, ..Load::default() }))];
        assert_eq!(first_below_bound(&[2, 0, 1], &nodes, LIMITS), Some(1));
    }

    #[test]
    fn a_small_load_is_never_too_much() {
        assert_eq!(first_below_bound(&[0, 1], &[requests(10), requests(0)], LIMITS), Some(0));
        assert_eq!(first_below_bound(&[0, 1], &[requests(11), requests(0)], LIMITS), Some(1));
    }

    #[test]
    fn nodes_that_do_not_answer_are_passed_over() {
        assert_eq!(first_below_bound(&[0, 1], &[None, requests(500)], LIMITS), Some(1));
        assert_eq!(first_below_bound(&[0, 1], &[None, None], LIMITS), None);
        assert_eq!(first_below_bound(&[], &[], LIMITS), None);
    }

    #[test]
    fn equal_loads_are_all_within_the_bound_and_large_ones_do_not_overflow() {
        for load in [0, 1, 9, 10, 11, 1_000_000, u64::MAX] {
            let nodes = [requests(load), requests(load)];
            assert_eq!(first_below_bound(&[1, 0], &nodes, LIMITS), Some(0), "{load}");
        }
    }
}
