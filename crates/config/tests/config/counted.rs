//! What is counted, and how.

use penstock_config::{ClientTable, CountedMetrics};

use super::fixture::{Fixture, around};

#[test]
fn the_section_of_metrics_has_rates_titles_and_a_table_of_clients() {
    let fixture = Fixture::new();
    assert_eq!(fixture.read(&around("metrics:")).unwrap().metrics, CountedMetrics::default());
    std::fs::write(fixture.path().join("clients.txt"), "television Our Box/\n").unwrap();
    let text = "metrics: {rates: [750000, 250000, 750000], title_directories: 3, clients: clients.txt}";
    let read = fixture.read(&around(text)).unwrap().metrics;
    assert_eq!((read.rates, read.title_directories), (vec![250_000, 750_000], 3));
    assert_eq!(read.clients, ClientTable::read(&fixture.path().join("clients.txt")).unwrap());
    assert_ne!(read.clients, ClientTable::default());
}

#[test]
fn a_wrong_section_of_metrics_is_told_what_to_write() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path().join("clients.txt"), "radio a\n").unwrap();
    for (keys, fault) in [
        (
            "title_directories: 0",
            "title_directories: 0 is out of range; write a number from 1 to 8".to_owned(),
        ),
        ("rates: [1, 2, 3, 4, 5, 6, 7, 8, 9]", "rates: there are 9 of them; write at most 8".to_owned()),
        (
            "clients: clients.txt",
            "clients: DIR/clients.txt line 1: `radio` is no kind; write one of browser, phone, television, tool, other; write \
             a file with a kind and a part of User-Agent in each line"
                .to_owned(),
        ),
    ] {
        let faults = fixture.faults(&around(&format!("metrics: {{{keys}}}")));
        assert_eq!(faults, [format!("edge.yaml:3: {fault}")], "{keys}");
    }
}
