//! Bounded load: an owner that has much more to do than the others sheds new work to the next in rank.

/// When a node is over its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Load as a percentage of the mean of all nodes that a node may have.
    pub percent_of_mean: u64,
    /// A load that is never too much, so that an idle cluster does not move objects about.
    pub always: u64,
}

/// The first node of a rank whose load is within its bound, and its place in the rank. `loads` has the load of each node
/// that answers, and `None` for one that does not: that one is never chosen.
pub fn first_below_bound(rank: &[usize], loads: &[Option<u64>], limits: LoadLimits) -> Option<usize> {
    let load_of = |node: &usize| loads.get(*node).copied().flatten();
    let known: Vec<u64> = rank.iter().filter_map(load_of).collect();
    let total: u64 = known.iter().sum();
    let mean = total.div_ceil((known.len() as u64).max(1));
    let bound = (mean.saturating_mul(limits.percent_of_mean) / 100).max(limits.always);
    let place = |fits: &dyn Fn(u64) -> bool| rank.iter().position(|node| load_of(node).is_some_and(fits));
    // With all loads above the bound, which only rounding can cause, the first that answers is as good as any.
    place(&|load| load <= bound).or_else(|| place(&|_| true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LoadLimits = LoadLimits { percent_of_mean: 125, always: 10 };

    #[test]
    fn an_owner_over_its_share_sheds_to_the_next_in_rank() {
        let loads = [Some(100), Some(20), Some(30)];
        assert_eq!(first_below_bound(&[0, 1, 2], &loads, LIMITS), Some(1));
        assert_eq!(first_below_bound(&[2, 0, 1], &loads, LIMITS), Some(0), "within its share");
    }

    #[test]
    fn a_small_load_is_never_too_much() {
        assert_eq!(first_below_bound(&[0, 1], &[Some(10), Some(0)], LIMITS), Some(0));
        assert_eq!(first_below_bound(&[0, 1], &[Some(11), Some(0)], LIMITS), Some(1));
    }

    #[test]
    fn nodes_that_do_not_answer_are_passed_over() {
        assert_eq!(first_below_bound(&[0, 1], &[None, Some(500)], LIMITS), Some(1));
        assert_eq!(first_below_bound(&[0, 1], &[None, None], LIMITS), None);
        assert_eq!(first_below_bound(&[], &[], LIMITS), None);
    }

    #[test]
    fn equal_loads_are_all_within_the_bound() {
        for load in [0, 1, 9, 10, 11, 1_000_000] {
            assert_eq!(first_below_bound(&[1, 0], &[Some(load), Some(load)], LIMITS), Some(0), "{load}");
        }
    }
}
