//! Numbers by the text with which a text begins, found in one walk over its bytes.

/// A radix tree: an edge has all bytes up to the next fork.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// The bytes that lead here from the node above; empty for the first node only.
    label: Vec<u8>,
    /// The nodes below by the first byte of their labels, sorted.
    below: Vec<(u8, usize)>,
    /// The numbers of the text that ends here, ascending.
    numbers: Vec<usize>,
}

impl Default for PrefixTree {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl PrefixTree {
    /// Adds a text with a number, which is greater than those before.
    pub(crate) fn add(&mut self, text: &[u8], number: usize) {
        let (mut at, mut left) = (0, text);
        while let Some(&first) = left.first() {
            let place = match self.nodes[at].below.binary_search_by_key(&first, |(byte, _)| *byte) {
                Ok(place) => place,
                Err(place) => {
                    let new = self.nodes.len();
                    self.nodes.push(Node { label: left.to_vec(), ..Node::default() });
                    self.nodes[at].below.insert(place, (first, new));
                    place
                }
            };
            let next = self.nodes[at].below[place].1;
            let label = &self.nodes[next].label;
            let common = label.iter().zip(left).take_while(|(one, other)| one == other).count();
            if common < label.len() {
                self.split(next, common);
            }
            (at, left) = (next, &left[common..]);
        }
        self.nodes[at].numbers.push(number);
    }

    /// Makes a node of the first `length` bytes of a label; what the node was is below it.
    fn split(&mut self, at: usize, length: usize) {
        let rest = self.nodes[at].label.split_off(length);
        let (first, lower) = (rest[0], self.nodes.len());
        let upper = &mut self.nodes[at];
        let node = Node {
            label: rest,
            below: std::mem::replace(&mut upper.below, vec![(first, lower)]),
            numbers: std::mem::take(&mut upper.numbers),
        };
        self.nodes.push(node);
    }

    /// Calls `see` with the numbers of each text with which `text` begins.
    pub(crate) fn walk(&self, mut text: impl Iterator<Item = u8>, mut see: impl FnMut(&[usize])) {
        let mut node = &self.nodes[0];
        loop {
            if !node.numbers.is_empty() {
                see(&node.numbers);
            }
            let Some(first) = text.next() else { return };
            let Ok(place) = node.below.binary_search_by_key(&first, |(byte, _)| *byte) else { return };
            node = &self.nodes[node.below[place].1];
            if node.label[1..].iter().any(|byte| text.next() != Some(*byte)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of up to `length` letters.
    fn texts(length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut start = 0;
        for _ in 0..length {
            let end = all.len();
            for at in start..end {
                for letter in ["a", "b", "/"] {
                    all.push(format!("{}{letter}", all[at]));
                }
            }
            start = end;
        }
        all
    }

    #[test]
    fn a_walk_finds_the_same_as_a_comparison_with_each_text() {
        let probes = texts(5);
        // Each step keeps other texts, in another order.
        for step in [1, 2, 3, 5, 7, 11, 16] {
            let all = texts(4);
            let added: Vec<&String> =
                (0..all.len()).map(|at| &all[at * 23 % all.len()]).step_by(step).collect();
            let mut tree = PrefixTree::default();
            for (number, text) in added.iter().enumerate() {
                tree.add(text.as_bytes(), number);
            }
            for probe in &probes {
                let mut found = Vec::new();
                tree.walk(probe.bytes(), |numbers| {
                    assert!(numbers.is_sorted());
                    found.extend_from_slice(numbers);
                });
                found.sort_unstable();
                let is_start = |number: &usize| probe.starts_with(added[*number].as_str());
                let wanted: Vec<usize> = (0..added.len()).filter(is_start).collect();
                assert_eq!(found, wanted, "{step} {probe}");
            }
        }
    }
}
