-- Requests for wrk: one small file, 200 files in turn, or parts of a large one. Prints the totals as one line of JSON.
-- Use: wrk ... -s wrk.lua URL -- small | segments | pieces | ranges [UNDER]

local FILES = 200 -- as harness/fixtures.py makes
local RANGE_BYTES, RANGES, BULK_BYTES = 65536, 1000, 268435456 -- the smallest large file
local names = {segments = "segment", pieces = "piece"}
local requests, turn = {}, 0

function init(args)
  local under = args[2] or "/"
  local name = names[args[1]]
  if name then
    for i = 1, FILES do
      requests[i] = wrk.format("GET", string.format("%s%s-%d.bin", under, name, i - 1))
    end
  elseif args[1] == "ranges" then
    math.randomseed(1)
    for i = 1, RANGES do
      local first = math.random(0, BULK_BYTES - RANGE_BYTES)
      local fields = {}
      for field, value in pairs(wrk.headers) do fields[field] = value end
      fields["Range"] = string.format("bytes=%d-%d", first, first + RANGE_BYTES - 1)
      requests[i] = wrk.format("GET", under .. "bulk.bin", fields)
    end
  else
    requests[1] = wrk.format("GET", under .. "small.bin")
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "wire_bytes": %d, "duration_us": %d, "errors": %d, "latency_p50_us": %d, "latency_p99_us": %d}\n',
    summary.requests, summary.bytes, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
