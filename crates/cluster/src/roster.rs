//! The nodes of a cluster whose list comes from elsewhere: a store, or DNS.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A node as a list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, the same for all nodes.
    pub name: String,
    /// Where the others reach it.
    pub address: SocketAddr,
    /// Its share relative to the others; 0 owns nothing.
    pub weight: u32,
}

/// The nodes that lists had. This node is always one of them.
///
/// A node that is missing from a list stays for a while: a store that starts empty, or an answer of DNS with some of the
/// nodes, must not move all objects. A node that does not answer is not asked meanwhile, listed or not.
#[derive(Debug)]
pub struct Roster {
    own: Member,
    others: BTreeMap<String, (Member, Instant)>,
    absence: Duration,
    most: usize,
}

impl Roster {
    /// A roster of this node alone. Another node is forgotten once no list had it for `absence`; there are at most `most`
    /// nodes.
    pub fn new(own: Member, absence: Duration, most: usize) -> Self {
        Self { own, others: BTreeMap::new(), absence, most }
    }

    /// Takes in a list. Of two nodes with the same name the first counts; of too many, those whose names come first.
    pub fn take_in(&mut self, list: impl IntoIterator<Item = Member>, now: Instant) {
        let mut told = BTreeMap::new();
        for member in list {
            if member.name == self.own.name {
                self.own.weight = member.weight;
            } else {
                told.entry(member.name.clone()).or_insert(member);
            }
        }
        self.others.extend(told.into_iter().map(|(name, member)| (name, (member, now))));
        let absence = self.absence;
        self.others.retain(|_, (_, seen)| now.saturating_duration_since(*seen) < absence);
        while self.others.len() >= self.most.max(1) {
            self.others.pop_last();
        }
    }

    /// All nodes by name, this one included.
    pub fn members(&self) -> Vec<Member> {
        let others = self.others.values().map(|(member, _)| member.clone());
        let mut members: Vec<Member> = others.chain([self.own.clone()]).collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENCE: Duration = Duration::from_secs(10);

    fn member(name: &str, weight: u32) -> Member {
        Member { name: name.to_owned(), address: "192.0.2.1:1".parse().unwrap(), weight }
    }

    fn names(roster: &Roster) -> Vec<String> {
        roster.members().into_iter().map(|member| format!("{} {}", member.name, member.weight)).collect()
    }

    #[test]
    fn a_node_that_is_missing_stays_for_a_while_and_this_one_for_good() {
        let start = Instant::now();
        let mut roster = Roster::new(member("b", 2), ABSENCE, 9);
        roster.take_in([member("a", 1), member("c", 1)], start);
        assert_eq!(names(&roster), ["a 1", "b 2", "c 1"]);
        roster.take_in([member("c", 4)], start + ABSENCE / 2);
        assert_eq!(names(&roster), ["a 1", "b 2", "c 4"]);
        roster.take_in([], start + ABSENCE);
        assert_eq!(names(&roster), ["b 2", "c 4"]);
        roster.take_in([member("a", 1)], start + 2 * ABSENCE);
        assert_eq!(names(&roster), ["a 1", "b 2"]);
    }

    #[test]
    fn the_list_says_what_share_this_node_has() {
        let mut roster = Roster::new(member("b", 0), ABSENCE, 9);
        roster.take_in([member("a", 1), member("b", 3)], Instant::now());
        assert_eq!(names(&roster), ["a 1", "b 3"]);
    }

    #[test]
    fn the_number_of_nodes_is_bounded_and_each_name_is_there_once() {
        let mut roster = Roster::new(member("own", 1), ABSENCE, 4);
        let list = (0..100).map(|number| member(&format!("edge{number:03}"), 1));
        roster.take_in(list.chain([member("edge000", 7)]), Instant::now());
        assert_eq!(names(&roster), ["edge000 1", "edge001 1", "edge002 1", "own 1"]);
    }
}
