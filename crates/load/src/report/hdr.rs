//! The HDR histogram log (V2 format, times in seconds, values in nanoseconds).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::latencies::Latencies;

/// A log that is being written.
pub struct HdrLog {
    file: BufWriter<File>,
}

impl HdrLog {
    /// Starts a log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut log = Self { file: BufWriter::new(File::create(path)?) };
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("latencies of penstock load in nanoseconds");
        builder.with_start_time(SystemTime::now());
        builder.begin_log_with(&mut log.file, &mut serializer)?;
        Ok(log)
    }

    /// Adds the latencies of an interval that started at `start` of the run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, start: Duration, length: Duration, latencies: &Latencies) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        // A second writer adds only the line, without a heading. The maximum is in milliseconds.
        let mut line = Vec::new();
        let mut writer = IntervalLogWriterBuilder::new();
        writer.with_max_value_divisor(1e6);
        let mut writer = writer.begin_log_with(&mut line, &mut serializer)?;
        let written = writer.write_histogram(latencies.histogram(), start, length, Tag::new("total"));
        written.map_err(|error| io::Error::other(error.to_string()))?;
        let text = String::from_utf8(line).map_err(io::Error::other)?;
        for line in text.lines().filter(|line| !line.starts_with(['#', '"'])) {
            writeln!(self.file, "{line}")?;
        }
        Ok(())
    }

    /// Ends the log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn the_log_reads_back_as_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.hlog");
        let mut log = HdrLog::create(&path).unwrap();
        for second in 0..2 {
            let mut latencies = Latencies::default();
            for count in 0..=second {
                latencies.note(Duration::from_millis(10 + count));
            }
            log.add(Duration::from_secs(second), Duration::from_secs(1), &latencies).unwrap();
        }
        log.finish().unwrap();
        let text = std::fs::read(&path).unwrap();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let bytes = base64_decoded(interval.encoded_histogram());
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                counts.push((
                    interval.start_timestamp().as_secs(),
                    histogram.len(),
                    histogram.max() / 1_000_000,
                ));
            }
        }
        assert_eq!(counts, [(0, 1, 10), (1, 2, 11)]);
    }

    fn base64_decoded(text: &str) -> Vec<u8> {
        boring::base64::decode_block(text).unwrap()
    }
}
